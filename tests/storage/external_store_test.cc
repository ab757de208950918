// What external stores promise besides the contract that all stores share.
#include "storage/external/external_store.h"

#include <algorithm>
#include <barrier>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "storage/apply.h"
#include "tests/storage/external_testing.h"
#include "tests/storage/store_contract.h"
#include "tests/storage/store_testing.h"
#include "tests/support/closed_port.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using testing_support::ServerProcess;
using testing_support::TempDir;
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

class External : public testing::TestWithParam<ExternalKind> {
 protected:
  std::unique_ptr<ExternalStore> open(const ExternalOptions& options = {"job", 1, 0, ""}) const {
    return open_store(GetParam(), servers_, options);
  }
  static Rows gather(Store& store, const Keys& keys, size_t dim = 1) {
    Rows rows(keys.size() * dim, -1);
    std::vector<uint8_t> found(keys.size());
    store.gather(0, keys, rows, found);
    return rows;
  }
  static void add_one(std::span<float> row, std::span<float> slots, std::span<const float> grad) {
    row[0] += grad[0];
    if (!slots.empty()) slots[0] += 1;
  }
  static Rows scan(Store& store) {
    Rows all;
    store.scan(0, 0, 1000,
               [&](KeysView, std::span<const float> values) { all.assign(values.begin(), values.end()); });
    return all;
  }

  std::vector<ServerProcess> servers_ = start_servers(GetParam(), 1);
};
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

// --- the journal ---------------------------------------------------------------------------------

class Killed {};

// A server that dies for its client after some sets: what a shard killed in a write-back leaves behind.
class DiesWhileWriting final : public KeyValueServer {
 public:
  DiesWhileWriting(std::unique_ptr<KeyValueServer> server, int& sets)
      : server_(std::move(server)), sets_(sets) {}
  const std::string& address() const override { return server_->address(); }
  uint64_t longest_value() override { return server_->longest_value(); }
  void request(std::span<const std::string_view> names) override { server_->request(names); }
  void receive(const Visit& visit) override { server_->receive(visit); }
  void set(std::string_view name, std::string_view value) override {
    if (sets_-- == 0) {
      server_->barrier("none");  // what was sent arrives
      throw Killed();
    }
    server_->set(name, value);
  }
  void add(std::string_view name, std::string_view value) override { server_->add(name, value); }
  void flush() override { server_->flush(); }
  Health barrier(std::string_view mark) override { return server_->barrier(mark); }
  void reconnect() override { server_->reconnect(); }

 private:
  const std::unique_ptr<KeyValueServer> server_;
  int& sets_;
};

TEST_P(External, AWriteBackThatWasCutOffAnywhereIsFinishedOnceByTheNextProcess) {
  TempDir dir;
  const Rows grads{10, 20, 30};
  const Keys keys = ints({1, 2, 3});
  for (int cut = 0; cut <= 6; ++cut) {  // 3 rows, 3 slots, and not at all
    const ExternalOptions options{"job" + std::to_string(cut), 1, 0, dir / std::to_string(cut)};
    int sets = -1;
    {
      KeyValueServers servers = GetParam().connect({servers_[0].address()});
      servers.all[0] = std::make_unique<DiesWhileWriting>(std::move(servers.all[0]), sets);
      const auto store = make_external_store(std::move(servers), options);
      store->add_table(spec("t", 1), Rows{7});
      store->add_if_absent(0, keys, Rows{1, 2, 3});
      store->update(0, keys, grads, add_one);
      sets = cut;
      try {
        store->update(0, keys, grads, add_one);
        EXPECT_EQ(cut, 6);
      } catch (const Killed&) {
      }
    }
    const auto store = open(options);
    store->add_table(spec("t", 1), Rows{7});
    EXPECT_EQ(store->version(0), 2u);
    EXPECT_EQ(store->rows(0), 3u);
    EXPECT_EQ(scan(*store), (Rows{21, 9, 42, 9, 63, 9})) << "cut after " << cut;
    store->update(0, keys, grads, add_one);
    EXPECT_EQ(scan(*store), (Rows{31, 10, 62, 10, 93, 10})) << "cut after " << cut;
  }
}

