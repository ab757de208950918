#include "master/state/leases/versions.h"

#include <algorithm>

namespace embers {

VersionWindow::VersionWindow(uint64_t version, uint64_t first, uint64_t total, uint32_t window,
                             job::Reduction reduction)
    : version_(version),
      begin_(first),
      limit_(std::min(first + window, total)),
      total_(total),
      window_(window),
      reduction_(reduction) {}

Commit VersionWindow::commit(storage::SquaredNorms norms) const {
  uint64_t examples = 0;
  for (const auto& [minibatch, done] : done_) examples += done.examples;
  Commit commit{version_ + 1, {}, std::move(norms)};
  for (const auto& [minibatch, done] : done_) {
    const double share =
        examples == 0 ? 0.0 : static_cast<double>(done.examples) / static_cast<double>(examples);
    commit.parts.push_back({minibatch, done.attempt, reduction_ == job::Reduction::kMean ? share : 1.0});
  }
  return commit;
}

void VersionWindow::advance() {
  ++version_;
  begin_ = limit_;
  limit_ = std::min(begin_ + window_, total_);
  done_.clear();
}

}  // namespace embers
