#include "storage/external_reader.h"

#include "schema/errors.h"
#include "storage/store_checks.h"

namespace embers::storage {

ExternalReader::ExternalReader(KeyValueServers servers, const ReaderOptions& options,
                               std::span<const TableSpec> tables)
    : options_(options), reads_(std::move(servers)) {
  for (const TableSpec& spec : tables) tables_.push_back({spec, StoredNames(options.job, spec.name)});
  for (uint32_t shard = 0; shard < options.shards; ++shard)
    version_names_.push_back(StoredNames::version(options.job, shard));
}

std::vector<std::optional<uint64_t>> ExternalReader::versions() {
  std::vector<std::optional<uint64_t>> versions(options_.shards);
  reads_.fetch({version_names_.begin(), version_names_.end()},
               [&](size_t shard, std::string_view name, std::string_view value) {
                 ValueTag tag;
                 if (read_value(value, name, options_.run, {}, tag, {})) versions[shard] = tag.version;
               });
  return versions;
}

size_t ExternalReader::gather(TableId id, KeysView keys, std::span<float> out, std::span<uint8_t> found) {
  if (id >= tables_.size())
    fail(ErrorCode::kUnknownTable, "there is no table number {}: the reader knows {}", id, tables_.size());
  Table& table = tables_[id];
  check_kind(table.spec.name, table.spec.key_kind, keys);
  check_size(table.spec.name, "room for rows", out.size(), keys.size(), table.spec.dim);
  check_size(table.spec.name, "found flags", found.size(), keys.size(), 1);
  return reads_.gather(table.names, options_.run, table.spec.dim, keys, out, found,
                       [](size_t, const ValueTag&) {});
}

}  // namespace embers::storage
