#include "actors/owner/accumulate.h"

#include <absl/container/flat_hash_map.h>

namespace embers {
namespace {

// Sums one table's gradients over the parts.
class TableSum {
 public:
  TableSum(TableId id, const TableSpec& spec) : spec_(spec), sum_{id, Keys(spec.key_kind), {}} {}

  void add(const TableSlices& slices, float weight) {
    for (size_t i = 0; i < slices.keys.size(); ++i) {
      const auto [row, fresh] = find_or_add(slices.keys, i);
      const float* in = &slices.values[i * slices.width];
      float* out = &sum_.values[row * spec_.dim];
      if (spec_.accumulation == Accumulation::kLast) {
        std::copy(in, in + spec_.dim, out);
      } else if (fresh) {
        for (uint32_t c = 0; c < spec_.dim; ++c) out[c] = weight * in[c];
      } else {
        for (uint32_t c = 0; c < spec_.dim; ++c) out[c] += weight * in[c];
      }
    }
  }

  AccumulatedTable take() { return std::move(sum_); }

 private:
  std::pair<size_t, bool> find_or_add(KeysView keys, size_t i) {
    const auto [row, fresh] =
        keys.kind == KeyKind::kInt64
            ? insert(ints_, keys.ints[i])
            : insert(strings_, keys.bytes_at(i));  // views into the parts, which outlive this
    if (fresh) {
      sum_.keys.push_back_from(keys, i);
      sum_.values.resize(sum_.values.size() + spec_.dim);
    }
    return {row, fresh};
  }

  template <class Map, class Key>
  std::pair<size_t, bool> insert(Map& map, Key key) {
    const auto [place, fresh] = map.try_emplace(key, sum_.keys.size());
    return {place->second, fresh};
  }

  const TableSpec& spec_;
  AccumulatedTable sum_;
  absl::flat_hash_map<int64_t, size_t> ints_;
  absl::flat_hash_map<std::string_view, size_t> strings_;
};

}  // namespace

std::vector<AccumulatedTable> accumulate(std::span<const WeightedSlices> parts,
                                         std::span<const TableSpec> specs) {
  std::vector<std::unique_ptr<TableSum>> sums(specs.size());
  for (const WeightedSlices& part : parts) {
    for (const TableSlices& slices : part.tables) {
      auto& sum = sums[slices.table];
      if (!sum) sum = std::make_unique<TableSum>(slices.table, specs[slices.table]);
      sum->add(slices, part.weight);
    }
  }
  std::vector<AccumulatedTable> out;
  for (auto& sum : sums)
    if (sum) out.push_back(sum->take());
  return out;
}

}  // namespace embers
