// What external stores promise besides the contract that all stores share.
#include "storage/external/external_store.h"

#include <array>
#include <barrier>
#include <mutex>
#include <numeric>
#include <thread>

#include "storage/apply.h"
#include "tests/storage/external_testing.h"
#include "tests/storage/store_contract.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Rows = std::vector<float>;

INSTANTIATE_TEST_SUITE_P(
    External, StoreContract,
    testing::Values(
        StoreFactory{"memcached", [] { return shared_store(kMemcached, 1); }},
        StoreFactory{"memcached x 3", [] { return shared_store(kMemcached, 3); }},
        StoreFactory{"redis", [] { return shared_store(kRedis, 1); }},
        StoreFactory{"redis x 3", [] { return shared_store(kRedis, 3); }},
        StoreFactory{"memcached at Unix sockets x 3", [] { return shared_store(kMemcachedAtUnixSocket, 3); }},
        StoreFactory{"redis at Unix sockets x 3", [] { return shared_store(kRedisAtUnixSocket, 3); }}));

INSTANTIATE_TEST_SUITE_P(All, External,
                         testing::Values(kMemcached, kRedis, kMemcachedAtUnixSocket, kRedisAtUnixSocket));

TEST_P(External, KeysLongerThanAServerTakesAreToldApart) {
  const auto store = open();
  store->add_table(spec("t", 1, KeyKind::kBytes), Rows{7});
  const std::string base(1000, 'x');
  const Keys keys = strings({base + "a", base + "b", std::string(300, '\n'), std::string(251, 'y'), "short"});
  EXPECT_EQ(store->add_if_absent(0, keys, Rows{1, 2, 3, 4, 5}), 5u);
  store->update(0, strings({base + "b"}), Rows{10}, add_one);
  EXPECT_EQ(gather(*store, keys), (Rows{1, 12, 3, 4, 5}));
  EXPECT_EQ(gather(*store, strings({base + "c"})), (Rows{-1}));
}

TEST_P(External, NamesThatLookAlikeAreApart) {
  const auto store = open({"a", 1, 0, ""});
  store->add_table(spec("b", 1, KeyKind::kBytes), Rows{7});
  store->add_table(spec("b/c", 1, KeyKind::kBytes), Rows{7});
  store->add_if_absent(0, strings({"c/d", "k", "k#slots", "%2F", "/", " "}), Rows{1, 2, 3, 4, 5, 6});
  store->add_if_absent(1, strings({"d"}), Rows{8});
  EXPECT_EQ(gather(*store, strings({"c/d", "k", "k#slots", "%2F", "/", " "})), (Rows{1, 2, 3, 4, 5, 6}));
  const auto other = open({"a/b", 1, 0, ""});
  other->add_table(spec("c", 1, KeyKind::kBytes), Rows{7});
  EXPECT_EQ(gather(*other, strings({"d"})), (Rows{-1}));
}

TEST_P(External, JobsThatShareServersAreApart) {
  const auto a = open({"a", 1, 0, ""}), b = open({"b", 2, 0, ""});
  for (const auto& store : {a.get(), b.get()}) store->add_table(spec("t", 1), {});
  a->add_if_absent(0, ints({5}), Rows{1});
  EXPECT_EQ(b->add_if_absent(0, ints({5}), Rows{2}), 1u);
  EXPECT_EQ(gather(*a, ints({5})), (Rows{1}));
}

TEST_P(External, RowsOfAnEarlierRunCountAsAbsent) {
  const auto before = open({"job", 1, 0, ""});
  before->add_table(spec("t", 1), Rows{0});
  before->add_if_absent(0, ints({5, 6}), Rows{1, 2});
  before->update(0, ints({5}), Rows{1}, add_one);
  const auto store = open({"job", 2, 0, ""});
  store->add_table(spec("t", 1), Rows{0});
  EXPECT_EQ(gather(*store, ints({5, 6})), (Rows{-1, -1}));
  EXPECT_EQ(store->add_if_absent(0, ints({5}), Rows{3}), 1u);
  EXPECT_EQ(scan(*store), (Rows{3, 0}));
  // The earlier run, if it is still going on, is told.
  expect_error(ErrorCode::kLost, {servers_[0].address(), "another run", "'job'"},
               [&] { before->update(0, ints({6}), Rows{1}, add_one); });
}

