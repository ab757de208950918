#include "actors/owner/staging.h"

#include <set>
#include <utility>

namespace embers {

bool Staging::add(PushPtr push) {
  const Origin& origin = push->origin;
  const auto known = staged_.find(origin.minibatch);
  if (known != staged_.end()) return known->second->origin.attempt == origin.attempt;
  if (journal_) journal_->add(push->message);
  staged_.emplace(origin.minibatch, std::move(push));
  return true;
}

void Staging::add_again(PushPtr push) {
  const uint64_t minibatch = push->origin.minibatch;
  staged_.try_emplace(minibatch, std::move(push));
}

VersionSum Staging::add_up(wire::CommitRequest::Reader commit, std::span<const TableSpec> tables) const {
  std::vector<WeightedSlices> parts;
  VersionSum sum;
  std::set<uint64_t> seen;
  for (const auto part : commit.getMinibatches()) {
    const auto staged = staged_.find(part.getMinibatch());
    if (staged == staged_.end())
      fail(ErrorCode::kInternal, "commit of version {}: minibatch {} was never staged", commit.getVersion(),
           part.getMinibatch());
    if (!seen.insert(part.getMinibatch()).second)
      fail(ErrorCode::kInvalid, "commit of version {}: minibatch {} is in it twice", commit.getVersion(),
           part.getMinibatch());
    const FiniteGradients& gradients = staged->second->gradients;
    sum.left_out += gradients.left_out;
    parts.push_back({static_cast<float>(part.getWeight()), gradients.tables});
  }
  sum.tables = accumulate(parts, tables);
  return sum;
}

void Staging::drop(uint64_t minibatch) {
  staged_.erase(minibatch);
  if (journal_ && staged_.empty()) journal_->clear();
}

}  // namespace embers
