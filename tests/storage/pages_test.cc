#include "storage/memory/pages.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "storage/memory/page_filler.h"
#include "storage/memory/row_slabs.h"
#include "storage/rows/store.h"
#include "tests/support/memory_limit.h"

namespace embers::storage {
namespace {

// How many of this process's mappings hold a part of it.
int mappings(const Pages& pages) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    const auto begin = std::stoull(line, nullptr, 16);
    const auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    const auto at = reinterpret_cast<uintptr_t>(pages.data());
    if (begin < at + pages.size() && at < end) ++count;
  }
  return count;
}

int threads_named(const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    count += found == name;
  }
  return count;
}

void wait_for_threads(const std::string& name, int count) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (threads_named(name) != count && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A store with so many large rows that the pages of the next ones are made ahead.
std::unique_ptr<Store> large_store(std::shared_ptr<PageFiller> filler) {
  constexpr size_t kRows = 50, kDim = 100'000;  // five rows a slab
  auto store = make_memory_store(std::move(filler));
  TableSpec spec;
  spec.name = "large";
  spec.dim = kDim;
  store->add_table(spec, {});
  std::vector<int64_t> ints(kRows);
  std::iota(ints.begin(), ints.end(), 0);
  store->add_if_absent(0, Keys(ints), std::vector<float>(kRows * kDim, 1.5f));
  return store;
}

// The CPUs that the kernel lists for a thread of this process, by its name; "" when there is none.
std::string cpus_of_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    if (found != name) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("Cpus_allowed_list:")) return line.substr(line.find('\t') + 1);
  }
  return "";
}

bool has_one_cpu() {
  cpu_set_t all;
  return sched_getaffinity(getpid(), sizeof all, &all) == 0 && CPU_COUNT(&all) < 2;
}

bool is_resident(const Pages& pages, size_t at) {
  unsigned char there = 0;
  EXPECT_EQ(mincore(pages.data() + at, kSmallPage, &there), 0);
  return (there & 1) != 0;
}

// Within 20 seconds.
bool becomes_resident(const Pages& pages, size_t at) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_resident(pages, at) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return is_resident(pages, at);
}

TEST(Pages, HugeOnesAreAlignedAndZeroed) {
  std::vector<Pages> all;
  for (int i = 0; i < 5; ++i) {
    all.emplace_back(kHugePage, true);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().data()) % kHugePage, 0u);
    EXPECT_EQ(all.back().data()[kHugePage - 1], std::byte{0});
  }
}

TEST(Pages, MovingLeavesNothingBehind) {
  Pages from(4096, false);
  std::byte* at = from.data();
  Pages to = std::move(from);
  EXPECT_EQ(to.data(), at);
  EXPECT_EQ(from.data(), nullptr);  // NOLINT: what moving promises
}

TEST(Pages, GrowingKeepsWhatThereIs) {
  Pages pages;
  const std::vector<size_t> sizes{1, 4096, 5000, kHugePage - 1, kHugePage, kHugePage + 1, 5 * kHugePage};
  for (size_t i = 0; i < sizes.size(); ++i) {
    pages.grow(sizes[i], sizes[i] >= kHugePage);
    ASSERT_GE(pages.size(), sizes[i]);
    if (sizes[i] >= kHugePage) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % kHugePage, 0u);
    }
    for (size_t k = 0; k < i; ++k) EXPECT_EQ(pages.data()[sizes[k] - 1], std::byte(k + 1));
    EXPECT_EQ(pages.data()[pages.size() - 1], std::byte{0});
    pages.data()[sizes[i] - 1] = std::byte(i + 1);
  }
  const std::byte* at = pages.data();
  pages.grow(kHugePage, true);  // never less
  EXPECT_EQ(pages.data(), at);
}

TEST(Pages, ThatAreBeingFilledKeepTheirContentsAndMayGrowOrGo) {
  PageFiller filler;
  for (int round = 0; round < 20; ++round) {
    Pages pages(4 * kHugePage, true);
    for (size_t at = 0; at < pages.size(); at += kHugePage / 2)
      pages.data()[at] = std::byte(at / kHugePage + 1);
    pages.fill_soon(filler, kHugePage, 3 * kHugePage);
    if (round % 2 == 0) pages.grow(9 * kHugePage, true);
    pages.take(2 * kHugePage, kHugePage);
    pages.fill_soon(filler, 0, 4 * kHugePage);
    for (size_t at = 0; at < 4 * kHugePage; at += kHugePage / 2)
      ASSERT_EQ(pages.data()[at], std::byte(at / kHugePage + 1));
    ASSERT_EQ(pages.data()[pages.size() - 1], std::byte{0});
    Pages other = std::move(pages);
    if (round % 3 == 0) other = Pages();
  }
}

// Kernels before 6.17 do not move several mappings at once, so that a growth would be the last.
TEST(Pages, StayOneMappingHoweverOftenTheyGrow) {
  Pages pages;
  for (size_t bytes = 4096; bytes <= 16 * kHugePage; bytes *= 2) {
    pages.grow(bytes, bytes >= kHugePage);
    for (size_t at = 0; at < pages.size(); at += 4096) pages.data()[at] = std::byte{1};
    ASSERT_EQ(mappings(pages), 1) << bytes;
  }
}