TEST_P(External, AnApplyOfTwoTablesThatWasCutOffAnywhereIsWholeForTheNextProcess) {
  TempDir dir;
  const Keys keys = ints({1, 2});
  const auto add_tables = [](Store& store) {
    for (const char* name : {"t", "u"}) store.add_table(spec(name, 1), Rows{7});
  };
  const auto apply_to_both = [&](ExternalStore& store, const std::string& note) {
    store.apply({note}, [&] {
      for (TableId table = 0; table < 2; ++table) store.update(table, keys, Rows{10, 20}, add_one);
    });
  };
  for (int cut = 0; cut <= 8; ++cut) {  // 2 rows and 2 slots of each table, and not at all
    const ExternalOptions options{"whole" + std::to_string(cut), 1, 0, dir / std::to_string(cut)};
    int sets = -1;
    {
      KeyValueServers servers = GetParam().connect({servers_[0].address()});
      servers.all[0] = std::make_unique<DiesWhileWriting>(std::move(servers.all[0]), sets);
      const auto store = make_external_store(std::move(servers), options);
      add_tables(*store);
      for (TableId table = 0; table < 2; ++table) store->add_if_absent(table, keys, Rows{1, 2});
      apply_to_both(*store, "first");
      sets = cut;
      try {
        apply_to_both(*store, "second");
        EXPECT_EQ(cut, 8);
      } catch (const Killed&) {
      }
    }
    const auto store = open(options);
    EXPECT_TRUE(store->recovered());
    add_tables(*store);
    std::vector<std::string> notes = store->take_notes();
    notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
    EXPECT_EQ(notes, (std::vector<std::string>{"first", "second"}));
    for (TableId table = 0; table < 2; ++table) {
      EXPECT_EQ(store->version(table), 2u);
      Rows all;
      store->scan(table, 0, 10, [&](KeysView, std::span<const float> v) { all.assign(v.begin(), v.end()); });
      EXPECT_EQ(all, (Rows{21, 9, 42, 9})) << "table " << table << ", cut after " << cut;
    }
  }
}

TEST_P(External, AnApplyThatFailsAtOneTableChangesNoneAndLeavesNoNote) {
  TempDir dir;
  const ExternalOptions options{"job", 1, 0, dir.path().string()};
  {
    const auto store = open(options);
    for (const char* name : {"t", "u"}) store->add_table(spec(name, 1), {});
    store->add_if_absent(0, ints({1}), Rows{1});
    expect_error(ErrorCode::kMissingKey, {"'u'"}, [&] {
      store->apply({"note"}, [&] {
        for (TableId table = 0; table < 2; ++table) store->update(table, ints({1}), Rows{10}, add_one);
      });
    });
    expect_error(ErrorCode::kInternal, {"'t'", "twice"}, [&] {
      store->apply({"note"}, [&] {
        for (int i = 0; i < 2; ++i) store->update(0, ints({1}), Rows{10}, add_one);
      });
    });
    EXPECT_EQ(gather(*store, ints({1})), (Rows{1}));
    EXPECT_EQ(store->version(0), 0u);
    store->update(0, ints({1}), Rows{10}, add_one);
    EXPECT_EQ(gather(*store, ints({1})), (Rows{11})) << "an update of its own is one again";
  }
  EXPECT_TRUE(open(options)->take_notes().empty());
}

TEST_P(External, AJournalRecordThatWasCutOffWasNotApplied) {
  TempDir dir;
  const ExternalOptions options{"job", 1, 0, dir.path().string()};
  const std::string values = dir / "shard-0.values";
  {
    const auto store = open(options);
    store->add_table(spec("t", 1), {});
    store->add_if_absent(0, ints({1}), Rows{1});
    store->update(0, ints({1}), Rows{1}, add_one);
  }
  std::ofstream(values, std::ios::app) << "half a record";
  const auto store = open(options);
  store->add_table(spec("t", 1), {});
  EXPECT_EQ(store->version(0), 1u);
  store->update(0, ints({1}), Rows{1}, add_one);
  EXPECT_EQ(gather(*store, ints({1})), (Rows{3}));
}

TEST_P(External, AJournalOfAnotherRunIsBegunAnew) {
  TempDir dir;
  {
    const auto store = open({"job", 1, 0, dir.path().string()});
    store->add_table(spec("t", 1), {});
    store->add_if_absent(0, ints({1}), Rows{1});
  }
  const auto store = open({"job", 2, 0, dir.path().string()});
  store->add_table(spec("t", 1), {});
  EXPECT_EQ(store->rows(0), 0u);
}

