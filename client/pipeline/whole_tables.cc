#include "client/pipeline/whole_tables.h"

#include <algorithm>

#include "actors/errors.h"
#include "actors/routing/route.h"

namespace embers {
namespace {

constexpr uint32_t kScanRows = 1 << 16;  // at once; an owner may give fewer

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

}  // namespace

void scan_table(caf::scoped_actor& self, const Owners& owners, TableId table, caf::duration timeout,
                const std::function<void(KeysView keys, std::span<const float> rows)>& visit) {
  for (size_t owner = 0; owner < owners.handles.size(); ++owner)
    for (uint64_t cursor = 0; cursor != UINT64_MAX;) {
      const auto reply = ask_owner(self, owners, owner, timeout,
                                   make_message<wire::ScanRequest>([&](wire::ScanRequest::Builder b) {
                                     b.setTable(table);
                                     b.setCursor(cursor);
                                     b.setLimit(kScanRows);
                                   }));
      decoding(Kind::kScanReply, [&] {
        for (const TableSlices& rows : read_slices(reply.get().getRows(), owners.tables.size()))
          if (!rows.keys.empty()) visit(rows.keys, rows.values);
        cursor = reply.get().getNext();
      });
    }
}

void import_rows(caf::scoped_actor& self, const Owners& owners, TableId table, KeysView keys,
                 std::span<const float> rows, caf::duration timeout) {
  const uint32_t dim = owners.tables[table].dim;
  const TableKeyList list{table, keys};
  const Routed routed = route({&list, 1}, owners.map, owners.handles.size());
  for (size_t owner = 0; owner < routed.size(); ++owner)
    for (const RoutedTable& part : routed[owner]) {
      FloatBuffer values(part.keys.size() * dim);
      if (routed.size() > 1)
        collect(rows, dim, part.positions, values.span());
      else
        std::copy(rows.begin(), rows.end(), values.data());
      const TableSlices slices{table, part.keys, dim, values.span()};
      ask_owner(self, owners, owner, timeout, make_import(owners.map.version, {&slices, 1}));
    }
}

}  // namespace embers
