// What an external store with a journal has done when its process dies.
#include "storage/external/external_store.h"

#include <algorithm>

#include "storage/apply.h"
#include "tests/storage/external_testing.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using testing_support::TempDir;
using Rows = std::vector<float>;

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

}  // namespace
}  // namespace embers::storage
