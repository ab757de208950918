#include "actors/owner/read_push.h"

#include <utility>

namespace embers {

PushPtr PushReader::read(const Message<wire::PushRequest>& push) {
  ++pushes_;
  UnpackedKeys keys;
  auto tables = read_slices(push.get().getTables(), tables_.size(), true, &keys);
  std::erase_if(tables, [](const TableSlices& t) { return t.keys.empty(); });
  for (const TableSlices& t : tables) {
    const TableSpec& spec = tables_[t.table];
    if (t.width != spec.dim || t.keys.kind != spec.key_kind)
      fail(ErrorCode::kInvalid,
           "gradients of dim {} with {} keys were pushed to table '{}' of dim {} with {} keys", t.width,
           name(t.keys.kind), spec.name, spec.dim, name(spec.key_kind));
  }
  const Origin origin = embers::read(push.get().getOrigin());
  return std::make_shared<const ReadPush>(ReadPush{
      push, origin, std::move(keys), finite_gradients(std::move(tables), tables_, origin, skip_bad_)});
}

}  // namespace embers
