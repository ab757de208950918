#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "schema/messages/message.h"

// Messages that no builder makes.
namespace embers::testing_support {

// A message of one segment whose words can be changed.
class Crafted {
 public:
  explicit Crafted(Words words) : words_(std::move(words)) {}
  template <class T, class Fill>
  static Crafted make(Fill&& fill) {
    capnp::MallocMessageBuilder builder(1 << 22, capnp::AllocationStrategy::FIXED_SIZE);
    fill(builder.initRoot<T>());
    const auto flat = capnp::messageToFlatArray(builder);
    Words words(flat.size());
    std::copy_n(flat.begin(), flat.size(), words.data());
    return Crafted(std::move(words));
  }

  uint64_t& operator[](size_t word) { return reinterpret_cast<uint64_t*>(words_.data())[word]; }
  size_t size() const { return words_.size(); }
  // The first word, from `from` on, with this value.
  size_t find(uint64_t value, size_t from = 0) {
    for (size_t i = from; i < size(); ++i)
      if ((*this)[i] == value) return i;
    throw std::logic_error("the message has no such word");
  }
  // Makes the word `at` a pointer to a list at `target` (encoding: "encoding spec" of Cap'n Proto, Lists).
  void point(size_t at, size_t target, capnp::ElementSize element, uint64_t size) {
    const auto offset = static_cast<uint32_t>(static_cast<int64_t>(target) - static_cast<int64_t>(at) - 1);
    (*this)[at] = (size << 3 | static_cast<uint64_t>(element)) << 32 | uint32_t{offset << 2 | 1};
  }
  Words take() { return std::move(words_); }
  Words copy() const {
    Words words(words_.size());
    std::copy_n(words_.data(), words.size(), words.data());
    return words;
  }

 private:
  Words words_;
};

inline constexpr size_t kTexts = 1'000'000, kTextBytes = 8 << 20;

// Joins with a million lines, all of which are one text of 8 MiB: 16 MiB that stand for 8 TB.
inline Words a_million_times_one_text() {
  Crafted crafted = Crafted::make<wire::JoinRequest>([](wire::JoinRequest::Builder b) {
    b.initModel(kTexts);
    b.setHost(std::string(kTextBytes, 'x'));
  });
  uint64_t x = 0;
  std::memset(&x, 'x', sizeof x);
  const size_t text = crafted.find(x);
  for (size_t i = text - kTexts; i < text; ++i)
    crafted.point(i, text, capnp::ElementSize::BYTE, kTextBytes + 1);
  return crafted.take();
}

}  // namespace embers::testing_support
