#include "storage/external/external_reader.h"

#include <utility>

#include "base/errors.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {

ExternalReader::ExternalReader(KeyValueServers servers, const ReaderOptions& options,
                               std::span<const TableSpec> tables)
    : options_(options), reads_(std::move(servers)) {
  for (const TableSpec& spec : tables) tables_.push_back({spec, StoredNames(options.job, spec), false});
  for (uint32_t owner = 0; owner < options.owners; ++owner)
    version_names_.push_back(StoredNames::version(options.job, owner));
}

std::vector<std::optional<uint64_t>> ExternalReader::versions() {
  std::vector<std::optional<uint64_t>> versions(options_.owners);
  reads_.fetch({version_names_.begin(), version_names_.end()},
               [&](size_t owner, std::string_view name, std::string_view value) {
                 ValueTag tag;
                 if (read_value(value, name, options_.run, {}, tag, {})) versions[owner] = tag.version;
               });
  return versions;
}

size_t ExternalReader::gather(std::span<const TableRead> reads) {
  for (Table& table : tables_) table.asked = false;
  std::vector<ServerReads::TableRead> all;
  for (const TableRead& read : reads) {
    if (read.table >= tables_.size())
      fail(ErrorCode::kUnknownTable, "there is no table number {}: the reader knows {} tables", read.table,
           tables_.size());
    Table& table = tables_[read.table];
    if (std::exchange(table.asked, true))
      fail(ErrorCode::kInvalid, "table '{}' was asked for twice in one read", table.spec.name);
    check_kind(table.spec.name, table.spec.key_kind, read.keys);
    check_size(table.spec.name, "room for rows", read.out.size(), read.keys.size(), table.spec.dim);
    check_size(table.spec.name, "found flags", read.found.size(), read.keys.size(), 1);
    all.push_back({&table.names, table.spec.dim, read.keys, read.out, read.found});
  }
  return reads_.gather(options_.run, all, [](size_t, size_t, const ValueTag&) {});
}

}  // namespace embers::storage
