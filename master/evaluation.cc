#include "master/evaluation.h"

#include <algorithm>

namespace embers {

double auc(std::span<const float> scores, std::span<const float> labels) {
  ExactAuc exact;
  exact.add(scores, labels);
  return exact.value();
}

EvaluatedMinibatch read_evaluated(wire::DoneRequest::Reader request) {
  const EvaluatedMinibatch result{read_floats(request.getScores()), read_floats(request.getLabels()),
                                  read_words(request.getRecords()), request.getLossSum(),
                                  request.getExamples()};
  for (const size_t size : {result.labels.size(), result.records.size()})
    if (size != 0 && size != result.scores.size())
      fail(ErrorCode::kBadFrame, "minibatch {}: {} scores come with {} labels and {} record numbers",
           request.getMinibatch(), result.scores.size(), result.labels.size(), result.records.size());
  return result;
}

void PredictionFile::add(const EvaluatedMinibatch& m) {
  constexpr size_t kWrite = size_t{1} << 20;  // bytes
  if (m.records.size() != m.scores.size())
    fail(ErrorCode::kBadFrame, "{} scores come with {} record numbers", m.scores.size(), m.records.size());
  for (size_t i = 0; i < m.scores.size(); ++i) {
    const auto out = std::back_inserter(text_);
    m.labels.empty() ? fmt::format_to(out, "{},{},\n", m.records[i], m.scores[i])
                     : fmt::format_to(out, "{},{},{}\n", m.records[i], m.scores[i], m.labels[i]);
    if (text_.size() >= kWrite) write();
  }
}

void PredictionFile::write() {
  file_.write(text_);
  text_.clear();
}

void PredictionFile::finish() {
  write();
  file_.finish();
}

Evaluation::Evaluation(const std::string& predictions, size_t memory) : auc_(memory) {
  if (!predictions.empty()) predictions_ = std::make_unique<PredictionFile>(predictions);
}

void Evaluation::add(const Message<wire::DoneRequest>& result) {
  early_.emplace(result.get().getMinibatch(), result);
  for (; !early_.empty() && early_.begin()->first == next_; ++next_, early_.erase(early_.begin()))
    count(read_evaluated(early_.begin()->second.get()));
}

void Evaluation::count(const EvaluatedMinibatch& result) {
  if (predictions_) predictions_->add(result);
  auc_.add(result.scores, result.labels);
  loss_sum_ += result.loss_sum;
  examples_ += result.examples;
  scores_ += result.scores.size();
  labels_ += result.labels.size();
  for (size_t i = 0; i < result.labels.size(); ++i)
    right_ += (result.scores[i] >= 0.5f) == (result.labels[i] > 0.5f);
}

Evaluation::Metrics Evaluation::finish() {
  const Metrics result = metrics();
  if (predictions_) predictions_->finish();
  return result;
}

Evaluation::Metrics Evaluation::metrics() {
  if (scores_ != labels_) return {kNaN, kNaN, kNaN, examples_};
  const auto mean = [](double sum, uint64_t n) { return n == 0 ? kNaN : sum / static_cast<double>(n); };
  return {mean(loss_sum_, examples_), auc_.value(), mean(static_cast<double>(right_), scores_), examples_};
}

void RecentWindow::add(const EvaluatedMinibatch& result) {
  const auto first = [](std::span<const float> floats) {
    return std::vector<float>(
        floats.begin(), floats.begin() + static_cast<ptrdiff_t>(std::min<size_t>(floats.size(), kExamples)));
  };
  examples_ += result.examples;
  window_.push_back({first(result.scores), first(result.labels), result.loss_sum, result.examples});
  while (window_.size() > 1 && examples_ - window_.front().examples >= kExamples) {
    examples_ -= window_.front().examples;
    window_.pop_front();
  }
}

double RecentWindow::auc() const {
  ExactAuc auc;
  for (const Minibatch& m : window_) auc.add(m.scores, m.labels);
  return auc.value();
}

double RecentWindow::loss() const {
  double sum = 0;
  for (const Minibatch& m : window_) sum += m.loss_sum;
  return examples_ == 0 ? kNaN : sum / static_cast<double>(examples_);
}

}  // namespace embers
