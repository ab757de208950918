#include "schema/messages/messages.h"

#include <capnp/schema.h>

namespace embers {
namespace {

template <class... Messages>
std::string_view name_among(Kind kind, MessageList<Messages...>) {
  std::string_view found;
  const auto look = [&]<class T>() {
    if (KindOf<T>::kind == kind) found = capnp::Schema::from<T>().getShortDisplayName().cStr();
  };
  (look.template operator()<Messages>(), ...);
  return found;
}

}  // namespace

std::string_view name(Kind kind) { return name_among(kind, AllMessages()); }

std::string_view name(wire::Role role) {
  const auto roles = capnp::Schema::from<wire::Role>().getEnumerants();
  const auto number = static_cast<uint16_t>(role);
  return number < roles.size() ? std::string_view(roles[number].getProto().getName().cStr()) : "";
}

}  // namespace embers
