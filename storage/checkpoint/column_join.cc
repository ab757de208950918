#include "storage/checkpoint/column_join.h"

#include <algorithm>
#include <utility>

namespace embers::storage {

void ColumnJoin::add(ColumnRange columns, KeysView keys, std::span<const float> values) {
  const size_t n = columns.size();
  if (columns.end > dim_ || values.size() != keys.size() * parts_ * n)
    fail(ErrorCode::kInternal, "columns {} to {} of {} rows of dim {} cannot be {} floats", columns.begin,
         columns.end, keys.size(), dim_, values.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (passes_ > 1 && hash_key(keys, i) % passes_ != pass_) continue;
    const size_t place = place_of(keys, i);
    columns_[place] += columns.size();
    for (size_t part = 0; part < parts_; ++part)
      std::copy_n(&values[(i * parts_ + part) * n], n, &rows_[place * width() + part * dim_ + columns.begin]);
  }
}

size_t ColumnJoin::place_of(KeysView keys, size_t i) {
  const size_t next = columns_.size();
  const auto find = [&](auto& places, auto key) {
    const auto [it, made] = places.try_emplace(std::move(key), next);
    return std::pair(it->second, made);
  };
  const auto [place, is_new] =
      keys.kind == KeyKind::kInt64 ? find(ints_, keys.ints[i]) : find(bytes_, std::string(keys.bytes_at(i)));
  if (is_new) {
    keys_.push_back_from(keys, i);
    columns_.push_back(0);
    rows_.resize(rows_.size() + width());
  }
  return place;
}

void ColumnJoin::visit(size_t limit, const Visitor& visit) const {
  Keys keys(keys_.kind());
  std::vector<float> values;
  const auto show = [&] {
    if (!keys.empty()) visit(keys, values);
    keys.clear();
    values.clear();
  };
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i] != dim_) continue;
    keys.push_back_from(keys_, i);
    values.insert(values.end(), &rows_[i * width()], &rows_[i * width()] + width());
    if (keys.size() >= limit) show();
  }
  show();
}

}  // namespace embers::storage
