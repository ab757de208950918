// What the heap held before does not get into messages: neither into the padding behind blobs nor anywhere
// else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "schema/messages/codec.h"

namespace {

// What every array begins with in this program.
constinit unsigned char heap_pattern = 0xAA;

void* dirty(size_t bytes) {
  void* const at = std::malloc(bytes == 0 ? 1 : bytes);
  if (at != nullptr) std::memset(at, heap_pattern, bytes);
  return at;
}

}  // namespace

// The buffers of messages are arrays.
void* operator new[](size_t bytes) {
  if (void* const at = dirty(bytes)) return at;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return dirty(bytes); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete[](void* at, size_t) noexcept { std::free(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { std::free(at); }

namespace embers {
namespace {

template <class Make>
std::vector<std::byte> bytes_built_on(unsigned char pattern, Make&& make) {
  heap_pattern = pattern;
  const auto message = make();
  const auto bytes = message.words().bytes();
  return {bytes.begin(), bytes.end()};
}

template <class Make>
void expect_independent_of_the_heap(const char* what, Make&& make) {
  const auto bytes = bytes_built_on(0xAA, make);
  EXPECT_EQ(bytes, bytes_built_on(0x55, make)) << what;
  EXPECT_FALSE(bytes.empty());
}

TEST(Padding, TheHeapOfThisProgramIsDirty) {
  for (const unsigned char pattern : {0xAA, 0x55}) {
    heap_pattern = pattern;
    const Words words(3);
    for (const std::byte b : words.bytes()) EXPECT_EQ(b, std::byte{pattern});
  }
}

TEST(Padding, MessagesHaveTheSameBytesWhateverTheHeapHeld) {
  const Origin origin{1, 2, 3, 4, 5, 6, 7, 8};
  // Every length modulo a word, and more than what is zeroed for structs anyway.
  for (size_t n = 1000; n < 1008; ++n) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < n; ++i) texts.emplace_back(1, static_cast<char>('a' + i % 26));
    const Keys keys(texts);
    std::vector<int64_t> numbers(n);
    for (size_t i = 0; i < n; ++i) numbers[i] = static_cast<int64_t>(i * 97);
    const TableSlices packed{1, {KeyKind::kInt64, numbers, {}, {}}, 0, {}};
    expect_independent_of_the_heap("packed keys", [&] {
      return make_pull(origin, wire::ReadMode::EXACT, true, {&packed, 1}, NumberType::kFloat32,
                       KeysSent::kPacked);
    });
    const std::vector<float> values(n, 1.5f);
    for (const NumberType type : {NumberType::kFloat32, NumberType::kFloat16, NumberType::kBfloat16}) {
      const TableSlices slices{1, keys, 1, values, type}, only_keys{1, keys, 0, {}};
      const RowsShape shape{1, 1, n, type};
      expect_independent_of_the_heap("pull", [&] {
        return make_pull(origin, wire::ReadMode::EXACT, true, {&only_keys, 1}, type);
      });
      expect_independent_of_the_heap("push", [&] { return make_push(origin, {&slices, 1}); });
      expect_independent_of_the_heap("restore", [&] { return make_restore({&slices, 1}, true); });
      expect_independent_of_the_heap("scan", [&] { return make_scan_reply(7, slices); });
      expect_independent_of_the_heap("pull's reply", [&] {
        return make_pull_reply(9, {&shape, 1},
                               [](size_t, std::span<float> rows) { std::ranges::fill(rows, 2.5f); });
      });
    }
    expect_independent_of_the_heap("error",
                                   [&] { return make_error(ErrorCode::kTimeout, std::string(n, 'x')); });
    expect_independent_of_the_heap("texts", [&] {
      return make_message<wire::JoinRequest>(
          [&](wire::JoinRequest::Builder b) { write_texts(b.initModel(texts.size()), texts); });
    });
  }
}

}  // namespace
}  // namespace embers
