// Rows between owners and files, of tables whose columns are spread over owners.
#include "master/snapshot.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "actors/ask.h"
#include "actors/routing/route.h"
#include "storage/checkpoint/checkpoint.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using SavedRows = std::map<int64_t, std::vector<float>>;

class ColumnsOfOwners : public testing::Test {
 protected:
  static constexpr uint32_t kColumns = 5;

  // Owners of a table "wide", and the master's view of them.
  struct Side {
    Side(System& system, uint32_t number, Partition partition) {
      TableSpec wide = table("wide", kColumns);
      wide.update_rule = {"adagrad", {{"learning_rate", 1.0}}};
      wide.initializer = {"uniform", {}};
      wide.partition = partition;
      context.model.tables = {wide};
      context.map = even_owner_map(number, 16);
      OwnerConfig config = owner_config(true, context.model.tables);
      config.map = context.map;
      for (config.number = 0; config.number < number; ++config.number)
        context.owners.push_back(spawn_owner(system, config));
    }
    ~Side() {
      for (const OwnerHandles& owner : context.owners) end_owner(owner);
    }
    SnapshotContext context;
  };

  // Makes rows as a worker's pull does, at some of the owners.
  void make_rows(const Side& side, const Keys& keys, size_t owners) {
    const TableKeyList list{0, keys};
    const auto& context = side.context;
    const Routed routed = route({&list, 1}, context.model.tables, context.map, context.owners.size());
    for (size_t owner = 0; owner < owners; ++owner)
      for (const RoutedTable& part : routed[owner]) {
        const TableSlices slices{part.table, part.keys, 0, {}};
        ask(self_.ptr(), context.owners[owner].shard,
            make_pull(origin(0), wire::ReadMode::LATEST, true, {&slices, 1}));
      }
  }

  SavedRows saved_rows() const {
    SavedRows rows;
    storage::CheckpointReader::open(directory())
        ->read(0, 2, [&](KeysView keys, std::span<const float> values) {
          for (size_t i = 0; i < keys.size(); ++i)
            rows[keys.ints[i]].assign(&values[i * 2 * kColumns], &values[i * 2 * kColumns] + 2 * kColumns);
        });
    return rows;
  }
  void save(const Side& side, const Cursor& cursor = {}) {
    save_checkpoint(self_.ptr(), side.context, directory(), "job", cursor);
  }
  Cursor load(const Side& side) { return load_checkpoint(self_.ptr(), side.context, directory(), true); }
  std::string directory() const { return dir_ / "model"; }

  TempDir dir_;
  System system_;
  caf::scoped_actor self_{system_};
};

TEST_F(ColumnsOfOwners, AreSavedAndRestoredToAnyNumberOfOwnersAndEitherPartition) {
  const Keys keys(std::vector<int64_t>{5, -6, 7000});
  const Side one(system_, 1, Partition::kToken);
  make_rows(one, keys, 1);
  save(one);
  const SavedRows expected = saved_rows();
  ASSERT_EQ(expected.size(), 3u);
  for (const auto& [number, partition] :
       std::vector<std::pair<uint32_t, Partition>>{{2, Partition::kEncoding},
                                                   {4, Partition::kEncoding},
                                                   {3, Partition::kToken},
                                                   {7, Partition::kEncoding},
                                                   {1, Partition::kToken}}) {
    const Side side(system_, number, partition);
    load(side);
    save(side);
    EXPECT_EQ(saved_rows(), expected) << number << " owners, " << name(partition);
  }
}

// A worker that was killed in the middle of its pull had asked only the first owner.
TEST_F(ColumnsOfOwners, ThatNotAllOwnersHaveMadeAreNotSaved) {
  const Side side(system_, 3, Partition::kEncoding);
  make_rows(side, Keys(std::vector<int64_t>{5, 6}), 3);
  make_rows(side, Keys(std::vector<int64_t>{7}), 1);
  save(side);
  EXPECT_EQ(saved_rows().size(), 2u);
  EXPECT_FALSE(saved_rows().contains(7));
  make_rows(side, Keys(std::vector<int64_t>{7}), 3);
  save(side);
  EXPECT_EQ(saved_rows().size(), 3u);
}

TEST_F(ColumnsOfOwners, AreNotResumedAsRowsWhereAMinibatchHadReachedSomeOwnersOnly) {
  const Side columns(system_, 2, Partition::kEncoding), rows(system_, 2, Partition::kToken);
  make_rows(columns, Keys(std::vector<int64_t>{5}), 2);
  Cursor cursor;
  cursor.partial = {{4, {1}}};
  save(columns, cursor);
  EXPECT_EQ(load(columns).partial.size(), 1u);
  expect_error(ErrorCode::kMismatch,
               {"was saved when minibatch 4 had reached some shards but not all, with partition encoding of "
                "table 'wide'; this job has token: resume with the same partition"},
               [&] { load(rows); });
}

}  // namespace
}  // namespace embers
