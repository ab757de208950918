#include <deque>

#include "storage/memory/memory_table.h"
#include "storage/memory/page_filler.h"
#include "storage/rows/store.h"

namespace embers::storage {
namespace {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<PageFiller> filler)
      : filler_(filler ? std::move(filler) : std::make_shared<PageFiller>()) {}

  void add_table(const TableSpec& spec, std::span<const float> slot_init) override {
    if (spec.dim == 0) fail(ErrorCode::kInvalid, "table '{}': dim must be at least 1", spec.name);
    for (const MemoryTable& table : tables_)
      if (table.name() == spec.name)
        fail(ErrorCode::kInvalid, "table '{}' is in the store already", spec.name);
    tables_.emplace_back(spec, slot_init, filler_.get());
  }

  size_t gather(TableId table, KeysView keys, std::span<float> out, std::span<uint8_t> found,
                ReadBy reader) override {
    return at(table).gather(keys, out, found, reader);
  }

  size_t add_if_absent(TableId table, KeysView keys, std::span<const float> values,
                       std::span<const uint8_t> found) override {
    return at(table).add_if_absent(keys, values, found);
  }

  size_t gather_or_create(TableId table, KeysView keys, const FirstValues& first_values, std::span<float> out,
                          std::span<uint8_t> found, ReadBy reader) override {
    return at(table).gather_or_create(keys, first_values, out, found, reader);
  }

  void update_rows(TableId table, KeysView keys, std::span<const float> grads, const RowsKernel& kernel,
                   uint64_t step) override {
    at(table).update_rows(keys, grads, kernel, step);
  }

  void restore(TableId table, KeysView keys, std::span<const float> values) override {
    at(table).restore(keys, values);
  }

  uint64_t scan(TableId table, uint64_t cursor, size_t limit, const Visitor& visit) override {
    return at(table).scan(cursor, limit, visit);
  }

  uint64_t rows(TableId table) const override { return tables_[index(table)].rows(); }

  uint64_t resident_bytes() const override {
    uint64_t bytes = 0;
    for (const MemoryTable& table : tables_) bytes += table.resident_bytes();
    return bytes;
  }

 private:
  size_t index(TableId table) const {
    if (table >= tables_.size())
      fail(ErrorCode::kUnknownTable, "there is no table number {}: the store holds {} tables", table,
           tables_.size());
    return table;
  }
  MemoryTable& at(TableId table) { return tables_[index(table)]; }

  const std::shared_ptr<PageFiller> filler_;  // outlives the tables
  std::deque<MemoryTable> tables_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store(std::shared_ptr<PageFiller> filler) {
  return std::make_unique<MemoryStore>(std::move(filler));
}

}  // namespace embers::storage
