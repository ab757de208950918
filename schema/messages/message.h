#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/floats/stores.h"
#include "schema/messages/messages.h"

namespace embers {

// The bytes of one flat Cap'n Proto message: word-aligned, immutable once shared.
class Words {
 public:
  Words() = default;
  // Uninitialised.
  explicit Words(size_t words) : data_(new capnp::word[words]), size_(words) {}
  // Words that `keeper` keeps.
  Words(capnp::word* data, size_t words, std::shared_ptr<const void> keeper)
      : data_(data, Release{std::move(keeper)}), size_(words) {}
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
  struct Release {
    std::shared_ptr<const void> keeper;  // null: the heap
    void operator()(capnp::word* data) const {
      if (!keeper) delete[] data;
    }
  };
  std::unique_ptr<capnp::word[], Release> data_;
  size_t size_ = 0;
};

// Where large messages are built; null stands for the heap.
//
// *Thread safety*: all members from any thread.
class WordsMemory {
 public:
  virtual ~WordsMemory() = default;
  // Uninitialised; of the heap where there is no room.
  virtual Words words(size_t words) = 0;
  // How what is large is best copied there; null: into caches.
  virtual StoreChoice* store_choice() { return nullptr; }
};
using WordsMemoryPtr = std::shared_ptr<WordsMemory>;

// The largest message accepted or sent, in words (1 GiB).
inline constexpr size_t kMaxMessageWords = size_t{1} << 27;

// Structs and lists within one another.
inline constexpr int kMostNested = 16;

// The way by which a request came from another process, and by which its answer goes back.
//
// *Thread safety*: all members from any thread.
class Arrival {
 public:
  virtual ~Arrival() = default;
  // The request counts no longer among those that wait for this process. Its answer says so by itself; call
  // it for a request that is kept until something else happens, since that may be behind it on the wire.
  virtual void settle() = 0;
  // Whether an answer of many bytes would find room on its way. If not, `room` is called, in any thread, when
  // it is time to ask again. (It may be called as well if there was.)
  virtual bool has_room(const std::function<void()>& room) = 0;
  // Where a large answer is to be built, so that the asker can read it in place; null for the heap.
  virtual WordsMemoryPtr memory() { return nullptr; }
};

// One immutable message of type T, shared: copies refer to the same buffer. Within a process it travels by
// reference; between processes its words are written to the socket as they are.
//
// *Thread safety*: const, may be read by several threads.
template <class T>
class Message {
 public:
  Message() = default;  // empty: only to be assigned to

  // Takes the words of a message that this process has made, or that received() of received.h has checked.
  // Throws kj::Exception when they do not begin with a valid segment table and root; counts, widths and table
  // numbers are checked by the functions of codec.h that read them.
  explicit Message(Words words, std::shared_ptr<Arrival> arrival = nullptr)
      : body_(std::make_shared<Body>(std::move(words), std::move(arrival))) {}

  typename T::Reader get() const { return body_->root; }
  const Words& words() const { return body_->words; }
  // Null for a message of this process.
  const std::shared_ptr<Arrival>& arrival() const { return body_->arrival; }
  explicit operator bool() const { return body_ != nullptr; }

 private:
  struct Body {
    Body(Words w, std::shared_ptr<Arrival> a)
        : words(std::move(w)),
          arrival(std::move(a)),
          reader(words.array(), options()),
          root(reader.getRoot<T>()) {}
    static capnp::ReaderOptions options() {
      capnp::ReaderOptions o;
      // Messages are read in place, by several actors and again and again: a limit would in the end refuse
      // an honest one. What a single reading can reach was limited to the message's size by received().
      o.traversalLimitInWords = kj::maxValue;
      o.nestingLimit = kMostNested;
      return o;
    }
    const Words words;
    const std::shared_ptr<Arrival> arrival;
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
