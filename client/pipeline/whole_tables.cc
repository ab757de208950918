#include "client/pipeline/whole_tables.h"

#include <algorithm>

#include "actors/errors.h"
#include "actors/routing/route.h"
#include "client/pipeline/pull.h"

namespace embers {
namespace {

constexpr uint32_t kScanRows = 1 << 16;  // at once; an owner may give fewer
constexpr size_t kPartBytes = size_t{4} << 20;

template <class T>
Message<typename KindOf<T>::Reply> ask_owner(caf::scoped_actor& self, const Owners& owners, size_t owner,
                                             caf::duration timeout, const Message<T>& question) {
  using Reply = Message<typename KindOf<T>::Reply>;
  Reply reply;
  std::optional<Error> failed;
  self->request(owners.handles[owner].shard, timeout, question)
      .receive([&](const Reply& m) { reply = m; }, [&](caf::error& e) { failed = from_caf(e); });
  if (failed) throw Error(failed->code(), owner_failure(owner, *failed).message);
  return reply;
}

using Visitor = std::function<void(KeysView keys, std::span<const float> rows)>;

// Of a table whose columns are split; so many rows at once that no owner's answer is too large.
void visit_whole_rows(caf::scoped_actor& self, const Owners& owners, uint64_t job, TableId table,
                      KeysView keys, caf::duration timeout, const Visitor& visit) {
  const uint32_t dim = owners.tables[table].dim;
  const size_t most = std::max<size_t>(1, kPartBytes / (dim * sizeof(float)));
  for (size_t begin = 0, n; begin < keys.size(); begin += n) {
    n = std::min(most, keys.size() - begin);
    Keys some(keys.kind);
    for (size_t i = 0; i < n; ++i) some.push_back_from(keys, begin + i);
    FloatBuffer rows(n * dim);
    Work work;
    work.evaluate = true;  // creates no rows
    work.origin.job = job;
    work.origin.incarnation = owners.incarnation;
    work.origin.map_version = owners.map.version;
    work.versions.assign(owners.handles.size(), std::nullopt);
    pull_now(self, owners, work, {{table, some}}, {rows.span()}, timeout);
    visit(some, rows.span());
  }
}

}  // namespace

void scan_table(caf::scoped_actor& self, const Owners& owners, uint64_t job, TableId table,
                caf::duration timeout,
                const std::function<void(KeysView keys, std::span<const float> rows)>& visit) {
  // Where columns are split, every owner has all keys: the first one says which they are.
  const bool split = is_split(owners.tables[table], owners.handles.size());
  for (size_t owner = 0; owner < (split ? 1 : owners.handles.size()); ++owner)
    for (uint64_t cursor = 0; cursor != UINT64_MAX;) {
      const auto reply = ask_owner(self, owners, owner, timeout,
                                   make_message<wire::ScanRequest>([&](wire::ScanRequest::Builder b) {
                                     b.setTable(table);
                                     b.setCursor(cursor);
                                     b.setLimit(kScanRows);
                                   }));
      decoding(Kind::kScanReply, [&] {
        for (const TableSlices& rows : read_slices(reply.get().getRows(), owners.tables.size())) {
          if (rows.keys.empty()) continue;
          if (split)
            visit_whole_rows(self, owners, job, table, rows.keys, timeout, visit);
          else
            visit(rows.keys, rows.values);
        }
        cursor = reply.get().getNext();
      });
    }
}

void import_rows(caf::scoped_actor& self, const Owners& owners, uint64_t number, TableId table, KeysView keys,
                 std::span<const float> rows, caf::duration timeout) {
  const ImportOrigin origin{owners.map.version, owners.incarnation, number};
  const uint32_t dim = owners.tables[table].dim;
  const TableKeyList list{table, keys};
  const Routed routed = route({&list, 1}, owners.tables, owners.map, owners.handles.size());
  for (size_t owner = 0; owner < routed.size(); ++owner)
    for (const RoutedTable& part : routed[owner]) {
      const uint32_t width = part.columns.size();
      FloatBuffer values(part.keys.size() * width);
      if (width != dim)
        collect_columns(rows, dim, part.columns, part.positions, values.span());
      else if (routed.size() > 1)
        collect(rows, dim, part.positions, values.span());
      else
        std::copy(rows.begin(), rows.end(), values.data());
      const TableSlices slices{table, part.keys, width, values.span()};
      ask_owner(self, owners, owner, timeout, make_import(origin, {&slices, 1}));
    }
}

}  // namespace embers