TEST_P(External, ARowThatAnotherShardCreatedIsFoundScannedAndUpdated) {
  const auto a = open({"job", 1, 0, ""}), b = open({"job", 1, 1, ""});
  for (const auto& store : {a.get(), b.get()}) store->add_table(spec("t", 1), Rows{7});
  a->add_if_absent(0, ints({5}), Rows{1});
  EXPECT_EQ(b->add_if_absent(0, ints({5}), Rows{2}), 0u);
  EXPECT_EQ(gather(*b, ints({5})), (Rows{1}));
  EXPECT_EQ(scan(*b), (Rows{1, 7}));
}

TEST_P(External, UpdatesAreCounted) {
  const auto store = open();
  store->add_table(spec("t", 1), {});
  store->add_if_absent(0, ints({5}), Rows{1});
  EXPECT_EQ(store->version(0), 0u);
  store->update(0, ints({5}), Rows{0}, add_one);
  store->update(0, ints({5}), Rows{0}, add_one);
  EXPECT_EQ(store->version(0), 2u);
}

// Rows, slots and names that are long, so that requests and answers are more than sockets hold.
struct ManyRows {
  static constexpr size_t kDim = 64;
  ManyRows() {
    std::vector<int64_t> numbers(20000);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int64_t>(i * 1000003);
      for (size_t d = 0; d < kDim; ++d) values.push_back(static_cast<float>(i + d));
    }
    keys = ints(numbers);
  }
  static void add_table(Store& store) { store.add_table(spec(std::string(100, 't'), kDim), Rows(kDim, 7)); }

  Keys keys;
  Rows values;
};

TEST_P(External, MoreKeysThanOneRequestTakes) {
  ManyRows many;
  const auto store = open();
  many.add_table(*store);
  EXPECT_EQ(store->add_if_absent(0, many.keys, many.values), many.keys.size());
  store->update(0, many.keys, many.values, [](auto row, auto slots, auto grad) {
    for (size_t d = 0; d < ManyRows::kDim; ++d) row[d] += grad[d];
    slots[0] = row[0];
  });
  store->update(0, many.keys, Rows(many.values.size()),
                [](auto row, auto slots, auto) { row[0] = slots[0]; });
  for (float& v : many.values) v *= 2;
  EXPECT_EQ(gather(*store, many.keys, many.kDim), many.values);
}

// A server answers to each row that it will not add.
TEST_P(External, MoreRowsOfAnEarlierRunThanOneRequestTakes) {
  const ManyRows many;
  const auto before = open({"job", 1, 0, ""});
  many.add_table(*before);
  before->add_if_absent(0, many.keys, many.values);
  const auto store = open({"job", 2, 0, ""});
  many.add_table(*store);
  Rows values = many.values;
  for (float& v : values) v += 1;
  EXPECT_EQ(store->add_if_absent(0, many.keys, values), many.keys.size());
  EXPECT_EQ(gather(*store, many.keys, many.kDim), values);
}

// --- loss ----------------------------------------------------------------------------------------

TEST_P(External, ARestartedServerIsReportedAndNothingIsMadeAgain) {
  const auto store = open();
  store->add_table(spec("t", 1), {});
  store->add_if_absent(0, ints({1, 2, 3}), Rows{1, 2, 3});
  servers_[0].restart();
  expect_error(ErrorCode::kLost, {servers_[0].address(), "restarted", "3 of the 3 rows", "--resume"}, [&] {
    gather(*store, ints({1, 9}));
  });
  const auto lost = [&](auto action) {
    expect_error(ErrorCode::kLost, {servers_[0].address(), "--resume"}, action);
  };
  lost([&] { store->update(0, ints({2}), Rows{1}, add_one); });
  lost([&] { store->scan(0, 0, 10, [](auto, auto) { FAIL(); }); });
  lost([&] { store->restore(0, ints({8}), Rows{1}); });
}