TEST(Pages, StayWhereTheyAreAsTheyGrowUnlessTheyAreSmall) {
  if (!mapping_is_free()) GTEST_SKIP() << "addresses are limited here";
  Pages pages;
  pages.grow(kHugePage / 2, false);
  pages.data()[0] = std::byte{1};
  const std::byte* const at = pages.data();
  for (size_t bytes = kHugePage; bytes <= 100 * kHugePage; bytes += kHugePage) {
    pages.grow(bytes, bytes > 3 * kHugePage);
    ASSERT_EQ(pages.data(), at);
    ASSERT_EQ(pages.size(), bytes);
    ASSERT_EQ(pages.data()[bytes - 1], std::byte{0});
  }
  EXPECT_EQ(mappings(pages), 1);
  EXPECT_EQ(pages.data()[0], std::byte{1});
}

TEST(Pages, TakeNoMoreAddressesThanTheyNeedWhereTheseAreLimited) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_TRUE(testing_support::succeeds_within(size_t{3} << 29, [] {
    Pages pages;
    for (size_t bytes = 4096; bytes <= 16 * kHugePage; bytes *= 2) pages.grow(bytes, bytes >= kHugePage);
    pages.data()[pages.size() - 1] = std::byte{1};
    const Pages others(size_t{1} << 30, false);  // there is room for them, too
  }));
#endif
  if (!mapping_is_free()) return;
  const auto with_limit = [](int resource) {
    const rlimit limit{RLIM_INFINITY - 1, RLIM_INFINITY};
    return setrlimit(resource, &limit) == 0 && !mapping_is_free() ? 0 : 1;
  };
  EXPECT_EXIT(std::exit(with_limit(RLIMIT_AS)), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(with_limit(RLIMIT_DATA)), testing::ExitedWithCode(0), "");
}

TEST(PageFiller, BeginsNoPageDuringAPause) {
  if (has_one_cpu()) GTEST_SKIP() << "one CPU: nothing is filled";
  PageFiller filler;
  Pages pages(kHugePage, true);
  {
    const PageFiller::Pause pause;
    pages.fill_soon(filler, 0, pages.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(is_resident(pages, 0));
  }
  EXPECT_TRUE(becomes_resident(pages, 0));
}

TEST(PageFiller, FillsAllThatIsAskedForAndGoesOnLater) {
  if (has_one_cpu()) GTEST_SKIP() << "one CPU: nothing is filled";
  PageFiller filler;
  for (int again = 0; again < 2; ++again) {
    Pages first(3 * kHugePage, true), second(2 * kHugePage, true);
    first.fill_soon(filler, 0, first.size());
    second.fill_soon(filler, 0, second.size());
    EXPECT_TRUE(becomes_resident(first, 0)) << "the one that is filled last";
    EXPECT_TRUE(becomes_resident(second, 0));
    for (size_t at = 0; at < first.size(); at += kHugePage) EXPECT_TRUE(is_resident(first, at));
  }
}

TEST(PageFiller, LeavesAloneWhatIsTaken) {
  if (has_one_cpu()) GTEST_SKIP() << "one CPU: nothing is filled";
  PageFiller filler;
  Pages pages(2 * kHugePage, true);
  {
    const PageFiller::Pause pause;
    pages.fill_soon(filler, 0, kHugePage);
    pages.fill_soon(filler, kHugePage, kHugePage);
    pages.take(0, kHugePage);
  }
  EXPECT_TRUE(becomes_resident(pages, kHugePage));
  EXPECT_FALSE(is_resident(pages, 0));
}

TEST(PageFiller, MayGoWithItsPagesAtAnyTime) {
  for (int round = 0; round < 40; ++round) {
    PageFiller filler;
    Pages pages(4 * kHugePage, true);
    pages.fill_soon(filler, 0, pages.size());
    if (round % 2 == 1 && !has_one_cpu()) ASSERT_TRUE(becomes_resident(pages, 3 * kHugePage));
    Pages other = std::move(pages);
    if (round % 4 >= 2) other.grow(200 * kHugePage, true);
    other.data()[0] = std::byte{1};
  }
}

TEST(PageFiller, RunsWhereverTheProcessMayThoughItsStarterIsBound) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one CPU: nothing to be bound to";
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &all)) --last;
  PageFiller filler;
  Pages pages(kHugePage, true);
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    pages.fill_soon(filler, 0, pages.size());
  }).join();
  std::ifstream status("/proc/self/status");
  std::string mine;
  while (std::getline(status, mine) && !mine.starts_with("Cpus_allowed_list:")) continue;
  mine = mine.substr(mine.find('\t') + 1);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (cpus_of_thread("embers pages") != mine && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(cpus_of_thread("embers pages"), mine);
}

TEST(PageFiller, IsOneThreadForAllStoresThatShareItAndOneEachForOthers) {
  const auto shared = std::make_shared<PageFiller>();
  {
    const auto one = large_store(shared), other = large_store(shared);
    wait_for_threads("embers pages", 1);
    EXPECT_EQ(threads_named("embers pages"), 1);
    const auto apart = large_store(nullptr);
    wait_for_threads("embers pages", 2);
    EXPECT_EQ(threads_named("embers pages"), 2);
  }
  wait_for_threads("embers pages", 1);
  EXPECT_EQ(threads_named("embers pages"), 1) << "a store's own thread ends with it, a shared one does not";
}

TEST(PageFiller, IsNotNeeded) {
  RowSlabs slabs(100'000);
  for (int i = 0; i < 100; ++i) *slabs.append() = static_cast<float>(i);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(*slabs.row(i), static_cast<float>(i));
}

}  // namespace
}  // namespace embers::storage
