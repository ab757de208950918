#pragma once

#include "schema/messages/message.h"

namespace embers {

// A message that is made again and again with other values in fields of fixed size, while the rest of it
// stays: what is filled in once is only copied afterwards.
//
// *Thread safety*: none.
template <class T>
class MessageForm {
 public:
  MessageForm() : root_(builder_.initRoot<T>()) {}
  MessageForm(const MessageForm&) = delete;
  MessageForm& operator=(const MessageForm&) = delete;

  typename T::Builder root() { return root_; }
  // As it is now.
  Message<T> message() {
    const auto segments = builder_.getSegmentsForOutput();
    Words words(capnp::computeSerializedSizeInWords(segments));
    kj::ArrayOutputStream stream(
        kj::ArrayPtr<kj::byte>(reinterpret_cast<kj::byte*>(words.data()), words.size() * 8));
    capnp::writeMessage(stream, segments);
    return Message<T>(std::move(words));
  }

 private:
  capnp::MallocMessageBuilder builder_;
  typename T::Builder root_;
};

}  // namespace embers
