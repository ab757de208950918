#include "master/versions.h"

#include <algorithm>

#include "actors/owner/norms.h"

namespace embers {

VersionWindow::VersionWindow(uint64_t version, uint64_t first, uint64_t total, uint32_t window,
                             job::Reduction reduction)
    : version_(version),
      begin_(first),
      limit_(std::min(first + window, total)),
      total_(total),
      window_(window),
      reduction_(reduction) {}

void VersionWindow::fill(wire::CommitRequest::Builder commit) const {
  uint64_t examples = 0;
  for (const auto& [minibatch, done] : done_) examples += done.examples;
  commit.setVersion(version_ + 1);
  auto parts = commit.initMinibatches(done_.size());
  unsigned i = 0;
  for (const auto& [minibatch, done] : done_) {
    parts[i].setMinibatch(minibatch);
    parts[i].setAttempt(done.attempt);
    const double share =
        examples == 0 ? 0.0 : static_cast<double>(done.examples) / static_cast<double>(examples);
    parts[i++].setWeight(reduction_ == job::Reduction::kMean ? share : 1.0);
  }
}

Message<wire::CommitRequest> VersionWindow::commit(const storage::SquaredNorms& norms) const {
  return make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) {
    fill(b);
    write_norms(b, norms);
  });
}

Message<wire::NormsRequest> VersionWindow::norms_request() const {
  return make_message<wire::NormsRequest>([&](wire::NormsRequest::Builder b) { fill(b.initCommit()); });
}

void VersionWindow::advance() {
  ++version_;
  begin_ = limit_;
  limit_ = std::min(begin_ + window_, total_);
  done_.clear();
}

}  // namespace embers
