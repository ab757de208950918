#include "bench/engine/insert.h"

#include <absl/container/flat_hash_map.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "bench/engine/one_core.h"
#include "bench/engine/table.h"
#include "bench/harness/bench.h"
#include "bench/harness/compare.h"
#include "bench/harness/processes.h"
#include "storage/memory/pages.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kAheads[] = {8, 16, 24,
                              32};  // keys that abseil's side prefetches ahead: the best one counts

// For arrays that are large and accessed at random. As in ours, memory goes back to the kernel at once.
template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class Other>
  HugePages(const HugePages<Other>&) {}
  T* allocate(size_t n) {
    const size_t size = bytes(n), more = size + storage::kHugePage;
    void* const memory = ::mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(memory);
    const size_t before = -reinterpret_cast<uintptr_t>(begin) % storage::kHugePage;
    if (before > 0) ::munmap(begin, before);
    if (before < storage::kHugePage) ::munmap(begin + before + size, storage::kHugePage - before);
    ::madvise(begin + before, size, MADV_HUGEPAGE);
    return reinterpret_cast<T*>(begin + before);
  }
  void deallocate(T* memory, size_t n) { ::munmap(memory, bytes(n)); }
  template <class Other>
  bool operator==(const HugePages<Other>&) const {
    return true;
  }

 private:
  static size_t bytes(size_t n) {
    return (n * sizeof(T) + storage::kHugePage - 1) / storage::kHugePage * storage::kHugePage;
  }
};

// What a user could build from a well-maintained map in a day: the peer of insertion.
class AbseilTable {
 public:
  AbseilTable(uint32_t dim, size_t ahead)
      : dim_(dim), ahead_(ahead), rows_per_slab_(storage::kHugePage / (12 * size_t{dim})) {}
  void add_if_absent(std::span<const int64_t> keys, std::span<const float> values) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i + ahead_ < keys.size()) rows_.prefetch(keys[i + ahead_]);
      const auto [at, added] = rows_.try_emplace(keys[i], static_cast<uint32_t>(rows_.size()));
      if (added) std::memcpy(append(), &values[i * dim_], dim_ * sizeof(float));
    }
  }
  const float* find(int64_t key) const {
    const auto at = rows_.find(key);
    return at == rows_.end() ? nullptr : row(at->second);
  }

 private:
  float* row(size_t number) const {
    return slabs_[number / rows_per_slab_] + number % rows_per_slab_ * 3 * dim_;
  }
  float* append() {
    if ((rows_.size() - 1) / rows_per_slab_ == slabs_.size()) add_slabs();
    return row(rows_.size() - 1);
  }

  // As many at once as there are, as ours.
  void add_slabs() {
    const size_t count = std::clamp<size_t>(slabs_.size(), 16, 512);
    auto* const floats =
        reinterpret_cast<float*>(pages_.emplace_back(count * storage::kHugePage, true).data());
    for (size_t i = 0; i < count; ++i) slabs_.push_back(floats + i * storage::kHugePage / sizeof(float));
  }

  size_t dim_, ahead_;
  size_t rows_per_slab_;
  absl::flat_hash_map<int64_t, uint32_t, absl::flat_hash_map<int64_t, uint32_t>::hasher, std::equal_to<>,
                      HugePages<std::pair<const int64_t, uint32_t>>>
      rows_;
  std::vector<float*> slabs_;
  std::vector<storage::Pages> pages_;
};

// The keys of the insertion that begins at this row: those of new rows, and every fourth an older one (of a
// number whose remainder by 4 is 2, as only new ones have).
std::vector<int64_t> keys_from(uint64_t row) {
  std::vector<int64_t> keys;
  for (uint64_t i = 0; i < kBatch; ++i) keys.push_back(key_of(i % 4 == 3 ? row / 2 + i - 1 : row + i));
  return keys;
}

// Memory comes back to the kernel as it is needed, which does not count; or at once, before. The latter on
// two cores, where both ways are noisy and this one was less so (dim 64, fourteen fillings of each in a loop:
// medians of 115 and 179 ns of CPU).
Cost insert_all(uint64_t rows, uint64_t bytes_per_row, bool at_once,
                const std::function<void(std::span<const int64_t>)>& add) {
  WarmMemory memory(rows * bytes_per_row);
  if (at_once) memory.give_back(rows * bytes_per_row);
  double left_out = 0, cpu_left_out = 0;
  const auto begin = BenchClock::now();
  const double cpu = cpu_seconds_of_this_process();
  for (uint64_t row = 0; row < rows; row += kBatch) {
    const auto pause = BenchClock::now();
    const double cpu_then = cpu_seconds_of_this_thread();
    memory.give_back(kBatch * bytes_per_row);
    cpu_left_out += cpu_seconds_of_this_thread() - cpu_then;
    left_out += seconds_since(pause);
    add(keys_from(row));
  }
  const double all = static_cast<double>(rows);
  return {(seconds_since(begin) - left_out) / all,
          (cpu_seconds_of_this_process() - cpu - cpu_left_out) / all};
}

// Both sides, from nothing.
class Sides {
 public:
  Sides(uint32_t dim, uint64_t rows) : dim_(dim), rows_(rows) {
    for (size_t i = 0; i < kBatch * dim; ++i) values_.push_back(static_cast<float>(i));
  }
  bool at_once = false;  // see insert_all()

