#pragma once

#include <capnp/schema.h>

#include "base/errors.h"
#include "schema/messages/message.h"

// Messages that come from outside the process: from a peer, or from a file.
namespace embers {

// What a struct of a schema may hold, as check_received needs it; made once for each type.
struct ReceivedType;
const ReceivedType& received_type(capnp::StructSchema schema);

// Goes through everything that a program can reach by reading each field once. kBadFrame, naming the kind,
// unless (1) the parts that it meets have together no more words than the message has, so that no part counts
// twice however many pointers lead to it; (2) every list has elements of the size that the schema gives them,
// structs of an older peer at least half of it. Copying every field of such a message takes memory in
// proportion to the message, and views of it may be taken as often as anyone likes.
void check_received(const Words& words, const ReceivedType& type, Kind kind);

// The message that these words hold, and how it came. kBadFrame for words that are no T.
template <class T>
Message<T> received(Words words, std::shared_ptr<Arrival> arrival = nullptr) {
  static const ReceivedType& type = received_type(capnp::Schema::from<T>());
  check_received(words, type, KindOf<T>::kind);
  return Message<T>(std::move(words), std::move(arrival));
}

}  // namespace embers
