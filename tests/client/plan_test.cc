// What a minibatch pulls and pushes, against the naive way: key by key.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "client/pipeline/push.h"
#include "tests/support/actors.h"

namespace embers {
namespace {

using namespace testing_support;

class Plan : public testing::Test {
 protected:
  Plan() {
    owners_.handles.resize(3);
    owners_.map = even_owner_map(3, 64);
    owners_.tables = model_.tables;
    std::vector<int64_t> ints;
    std::vector<std::string> strings;
    for (int64_t i = 0; i < 50; ++i) ints.push_back(i * 1000003 - 7);
    for (int i = 0; i < 20; ++i) strings.push_back("key " + std::to_string(i));
    unique_ = {Keys(ints), Keys(strings)};
    work_.keys = {{0, unique_[0]}, {1, unique_[1]}};
    work_.origin = origin(4, 9);
    work_.versions = {10, 11, 12};
  }
  // A number that tells table, key and column apart.
  static float value(TableId table, KeysView keys, size_t i, uint32_t column) {
    return static_cast<float>(hash_key(keys, i) % 100000 + table * 200000 + column * 0.25);
  }

  ModelSpec model_{
      {table("a", 3), table("s", 2, KeyKind::kBytes), table(kDenseTable, kDenseChunk, KeyKind::kBytes)},
      {{"w", {3, 700}, false}}};
  DenseKeys keys_{model_};
  Owners owners_;
  std::vector<Keys> unique_;  // of tables 0 and 1
  Work work_;
};

TEST_F(Plan, EveryRowArrivesInItsPlaceFromTheOwnerOfItsKey) {
  PullPlan plan = plan_pull(work_, owners_, model_, keys_);
  route_pull(plan, owners_);
  for (size_t owner = 0; owner < 3; ++owner) {
    const auto request = pull_request(plan, owner, work_.origin, true, true);
    EXPECT_EQ(request.get().getMode(), wire::ReadMode::EXACT);
    const auto tables = read_slices(request.get().getTables(), model_.tables.size());
    std::vector<RowsShape> shapes;
    for (const TableSlices& t : tables) {
      shapes.push_back({t.table, model_.tables[t.table].dim, t.keys.size()});
      for (size_t i = 0; i < t.keys.size(); ++i) EXPECT_EQ(owner_of(owners_.map, hash_key(t.keys, i)), owner);
    }
    const auto reply = make_pull_reply(9, shapes, [&](size_t t, std::span<float> rows) {
      for (size_t i = 0; i < rows.size(); ++i)
        rows[i] = value(shapes[t].table, tables[t].keys, i / shapes[t].dim,
                        static_cast<uint32_t>(i % shapes[t].dim));
    });
    take_rows(plan, owner, owners_, reply.get());
  }
  ASSERT_EQ(work_.rows.dense.size(), 3 * kDenseChunk);
  for (size_t t = 0; t < 2; ++t) {
    const KeysView keys = unique_[t];
    const uint32_t dim = model_.tables[t].dim;
    for (size_t i = 0; i < keys.size(); ++i)
      for (uint32_t c = 0; c < dim; ++c)
        EXPECT_EQ(work_.rows.bets[t].span()[i * dim + c], value(static_cast<TableId>(t), keys, i, c));
  }
  for (size_t i = 0; i < keys_.dense.size(); ++i)
    EXPECT_EQ(work_.rows.dense.span()[i * kDenseChunk + 5], value(2, keys_.dense, i, 5));
}

TEST_F(Plan, EveryGradientGoesOnceToTheOwnerOfItsKey) {
  std::vector<FloatBuffer> gradients;
  for (size_t t = 0; t < 2; ++t) {
    const Keys& keys = unique_[t];
    const uint32_t dim = model_.tables[t].dim;
    FloatBuffer values(keys.size() * dim);
    for (size_t i = 0; i < values.size(); ++i)
      values.span()[i] = value(static_cast<TableId>(t), keys, i / dim, static_cast<uint32_t>(i % dim));
    gradients.push_back(std::move(values));
    work_.gradients.push_back({static_cast<TableId>(t), keys, gradients.back().span()});
  }
  const std::vector<float> dense(3 * kDenseChunk, 2.0f);
  work_.dense = dense;
  const auto requests = push_requests(work_, owners_, model_, keys_);
  ASSERT_EQ(requests.size(), 3);
  std::set<std::pair<TableId, std::string>> seen;
  for (size_t owner = 0; owner < 3; ++owner) {
    EXPECT_EQ(read(requests[owner].get().getOrigin()).version, work_.versions[owner])
        << "async: what this owner had";
    for (const TableSlices& t : read_slices(requests[owner].get().getTables(), model_.tables.size()))
      for (size_t i = 0; i < t.keys.size(); ++i) {
        EXPECT_EQ(owner_of(owners_.map, hash_key(t.keys, i)), owner);
        EXPECT_TRUE(seen.insert({t.table, to_string(t.keys, i)}).second);
        EXPECT_EQ(t.values[i * t.width], t.table == 2 ? 2.0f : value(t.table, t.keys, i, 0));
      }
  }
  EXPECT_EQ(seen.size(), 50 + 20 + 3);
}

TEST_F(Plan, AnOwnerWithoutGradientsGetsAnEmptyPushOfTheVersionPulled) {
  work_.exact = true;
  const auto requests = push_requests(work_, owners_, model_, keys_);
  ASSERT_EQ(requests.size(), 3);
  for (const auto& request : requests) {
    EXPECT_EQ(request.get().getTables().size(), 0);
    EXPECT_EQ(read(request.get().getOrigin()).version, 9);
  }
}

}  // namespace
}  // namespace embers
