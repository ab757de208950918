#include "master/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace embers {
namespace {

struct Flat {
  std::vector<float> scores, labels;
  double loss_sum = 0;
  uint64_t examples = 0;

  void add(const EvaluatedMinibatch& m) {
    scores.insert(scores.end(), m.scores.begin(), m.scores.end());
    labels.insert(labels.end(), m.labels.begin(), m.labels.end());
    loss_sum += m.loss_sum;
    examples += m.examples;
  }
};

}  // namespace

double auc(std::span<const float> scores, std::span<const float> labels) {
  const auto is_nan = [](float score) { return std::isnan(score); };
  if (scores.size() != labels.size() || std::any_of(scores.begin(), scores.end(), is_nan)) return kNaN;
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a] < scores[b]; });
  double positives = 0, negatives = 0, area = 0;
  for (size_t i = 0; i < order.size();) {
    double tied_positives = 0, tied_negatives = 0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i)
      (labels[order[i]] > 0.5f ? tied_positives : tied_negatives) += 1;
    area += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  return positives > 0 && negatives > 0 ? area / (positives * negatives) : kNaN;
}

double accuracy(std::span<const float> scores, std::span<const float> labels) {
  if (scores.empty() || scores.size() != labels.size()) return kNaN;
  size_t right = 0;
  for (size_t i = 0; i < scores.size(); ++i) right += (scores[i] >= 0.5f) == (labels[i] > 0.5f);
  return static_cast<double>(right) / static_cast<double>(scores.size());
}

Evaluation::Metrics Evaluation::metrics() const {
  Flat flat;
  for (const auto& [minibatch, result] : results_) flat.add(result);
  const bool labelled = flat.examples > 0 && flat.labels.size() == flat.scores.size();
  return {labelled ? flat.loss_sum / static_cast<double>(flat.examples) : kNaN,
          embers::auc(flat.scores, flat.labels), embers::accuracy(flat.scores, flat.labels), flat.examples};
}

void RecentWindow::add(EvaluatedMinibatch result) {
  examples_ += result.examples;
  window_.push_back(std::move(result));
  while (window_.size() > 1 && examples_ - window_.front().examples >= kExamples) {
    examples_ -= window_.front().examples;
    window_.pop_front();
  }
}

double RecentWindow::auc() const {
  Flat flat;
  for (const EvaluatedMinibatch& m : window_) flat.add(m);
  return embers::auc(flat.scores, flat.labels);
}

double RecentWindow::loss() const {
  double sum = 0;
  for (const EvaluatedMinibatch& m : window_) sum += m.loss_sum;
  return examples_ == 0 ? kNaN : sum / static_cast<double>(examples_);
}

}  // namespace embers