  Cost ours() {
    Engine engine(dim_, true);
    created_.clear();
    return insert_all(rows_, bytes(), at_once, [&](auto keys) {
      created_.push_back(engine.store->add_if_absent(0, view(keys), values_));
    });
  }
  // The least that any insertion must do: as many new rows into as much new memory, one after another.
  // Nothing is searched for, and no key is kept. After ours().
  Cost rows_alone() {
    const size_t stride = 3 * size_t{dim_},
                 all = std::accumulate(created_.begin(), created_.end(), size_t{0});
    const storage::Pages pages((all * stride * sizeof(float) / storage::kHugePage + 1) * storage::kHugePage,
                               true);
    auto* next = reinterpret_cast<float*>(pages.data());
    auto created = created_.begin();
    return insert_all(rows_, bytes(), at_once, [&](auto) {
      for (size_t i = 0; i < *created; ++i, next += stride)
        std::memcpy(next, &values_[i * dim_], dim_ * sizeof(float));
      ++created;
    });
  }
  Cost abseil(size_t ahead) {
    AbseilTable table(dim_, ahead);
    return insert_all(rows_, bytes(), at_once, [&](auto keys) { table.add_if_absent(keys, values_); });
  }
  void compare() const {
    const uint64_t rows = std::min<uint64_t>(rows_, kComparedRows);
    Engine engine(dim_, true);
    AbseilTable table(dim_, kAheads[0]);
    std::vector<float> values = values_;
    float next = 0;
    insert_all(rows, bytes(), true, [&](auto keys) {
      for (size_t i = 0; i < kBatch; ++i) values[i * dim_] = next++;  // tells rows from one another
      engine.store->add_if_absent(0, view(keys), values);
      table.add_if_absent(keys, values);
    });
    std::vector<float> theirs(kBatch * dim_);
    for (uint64_t row = 0; row < rows; row += kBatch) {
      const std::vector<int64_t> keys = keys_from(row);
      engine.pull({&keys, 1});
      for (size_t i = 0; i < keys.size(); ++i)
        std::memcpy(&theirs[i * dim_], table.find(keys[i]), dim_ * sizeof(float));
      check_equal("inserted rows", {"embers", engine.out}, {"abseil", theirs});
    }
  }

 private:
  uint64_t bytes() const { return table_bytes(1, dim_, true); }  // of a row

  static constexpr uint64_t kComparedRows = 1'000'000;  // both tables at once

  const uint32_t dim_;
  const uint64_t rows_;
  std::vector<float> values_;
  std::vector<size_t> created_;  // by insertion
};

}  // namespace

Insertion measure_insertion(uint32_t dim, uint64_t rows, size_t rounds) {
  Sides sides(dim, rows);
  sides.compare();
  Insertion result;
  result.report = {{"dim", dim}, {"rows", rows}};
  std::vector<Estimate> thrift, limits;
  for (const bool one_core : {true, false}) {
    std::unique_ptr<OneCore> bound = one_core ? std::make_unique<OneCore>() : nullptr;
    sides.at_once = !one_core;
    Contest contest;
    contest.add("embers", "", [&] { return sides.ours(); });
    for (const size_t ahead : kAheads)
      contest.add("abseil", fmt::format("{} ahead", ahead), [&, ahead] { return sides.abseil(ahead); });
    contest.add("rows_alone", "", [&] { return sides.rows_alone(); });
    contest.choose(1, true);  // CPU seconds are what counts
    contest.measure(rounds);
    thrift.push_back(contest.thrift("embers", "abseil"));
    limits.push_back(contest.thrift("rows_alone", "abseil"));
    const Estimate speed = contest.speed("embers", "abseil");
    const char* const cores = one_core ? "one_core" : "two_cores";
    result.report[cores] = {{"sides", contest.json()},
                            {"ratio", speed.value},
                            {"cpu_ratio", thrift.back().value},
                            {"limit_cpu_ratio", limits.back().value}};
    fmt::print(
        "insert, dim {:>3}, {} keys, {:<9} ns a key: {:.0f} (CPU {:.0f}), abseil {:.0f} ({:.0f}), rows alone "
        "{:.0f} ({:.0f}): {:.2f}, CPU {:.2f} of {:.2f}\n",
        dim, rows, cores, contest.seconds("embers").value * 1e9, contest.cpu_seconds("embers").value * 1e9,
        contest.seconds("abseil").value * 1e9, contest.cpu_seconds("abseil").value * 1e9,
        contest.seconds("rows_alone").value * 1e9, contest.cpu_seconds("rows_alone").value * 1e9, speed.value,
        thrift.back().value, limits.back().value);
    if (one_core) continue;
    result.report["rows_per_s"] = 1 / contest.seconds("embers").value;
    result.report["abseil_rows_per_s"] = 1 / contest.seconds("abseil").value;
    result.report["ratio"] = speed.value;
  }
  const bool first = thrift[0].value <= thrift[1].value;
  result.thrift = thrift[first ? 0 : 1];
  result.limit = limits[first ? 0 : 1];
  std::fflush(stdout);
  return result;
}

}  // namespace embers