TEST_P(External, AServerThatWasFlushedWhileTheShardWasAwayIsNoticed) {
  TempDir dir;
  const ExternalOptions options{"job", 1, 0, dir.path().string()};
  {
    const auto store = open(options);
    store->add_table(spec("t", 1), {});
    store->add_if_absent(0, ints({1}), Rows{1});
  }
  servers_[0].restart();
  expect_error(ErrorCode::kLost, {servers_[0].address(), "restarted or flushed"}, [&] { open(options); });
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

// --- servers that cannot be used -----------------------------------------------------------------

TEST_P(External, AnAddressWhereNobodyListensIsNamed) {
  const testing_support::ClosedPort closed;
  const std::string address = closed.address();
  expect_error(ErrorCode::kUnreachable, {address, "efused"}, [&] { GetParam().connect({address}); });
}

TEST_P(External, ASocketThatIsNotThereIsNamed) {
  const TempDir dir;
  // libmemcached does not say more.
  const char* const reason = GetParam().name == "redis" ? "o such file" : "is memcached running there?";
  expect_error(ErrorCode::kUnreachable, {dir / "socket", reason},
               [&] { GetParam().connect({"unix:" + (dir / "socket")}); });
}

TEST_P(External, ThePathOfASocketIsNeverCutOff) {
  const auto path_of = [](size_t size) { return "/" + std::string(size - 1, 'p'); };
  expect_error(ErrorCode::kUnreachable, {path_of(107)},
               [&] { GetParam().connect({"unix:" + path_of(107)}); });
  expect_error(ErrorCode::kInvalid, {path_of(108), "at most 107 bytes"},
               [&] { GetParam().connect({"unix:" + path_of(108)}); });
}

TEST_P(External, AHostThatDoesNotExistIsNamed) {
  const char* const reason = GetParam().name == "redis" ? "ame " : "LOOKUP";
  expect_error(ErrorCode::kUnreachable, {"nohost.invalid:11", reason},
               [&] { GetParam().connect({"nohost.invalid:11"}); });
}

TEST_P(External, AnAddressThatIsNoneIsRefused) {
  for (const char* const text : {"host", "host:", ":1", "host:0", "host:70000", "host:1x"})
    expect_error(ErrorCode::kInvalid, {text, "host:port"}, [&] { GetParam().connect({text}); });
  for (const char* const text : {"unix:", "unix:socket", "unix:./socket"})
    expect_error(ErrorCode::kInvalid, {text, "unix:/path"}, [&] { GetParam().connect({text}); });
}

TEST(WrongServer, RedisIsNoMemcachedAndTheOtherWayRound) {
  const ServerProcess memcached = ServerProcess::memcached(), redis = ServerProcess::redis();
  expect_error(ErrorCode::kUnreachable, {redis.address(), "memcached"},
               [&] { connect_memcached({redis.address()}); });
  expect_error(ErrorCode::kUnreachable, {memcached.address(), "Redis"},
               [&] { connect_redis({memcached.address()}); });
}

TEST(Memcached, RowsThatDoNotFitAreRefusedAtTheStart) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::memcached());
  const auto store = open_store(kMemcached, servers, {"job", 1, 0, ""});
  expect_error(ErrorCode::kInvalid, {"'huge'", servers[0].address(), "-I 3m"},
               [&] { store->add_table(spec("huge", 300'000), {}); });
  servers.clear();
  servers.push_back(ServerProcess::memcached({"-M", "-I", "4m"}));
  const auto roomy = open_store(kMemcached, servers, {"job", 1, 0, ""});
  roomy->add_table(spec("huge", 300'000), {});
  roomy->add_if_absent(0, ints({1}), Rows(300'000, 5));
  Rows row(300'000);
  std::vector<uint8_t> found(1);
  EXPECT_EQ(roomy->gather(0, ints({1}), row, found), 1u);
  EXPECT_EQ(row, Rows(300'000, 5));
}

// Fills the server until there is an error. Returns its message.
std::string fill(Store& store) {
  constexpr size_t kRows = 1000, kDim = 256;
  try {
    for (int64_t begin = 0; begin < 1'000'000; begin += kRows) {
      std::vector<int64_t> keys(kRows);
      for (size_t i = 0; i < kRows; ++i) keys[i] = begin + static_cast<int64_t>(i);
      store.add_if_absent(0, ints(keys), Rows(kRows * kDim));
      Rows rows(kRows * kDim);
      std::vector<uint8_t> found(kRows);
      store.gather(0, ints(keys), rows, found);
      store.update(0, ints(keys), rows, [](auto row, auto, auto) { row[0] = 1; });
    }
  } catch (const Error& e) {
    EXPECT_EQ(name(e.code()), name(ErrorCode::kLost)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "a full server took everything";
  return "";
}

TEST(Full, AMemcachedThatRefusesMoreIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::memcached({"-M", "-m", "64"}));
  const auto store = open_store(kMemcached, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find(servers[0].address()), std::string::npos) << said;
}

TEST(Full, AMemcachedThatEvictsIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::memcached({"-m", "64"}));
  const auto store = open_store(kMemcached, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find(servers[0].address() + " evicted"), std::string::npos) << said;
  EXPECT_EQ(said.find(": 0 of"), std::string::npos) << said;
}

TEST(Full, ARedisThatRefusesMoreIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::redis({"--maxmemory", "16mb"}));
  const auto store = open_store(kRedis, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find("maxmemory"), std::string::npos) << said;
}

TEST(Full, ARedisThatEvictsIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::redis({"--maxmemory", "16mb", "--maxmemory-policy", "allkeys-random"}));
  const auto store = open_store(kRedis, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find(servers[0].address()), std::string::npos) << said;
}

}  // namespace
}  // namespace embers::storage
