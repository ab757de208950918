#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/memory/pages.h"
#include "storage/rows/store.h"
#include "storage/update_rules/update_rule.h"

// What embers bench engine measures with: a table of the in-memory store, and minibatches of its keys.
namespace embers {

inline constexpr size_t kBatch = 4096;
inline constexpr size_t kFill = 64;  // keys of an insertion that is timed

// Keys of rows 0, 1, ..., in an order that looks random.
inline int64_t key_of(uint64_t row) { return static_cast<int64_t>(row * 0x9E3779B97F4A7C15); }
uint64_t row_of(int64_t key);  // the way back
inline KeysView view(std::span<const int64_t> keys) { return {KeyKind::kInt64, keys, {}, {}}; }

using Minibatches = std::span<const std::vector<int64_t>>;

// So many minibatches of kBatch keys of rows [0, rows), uniform or Zipf with exponent 1.05; repeats are left
// out.
std::vector<std::vector<int64_t>> minibatches(size_t count, uint64_t rows, bool zipf);
size_t keys_of(Minibatches batches);

// A table, with Adam's slots if asked for.
struct Engine {
  Engine(uint32_t dim, bool slots, NumberType type = NumberType::kFloat32,
         Rounding rounding = Rounding::kNearest);

  // Adds rows up to this one, kFill at a time. Returns the seconds of each insertion, by the clock.
  std::vector<double> fill(uint64_t rows);
  uint64_t rows() const { return store->rows(0); }
  // Where the row of each key is.
  std::vector<std::vector<float*>> places(Minibatches batches);

  // Of every minibatch; the buffers have room for one. The last rows that were pulled stay in `out`.
  void pull(Minibatches batches);
  void push(Minibatches batches, double learning_rate);  // gradients are `grads`; each as the next step

  uint32_t dim;
  std::unique_ptr<const storage::UpdateRule> adam = storage::UpdateRule::make({"adam", {}});
  std::unique_ptr<storage::Store> store = storage::make_memory_store();
  std::vector<float> out, grads;
  std::vector<uint8_t> found = std::vector<uint8_t>(kBatch);
  uint64_t steps = 0;
};

// What a table of so many rows takes, with its index.
uint64_t table_bytes(uint64_t rows, uint32_t dim, bool slots);

// Memory that the kernel has handed out, so that the time a hypervisor takes to find it counts for nobody.
// The kernel gets it back little by little, shortly before it is needed: what nobody uses for two seconds the
// kernel may report to the hypervisor (free page reporting), which takes it, and needs milliseconds for each
// page later.
class WarmMemory {
 public:
  explicit WarmMemory(uint64_t bytes);
  void give_back(uint64_t bytes);

 private:
  std::vector<storage::Pages> parts_;
  uint64_t owed_ = 0;  // bytes that were to be given back, and are not yet
};

}  // namespace embers
