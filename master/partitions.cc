#include "master/partitions.h"

#include "base/errors.h"

namespace embers {

Partition settle_partition(const TableSpec&, uint32_t) { return Partition::kToken; }

void settle_partitions(ModelSpec& model, uint32_t owners) {
  for (TableSpec& table : model.tables) {
    if (owners == 1 || is_reserved(table.name)) table.partition = Partition::kToken;
    if (table.partition == Partition::kAuto) table.partition = settle_partition(table, owners);
    if (table.partition == Partition::kEncoding)
      fail(ErrorCode::kInvalid, "table '{}': partition = \"encoding\" does not work yet: use \"token\"",
           table.name);
  }
}

}  // namespace embers