TEST_P(External, OnlyRowsOfTheServerThatLostThemAreCounted) {
  servers_.push_back(GetParam().start(GetParam().words));
  const auto store = open();
  store->add_table(spec("t", 1), Rows{7});
  std::vector<int64_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  store->add_if_absent(0, ints(numbers), Rows(1000));
  store->update(0, ints(numbers), Rows(1000), add_one);
  servers_[1].restart();
  try {
    gather(*store, ints(numbers));
    FAIL() << "nothing was missed";
  } catch (const Error& e) {
    const std::string said = e.what(), before = "flushed: ";
    int gone = 0, held = 0;
    const size_t at = said.find(before);
    ASSERT_NE(at, said.npos) << said;
    ASSERT_EQ(std::sscanf(said.c_str() + at + before.size(), "%d of the %d rows", &gone, &held), 2) << said;
    EXPECT_EQ(gone, held);
    EXPECT_GT(held, 500);  // row or slots: about three quarters
    EXPECT_LT(held, 1000);
  }
}

TEST_P(External, ADeadServerIsReportedWithWhatItHeld) {
  const auto store = open();
  store->add_table(spec("t", 1), {});
  store->add_if_absent(0, ints({1, 2, 3}), Rows{1, 2, 3});
  servers_[0].kill();
  expect_error(ErrorCode::kLost, {servers_[0].address(), "3 rows"}, [&] { gather(*store, ints({1})); });
  expect_error(ErrorCode::kLost, {servers_[0].address()},
               [&] { store->update(0, ints({1}), Rows{1}, add_one); });
}

TEST_P(External, AServerThatStoppedIsReportedInTimeAndAskedNoMore) {
  const ServerTimeouts timeouts{std::chrono::milliseconds(1000), std::chrono::milliseconds(1000)};
  const auto store =
      make_external_store(GetParam().connect(addresses_of(servers_), timeouts), {"job", 1, 0, ""});
  store->add_table(spec("t", 1), {});
  store->add_if_absent(0, ints({1, 2, 3}), Rows{1, 2, 3});
  servers_[0].stop();
  const auto lost = [&](auto action) {
    expect_error(ErrorCode::kLost, {servers_[0].address(), "3 rows", "--resume"}, action);
  };
  lost([&] { gather(*store, ints({1})); });
  servers_[0].kill();  // it is not asked again, so the message is the same
  lost([&] { store->update(0, ints({1}), Rows{1}, add_one); });
  lost([&] { store->publish(1); });
}

TEST_P(External, AnEmptyValueIsNoRow) {
  const auto store = open();
  store->add_table(spec("t", 1), Rows{7});
  store->add_if_absent(0, ints({1, 2}), Rows{1, 2});
  // The server forgets one row: here another program removes it.
  const KeyValueServers direct = GetParam().connect({servers_[0].address()});
  direct.all[0]->set("job/t/1", "");
  direct.all[0]->barrier("none");
  expect_error(ErrorCode::kCorrupt, {"job/t/1", "not a row"}, [&] { gather(*store, ints({1})); });
}

TEST_P(External, AfterAFailureAtOneServerAnswersOfOthersAreNotMistaken) {
  const auto servers = start_servers(GetParam(), 3);
  const auto store = open_store(GetParam(), servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 1), {});
  std::vector<int64_t> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  Rows values(numbers.begin(), numbers.end());
  store->add_if_absent(0, ints(numbers), values);
  // One row is damaged, at each server in turn.
  for (const auto& server : servers) {
    const KeyValueServers direct = GetParam().connect({server.address()});
    for (const int64_t key : {1, 2, 3, 4, 5, 6, 7, 8}) {
      const std::string name = "job/t/" + std::to_string(key);
      std::string before;
      const std::array<std::string_view, 1> names{name};
      direct.all[0]->request(names);
      direct.all[0]->receive([&](size_t, std::string_view value) { before = value; });
      if (before.empty()) continue;  // it is at another server
      direct.all[0]->set(name, std::string(100, 'x'));
      direct.all[0]->barrier("none");
      expect_error(ErrorCode::kCorrupt, {name}, [&] { gather(*store, ints(numbers)); });
      direct.all[0]->set(name, before);
      direct.all[0]->barrier("none");
      EXPECT_EQ(gather(*store, ints(numbers)), values);
    }
  }
}

