// The malloc of embers' programs, linked as they link it: it is mimalloc, and what is too large is refused.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/floats/float_buffer.h"
#include "tests/support/memory_limit.h"

namespace embers {
namespace {

constexpr size_t kTooLarge = size_t{8} << 30;  // more than mimalloc has reserved
constexpr std::align_val_t kAlignment{64};

TEST(OwnMalloc, IsMimalloc) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have a malloc of their own";
#endif
  Dl_info info{};
  ASSERT_NE(::dladdr(::dlsym(RTLD_DEFAULT, "malloc"), &info), 0);
  EXPECT_NE(std::string(info.dli_fname).find("mimalloc"), std::string::npos) << info.dli_fname;
}

TEST(OwnMalloc, WhatIsTooLargeIsRefusedAndTheProcessGoesOn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have a malloc of their own";
#endif
  EXPECT_TRUE(testing_support::succeeds_within(size_t{256} << 20, [] {
    EXPECT_THROW(::operator delete(::operator new(kTooLarge)), std::bad_alloc);
    EXPECT_THROW(::operator delete[](::operator new[](kTooLarge)), std::bad_alloc);
    EXPECT_THROW(::operator delete(::operator new(kTooLarge, kAlignment), kAlignment), std::bad_alloc);
    EXPECT_THROW(::operator delete(::operator new(SIZE_MAX, kAlignment), kAlignment), std::bad_alloc);
    EXPECT_EQ(::operator new(kTooLarge, std::nothrow), nullptr);
    EXPECT_EQ(::operator new(kTooLarge, kAlignment, std::nothrow), nullptr);
    EXPECT_THROW(std::vector<char> v(kTooLarge), std::bad_alloc);
    EXPECT_THROW(FloatBuffer floats(kTooLarge / sizeof(float)), std::bad_alloc);
    const std::vector<char> small(1 << 20, 'x');
    EXPECT_EQ(small.back(), 'x');
  }));
}

TEST(OwnMalloc, AlignsAndTakesBackFromAnyThread) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1} << 21}) {
    void* const aligned = ::operator new(size, kAlignment);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 64, 0u);
    std::thread([&] { ::operator delete(aligned, kAlignment); }).join();
    void* const plain = ::operator new(size);
    EXPECT_NE(plain, nullptr);
    std::thread([&] { ::operator delete(plain, size); }).join();
  }
}

}  // namespace
}  // namespace embers
