// What a worker reads straight from servers is what owners wrote there.
#include "storage/external/external_reader.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/storage/external_testing.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using testing_support::ServerProcess;
using Rows = std::vector<float>;

constexpr uint64_t kRun = 7;

// Two owners of a job on three servers, and a reader.
class Reader : public testing::TestWithParam<ExternalKind> {
 protected:
  ExternalReader reader(uint64_t run = kRun, const ServerTimeouts& timeouts = {}) const {
    return ExternalReader(GetParam().connect(addresses_of(servers_), timeouts), {"job", run, 2}, tables_);
  }
  std::unique_ptr<ExternalStore> owner(uint32_t shard, uint64_t run = kRun) const {
    auto store = open_store(GetParam(), servers_, {"job", run, shard, ""});
    for (const TableSpec& table : tables_) store->add_table(table, Rows{7});
    return store;
  }
  static size_t read(ExternalReader& reader, TableId table, KeysView keys, std::span<float> rows,
                     std::span<uint8_t> found) {
    const ExternalReader::TableRead one{table, keys, rows, found};
    return reader.gather({&one, 1});
  }
  // The rows that are there; -1 in place of others.
  static Rows gather(ExternalReader& reader, TableId table, const Keys& keys, size_t dim) {
    Rows rows(keys.size() * dim, -1);
    std::vector<uint8_t> found(keys.size(), 9);
    const size_t count = read(reader, table, keys, rows, found);
    EXPECT_EQ(count, static_cast<size_t>(std::count(found.begin(), found.end(), 1)));
    for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(found[i] == 0, rows[i * dim] == -1) << i;
    return rows;
  }
  static void add_gradient(std::span<float> row, std::span<float> slots, std::span<const float> grad) {
    for (size_t d = 0; d < row.size(); ++d) row[d] += grad[d];
    slots[0] += 1;
  }
  using Versions = std::vector<std::optional<uint64_t>>;

  std::vector<ServerProcess> servers_ = start_servers(GetParam(), 3);
  const std::vector<TableSpec> tables_{spec("ints", 2), spec("texts", 1, KeyKind::kBytes)};
};
INSTANTIATE_TEST_SUITE_P(All, Reader, testing::Values(kMemcached, kRedis));

TEST_P(Reader, ReadsRowsOfEveryOwnerAsTheyWereLastWritten) {
  const auto a = owner(0), b = owner(1);
  auto reads = reader();
  EXPECT_EQ(gather(reads, 0, ints({1, 2}), 2), (Rows{-1, -1, -1, -1}));
  a->add_if_absent(0, ints({1, -5}), Rows{1, 2, 3, 4});
  b->add_if_absent(0, ints({2}), Rows{5, 6});
  EXPECT_EQ(gather(reads, 0, ints({2, 9, -5, 1}), 2), (Rows{5, 6, -1, -1, 3, 4, 1, 2}));
  a->update(0, ints({-5}), Rows{10, 20}, add_gradient);
  EXPECT_EQ(gather(reads, 0, ints({-5}), 2), (Rows{13, 24}));
  const std::string longer(1000, 'x');
  b->add_if_absent(1, strings({longer + "a", longer + "b", "/ #"}), Rows{1, 2, 3});
  EXPECT_EQ(gather(reads, 1, strings({"/ #", longer + "b", longer + "c", longer + "a"}), 1),
            (Rows{3, 2, -1, 1}));
}