TEST_P(External, LostSlotsAreNotMadeAgain) {
  const auto store = open();
  store->add_table(spec("t", 1), Rows{7});
  store->add_if_absent(0, ints({1}), Rows{1});
  store->update(0, ints({1}), Rows{1}, add_one);
  // Slots of an older version: a write that the server lost.
  const KeyValueServers direct = GetParam().connect({servers_[0].address()});
  std::string slots, name = "job/t/1#slots";
  const std::vector<std::string_view> names{name};
  direct.all[0]->request(names);
  direct.all[0]->receive([&](size_t, std::string_view value) { slots = value; });
  ASSERT_FALSE(slots.empty());
  store->update(0, ints({1}), Rows{1}, add_one);
  direct.all[0]->set(name, slots);
  direct.all[0]->barrier("none");
  expect_error(ErrorCode::kLost, {"slots of key 1", "'t'", servers_[0].address()},
               [&] { store->update(0, ints({1}), Rows{1}, add_one); });
}

TEST_P(External, AValueOfAnotherProgramIsNoRow) {
  const auto store = open();
  store->add_table(spec("t", 1), {});
  const KeyValueServers direct = GetParam().connect({servers_[0].address()});
  direct.all[0]->set("job/t/1", std::string(100, 'x'));
  direct.all[0]->barrier("none");
  expect_error(ErrorCode::kCorrupt, {"job/t/1", "not a row of embers"}, [&] { gather(*store, ints({1})); });
  expect_error(ErrorCode::kCorrupt, {"job/t/1", "not a row of embers"},
               [&] { store->add_if_absent(0, ints({1}), Rows{1}); });
}

// --- the seed's race -----------------------------------------------------------------------------

// lookup_embedding of one new key: gets; initial value; set if not exists; gets again.
float look_up(Store& store, const Keys& key, float initial, std::mutex* guard) {
  const auto locked = [&](auto action) {
    if (guard == nullptr) return action();
    const std::lock_guard lock(*guard);
    return action();
  };
  Rows row(1);
  std::vector<uint8_t> found(1);
  if (locked([&] { return store.gather(0, key, row, found); }) == 1) return row[0];
  row[0] = initial;
  locked([&] { return store.add_if_absent(0, key, row, found); });
  EXPECT_EQ(locked([&] { return store.gather(0, key, row, found); }), 1u);
  return row[0];
}

// Two workers meet each new key at once; `stores` are the same one for both, with a lock, since their shard
// orders them, or two.
void race(std::array<Store*, 2> stores, std::mutex* guard) {
  constexpr int kKeys = 100'000;
  std::array<Rows, 2> read{Rows(kKeys), Rows(kKeys)};
  std::barrier start(2);
  const auto worker = [&](size_t w) {
    for (int key = 0; key < kKeys; ++key) {
      if (key % 16 == 0) start.arrive_and_wait();
      read[w][key] = look_up(*stores[w], ints({key}), static_cast<float>(w + 1), guard);
    }
  };
  std::thread other(worker, 1);
  worker(0);
  other.join();
  EXPECT_EQ(read[0], read[1]);
}

TEST(Race, TwoWorkersReadTheSameNewRowOfAMemoryStore) {
  const auto store = make_memory_store();
  store->add_table(spec("t", 1), {});
  std::mutex guard;
  race({store.get(), store.get()}, &guard);
}

TEST_P(External, TwoWorkersThatMeetANewKeyReadTheSameRow) {
  const auto a = open({"job", 1, 0, ""}), b = open({"job", 1, 1, ""});
  for (const auto& store : {a.get(), b.get()}) store->add_table(spec("t", 1), {});
  race({a.get(), b.get()}, nullptr);
}

}  // namespace
}  // namespace embers::storage
