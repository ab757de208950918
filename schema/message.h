#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstdint>
#include <memory>
#include <span>

#include "schema/messages.h"

namespace embers {

// The bytes of one flat Cap'n Proto message: word-aligned, immutable once shared.
class Words {
 public:
  Words() = default;
  // Uninitialised.
  explicit Words(size_t words) : data_(new capnp::word[words]), size_(words) {}
  capnp::word* data() { return data_.get(); }
  const capnp::word* data() const { return data_.get(); }
  size_t size() const { return size_; }
  // Keeps the first `words` of the buffer.
  void shrink(size_t words) { size_ = words; }
  std::span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(data_.get()), size_ * 8};
  }
  kj::ArrayPtr<const capnp::word> array() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<capnp::word[]> data_;
  size_t size_ = 0;
};

// The largest message accepted or sent, in words (1 GiB).
inline constexpr size_t kMaxMessageWords = size_t{1} << 27;

// One immutable message of type T, shared: copies refer to the same buffer. Within a process it travels by
// reference; between processes its words are written to the socket as they are.
//
// *Thread safety*: const, may be read by several threads.
template <class T>
class Message {
 public:
  Message() = default;  // empty: only to be assigned to

  // Takes the words of a message. Throws kj::Exception when they do not begin with a valid segment table and
  // root; contents are checked by the functions of codec.h that read them.
  explicit Message(Words words) : body_(std::make_shared<Body>(std::move(words))) {}

  typename T::Reader get() const { return body_->root; }
  const Words& words() const { return body_->words; }
  explicit operator bool() const { return body_ != nullptr; }

 private:
  struct Body {
    explicit Body(Words w)
        : words(std::move(w)), reader(words.array(), options()), root(reader.getRoot<T>()) {}
    static capnp::ReaderOptions options() {
      capnp::ReaderOptions o;
      // Messages are read often and in place; sizes are bounded by the frame.
      o.traversalLimitInWords = uint64_t{1} << 40;
      o.nestingLimit = 16;
      return o;
    }
    const Words words;
    capnp::FlatArrayMessageReader reader;
    typename T::Reader root;
  };
  std::shared_ptr<Body> body_;
};

// Builds a small message: `fill` sets the fields of its root.
template <class T, class Fill>
Message<T> make_message(Fill&& fill) {
  capnp::MallocMessageBuilder builder;
  fill(builder.initRoot<T>());
  const auto segments = builder.getSegmentsForOutput();
  Words words(capnp::computeSerializedSizeInWords(segments));
  kj::ArrayOutputStream stream(
      kj::ArrayPtr<kj::byte>(reinterpret_cast<kj::byte*>(words.data()), words.size() * 8));
  capnp::writeMessage(stream, segments);
  return Message<T>(std::move(words));
}

template <class T>
Message<T> make_message() {
  return make_message<T>([](auto) {});
}

}  // namespace embers
