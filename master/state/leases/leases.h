#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace embers {

// What one worker holds: a few, in order, and mostly one. It stands in the table that leads to it, since with
// thousands of workers each piece of memory of its own is in no cache when its turn comes.
template <class Key>
using FewInOrder = boost::container::flat_set<Key, std::less<Key>, boost::container::small_vector<Key, 2>>;

// Who computes which minibatch. Plain state, owned by the master.
//
// Invariants: (1) every minibatch of [0, total) is exactly one of: not yet granted, waiting to be granted
// again, held by one lease, done; (2) an attempt number of a minibatch is granted once; (3) nothing is ever
// dropped: what a worker does not finish is granted again; (4) a minibatch is completed once, by whichever
// attempt at it comes first.
class LeaseBook {
 public:
  struct Part {
    uint64_t minibatch;
    uint32_t attempt;
  };
  struct Lease {
    uint64_t id;
    std::vector<Part> parts;
  };

  // Minibatches of which one of `of` workers is to compute every one that has its remainder.
  struct Stripe {
    uint64_t of = 1, remainder = 0;
    bool has(uint64_t minibatch) const { return minibatch % of == remainder; }
  };

  // Minibatches [first, total) and those of `again` are to be done; the others are. Ids of leases go on after
  // `last_lease`, so that what is said late about a lease of another book is not taken for one of this.
  explicit LeaseBook(uint64_t total = 0, uint64_t first = 0, const std::vector<uint64_t>& again = {},
                     uint64_t last_lease = 0);

  // Minibatches from `limit` on are not granted until it is raised.
  void set_limit(uint64_t limit) { limit_ = limit; }
  // Up to `most` minibatches for the worker, in order; nothing when none is available now. The work on them
  // begins when begin() says so, or (`begun`) at once.
  std::optional<Lease> grant(uint64_t worker, uint32_t most, bool begun = true);
  // The lowest minibatch of the stripe, beyond the limit, too. Those that are passed over stay available.
  std::optional<Lease> grant_ahead(uint64_t worker, const Stripe& stripe);
  // The lowest minibatch of the stripe that grant_ahead() would give.
  std::optional<uint64_t> lowest_free(const Stripe& stripe) const;
  std::optional<uint64_t> lowest_free() const { return lowest_free(Stripe()); }
  // The work on it begins. False: the worker does not hold it any more.
  bool holds(uint64_t lease, uint64_t minibatch, uint32_t attempt) const {
    return find(lease, minibatch, attempt) != nullptr;
  }
  bool has_begun(uint64_t minibatch) const { return held_.find(minibatch)->begun; }  // that somebody holds
  bool begin(uint64_t lease, uint64_t minibatch, uint32_t attempt);
  // The lowest minibatch that the worker holds and has not begun.
  std::optional<uint64_t> lowest_not_begun(uint64_t worker) const;
  // The worker has finished it; false when somebody else had before, or it was taken from that worker.
  bool complete(uint64_t lease, uint64_t minibatch, uint32_t attempt);
  // The worker cannot finish it. True when it waits to be granted again for this reason.
  bool give_back(uint64_t lease, uint64_t minibatch, uint32_t attempt);
  // The worker is late: what it holds is to be granted again, though it may still complete it. Returns how
  // much.
  size_t open(uint64_t worker);
  // The worker goes on: it holds again what nobody else was granted meanwhile.
  void reclaim(uint64_t worker);
  // A minibatch that waits to be granted again turned out to be done.
  void mark_done(uint64_t minibatch) { again_.erase(minibatch); }
  // What the worker holds of leases after `received` is to be granted again; returns how much.
  size_t revoke(uint64_t worker, uint64_t received = 0);

  // Whether grant() would give anything.
  bool has_work() const {
    return next_ < std::min(limit_, total_) || (!again_.empty() && again_.begin()->first < limit_);
  }
  bool finished() const { return next_ == total_ && again_.empty() && held_.empty(); }
  bool idle() const { return held_.empty(); }
  // Somebody works on something that it holds.
  bool works() const { return held_.begun() > 0; }
  // A late worker has begun something that others have not done yet: what it does may still count.
  bool contested() const;
  size_t held() const { return held_.size(); }
  // What the worker has not finished yet, even if others were granted it, too, or have completed it.
  size_t unfinished_by(uint64_t worker) const;
  // Nobody completes anything of it any more that others were granted, too.
  void forget_late() { late_ = {}; }
  size_t late() const { return late_.size(); }  // attempts that others were granted, too
  uint64_t total() const { return total_; }
  uint64_t last_lease() const { return last_lease_; }
  uint64_t done() const { return next_ - again_.size() - held_.size(); }
  // The cursor of a book that is idle: the first minibatch never granted, and those before it that are not
  // done.
  uint64_t next() const { return next_; }
  std::vector<uint64_t> again() const;
  // The same of a book that is not idle: what is held counts as never granted.
  std::vector<uint64_t> undone() const;

 private:
  struct Held {
    uint64_t worker;
    uint64_t lease;
    uint32_t attempt;
    bool begun;
  };
  using Attempt = std::pair<uint64_t, uint32_t>;  // minibatch, number
  // What is held, by Key, and by whom: one worker's share is found without a look at the others', of whom
  // there may be thousands.
  template <class Key>
  class Holdings {
   public:
    const Held* find(const Key& key) const {
      const auto found = all_.find(key);
      return found == all_.end() ? nullptr : &found->second;
    }
    Held* find(const Key& key) {
      const auto found = all_.find(key);
      return found == all_.end() ? nullptr : &found->second;
    }
    void put(const Key& key, const Held& held) {
      all_.emplace(key, held);
      of_[held.worker].insert(key);
      begun_ += held.begun;
    }
    void begin(const Key& key) { begun_ += !std::exchange(all_.at(key).begun, true); }
    void erase(const Key& key);
    const FewInOrder<Key>& keys_of(uint64_t worker) const {
      static const FewInOrder<Key> none;
      const auto found = of_.find(worker);
      return found == of_.end() ? none : found->second;
    }
    // A copy, so that what is held may change while it is gone through.
    std::vector<Key> of(uint64_t worker) const;
    size_t count(uint64_t worker) const {
      const auto found = of_.find(worker);
      return found == of_.end() ? 0 : found->second.size();
    }
    bool empty() const { return all_.empty(); }
    size_t size() const { return all_.size(); }
    size_t begun() const { return begun_; }
    const absl::flat_hash_map<Key, Held>& all() const { return all_; }  // in no order

   private:
    absl::flat_hash_map<Key, Held> all_;
    absl::flat_hash_map<uint64_t, FewInOrder<Key>> of_;  // by worker; none of them is empty
    size_t begun_ = 0;
  };
  const Held* find(uint64_t lease, uint64_t minibatch, uint32_t attempt) const;

  uint64_t total_;
  uint64_t next_;
  uint64_t limit_;
  uint64_t last_lease_;
  std::map<uint64_t, uint32_t> again_;  // minibatch -> attempts so far
  Holdings<uint64_t> held_;             // by minibatch
  Holdings<Attempt> late_;              // attempts at minibatches that others may complete, or have
};

// How many minibatches of an evaluation may be under way at once: leased, or waiting to be counted. They are
// bounded so that a slow disk, or one slow worker, does not fill memory with the results of the others: to
// 4 million records, but at least two minibatches per worker.
uint64_t evaluation_window(uint64_t batch_size, uint64_t workers);

}  // namespace embers
