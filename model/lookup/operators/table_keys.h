#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/ids.h"

namespace embers {

// Raw keys of a local table's rows, for ids that are strings (or int64 that are not row numbers), which
// TensorFlow's operators do not know: key i belongs to row number i, counted over all partitions, so that no
// partition strategy applies. Its LocalTable is made with kDiv and blocknums, the rows of each partition.
// Constant after construction.
class TableKeys {
 public:
  // kInvalid when a key appears twice.
  explicit TableKeys(KeysView keys);

  // Row numbers of `ids`, to be looked up instead of them. The empty string, embers' padding, becomes -1,
  // which is pruned like any invalid id. kInvalid: ids of another kind, or one that no row has.
  std::vector<int64_t> rows(KeysView ids) const;
  KeyKind kind() const { return kind_; }

 private:
  KeyKind kind_;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return hash_key(bytes); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> row_of_;  // by the bytes of the key
};

}  // namespace embers