TEST_P(Reader, ReadsAllTablesAtOnce) {
  const auto a = owner(0);
  a->add_if_absent(0, ints({1, 2}), Rows{1, 2, 3, 4});
  a->add_if_absent(1, strings({"1", "b"}), Rows{5, 6});
  auto reads = reader();
  const Keys numbers = ints({3, 2, 1}), texts = strings({"b", "c", "1"});
  Rows rows(6, -1), others(3, -1);
  std::vector<uint8_t> found(3), found_others(3);
  const std::vector<ExternalReader::TableRead> both{{1, texts, others, found_others},
                                                    {0, numbers, rows, found}};
  EXPECT_EQ(reads.gather(both), 4u);
  EXPECT_EQ(rows, (Rows{-1, -1, 3, 4, 1, 2}));
  EXPECT_EQ(others, (Rows{6, -1, 5}));
  EXPECT_EQ(found, (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(found_others, (std::vector<uint8_t>{1, 0, 1}));
  expect_error(ErrorCode::kInvalid, {"'ints'", "twice"}, [&] {
    reads.gather(std::vector{both[1], both[1]});
  });
}

TEST_P(Reader, ReadsMoreKeysThanOneRequestTakes) {
  const auto a = owner(0);
  std::vector<int64_t> numbers(10'000);
  std::iota(numbers.begin(), numbers.end(), -5000);
  Rows rows(2 * numbers.size());
  std::iota(rows.begin(), rows.end(), 0.0f);
  a->add_if_absent(0, ints(numbers), rows);
  auto reads = reader();
  EXPECT_EQ(gather(reads, 0, ints(numbers), 2), rows);
}

TEST_P(Reader, KnowsTheVersionsThatOwnersPublished) {
  const auto a = owner(0), b = owner(1);
  auto reads = reader();
  EXPECT_EQ(reads.versions(), (Versions{std::nullopt, std::nullopt}));
  b->publish(0);
  ASSERT_TRUE(testing_support::wait_until([&] { return reads.versions() == Versions{std::nullopt, 0}; }));
  a->publish(3);
  b->publish(5);
  b->publish(6);
  EXPECT_TRUE(testing_support::wait_until([&] { return reads.versions() == Versions{3, 6}; }));
}

TEST_P(Reader, AVersionIsThereNoSoonerThanItsRows) {
  const auto a = owner(0);
  a->add_if_absent(0, ints({1, 2, 3, 4}), Rows(8));
  auto reads = reader();
  const std::jthread writer([&] {
    for (uint64_t version = 1; version <= 500; ++version) {
      a->update(0, ints({1, 2, 3, 4}), Rows(8, 1), add_gradient);
      a->publish(version);
    }
  });
  for (uint64_t seen = 0; seen < 500;) {
    seen = reads.versions()[0].value_or(0);
    const Rows rows = gather(reads, 0, ints({1, 2, 3, 4}), 2);
    ASSERT_GE(*std::min_element(rows.begin(), rows.end()), static_cast<float>(seen));
  }
}

TEST_P(Reader, RowsAndVersionsOfAnotherRunAreAbsent) {
  const auto before = owner(0, 1);
  before->add_if_absent(0, ints({1}), Rows{1, 2});
  before->publish(4);
  auto old = reader(1);
  ASSERT_TRUE(testing_support::wait_until([&] { return old.versions()[0] == 4; }));
  auto reads = reader();
  EXPECT_EQ(gather(reads, 0, ints({1}), 2), (Rows{-1, -1}));
  EXPECT_EQ(reads.versions(), (Versions{std::nullopt, std::nullopt}));
}

TEST_P(Reader, RefusesKeysOfTheWrongKindAndTablesItDoesNotKnow) {
  auto reads = reader();
  Rows room(2);
  std::vector<uint8_t> found(1);
  expect_error(ErrorCode::kInvalid, {"'ints'", "int64", "bytes"},
               [&] { read(reads, 0, strings({"a"}), room, found); });
  expect_error(ErrorCode::kInvalid, {"'ints'", "2 numbers"},
               [&] { read(reads, 0, ints({1}), std::span(room).first(1), found); });
  expect_error(ErrorCode::kUnknownTable, {"2"}, [&] { read(reads, 2, ints({1}), room, found); });
}

TEST_P(Reader, RefusesValuesThatAreNoRowOfItsTable) {
  auto store = open_store(GetParam(), servers_, {"job", kRun, 0, ""});
  store->add_table(spec("ints", 3), Rows{7});
  store->add_if_absent(0, ints({1}), Rows{1, 2, 3});
  auto reads = reader();
  Rows room(2);
  std::vector<uint8_t> found(1);
  expect_error(ErrorCode::kCorrupt, {"job/ints/1", "another table"},
               [&] { read(reads, 0, ints({1}), room, found); });
  const KeyValueServers direct = GetParam().connect(addresses_of(servers_));
  KeyValueServer& server = *direct.all[direct.server_of("job/ints/2")];
  server.set("job/ints/2", std::string(40, 'x'));
  server.barrier("none");
  expect_error(ErrorCode::kCorrupt, {"job/ints/2", "not a row"},
               [&] { read(reads, 0, ints({2}), room, found); });
}

TEST_P(Reader, NamesAServerThatDied) {
  auto reads = reader();
  Rows room(200);
  std::vector<int64_t> numbers(100);  // of all servers
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<uint8_t> found(100);
  read(reads, 0, ints(numbers), room, found);
  servers_[1].kill();
  expect_error(ErrorCode::kUnavailable, {servers_[1].address()},
               [&] { read(reads, 0, ints(numbers), room, found); });
}

TEST_P(Reader, NamesAServerThatStoppedOnceItsTimeIsUp) {
  auto reads = reader(kRun, {std::chrono::milliseconds(1000), std::chrono::milliseconds(1000)});
  servers_[1].stop();
  Rows room(200);
  std::vector<int64_t> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<uint8_t> found(100);
  expect_error(ErrorCode::kUnavailable, {servers_[1].address()},
               [&] { read(reads, 0, ints(numbers), room, found); });
}

}  // namespace
}  // namespace embers::storage
