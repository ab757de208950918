// What a minibatch pulls and pushes, against the naive way: key by key.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
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
    const auto request = pull_request(plan, owner, work_.origin, true, true, NumberType::kFloat32,
                                      owner == 1 ? KeysSent::kPacked : KeysSent::kAsTheyAre);
    EXPECT_EQ(request.get().getMode(), wire::ReadMode::EXACT);
    UnpackedKeys unpacked;
    const auto tables = read_slices(request.get().getTables(), model_.tables.size(), false, &unpacked);
    EXPECT_EQ(unpacked.size(), owner == 1 ? 1u : 0u);
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
  owners_.handles[1].keys = KeysSent::kPacked;  // as one beyond a network
  const auto requests = push_requests(work_, owners_, model_, keys_);
  ASSERT_EQ(requests.size(), 3);
  std::set<std::pair<TableId, std::string>> seen;
  for (size_t owner = 0; owner < 3; ++owner) {
    EXPECT_EQ(read(requests[owner].get().getOrigin()).version, work_.versions[owner])
        << "async: what this owner had";
    UnpackedKeys unpacked;
    for (const TableSlices& t :
         read_slices(requests[owner].get().getTables(), model_.tables.size(), false, &unpacked))
      for (size_t i = 0; i < t.keys.size(); ++i) {
        EXPECT_EQ(owner_of(owners_.map, hash_key(t.keys, i)), owner);
        EXPECT_TRUE(seen.insert({t.table, to_string(t.keys, i)}).second);
        EXPECT_EQ(t.values[i * t.width], t.table == 2 ? 2.0f : value(t.table, t.keys, i, 0));
      }
  }
  EXPECT_EQ(seen.size(), 50 + 20 + 3);
}

// The counts of IPU host embeddings: with the token strategy each key goes to one shard, and e numbers of a
// row come back; with the encoding strategy each key goes to all r shards, of which each sends ceil(e / r).
TEST_F(Plan, TrafficOfATableThatIsSplitByColumnsIsOneRangeOfThemPerOwner) {
  const auto traffic = [&](Partition partition) {
    owners_.tables[0].partition = partition;
    Work work;
    work.keys = {{0, unique_[0]}};
    work.versions.resize(3);
    work.pulls_dense = false;
    FloatBuffer gradients(50 * 10);
    std::iota(gradients.data(), gradients.data() + gradients.size(), 0.0f);
    work.gradients = {{0, unique_[0], gradients.span()}};
    PullPlan plan = plan_pull(work, owners_, model_, keys_);
    route_pull(plan, owners_);
    const auto pushes = push_requests(work, owners_, model_, keys_);
    std::vector<std::array<size_t, 4>>
        counts;  // of each owner: keys asked, floats back, keys pushed, floats pushed
    for (size_t owner = 0; owner < 3; ++owner) {
      auto& [asked, back, keys, floats] = counts.emplace_back();
      const auto request = pull_request(plan, owner, work.origin, true, true);
      const auto tables = read_slices(request.get().getTables(), 3);
      const TableSpec part = part_of(owners_.tables[0], static_cast<uint32_t>(owner), 3);
      for (const TableSlices& t : tables) asked += t.keys.size();
      const RowsShape shape{0, part.dim, asked};
      const auto reply = make_pull_reply(9, {&shape, 1}, [&](size_t, std::span<float> rows) {
        back = rows.size();
        for (size_t i = 0; i < rows.size(); ++i)
          rows[i] =
              value(0, tables[0].keys, i / part.dim, part.first_column + static_cast<uint32_t>(i % part.dim));
      });
      take_rows(plan, owner, owners_, reply.get());
      // And so many bytes travel, but for a header of some hundred bytes.
      const auto expect_bytes = [](const auto& message, size_t bytes) {
        EXPECT_GE(message.words().size() * 8, bytes);
        EXPECT_LE(message.words().size() * 8, bytes + 800);
      };
      expect_bytes(request, 8 * asked);
      expect_bytes(reply, 4 * back);
      const auto pushed = read_slices(pushes[owner].get().getTables(), 3);
      expect_bytes(pushes[owner], 8 * pushed[0].keys.size() + 4 * pushed[0].values.size());
      for (const TableSlices& t : pushed) {
        keys += t.keys.size();
        floats += t.values.size();
        for (size_t i = 0; i < t.keys.size(); ++i)
          for (size_t c = 0; c < t.width; ++c) {
            const auto row = static_cast<size_t>((t.keys.ints[i] + 7) / 1000003);
            EXPECT_EQ(t.values[i * t.width + c], static_cast<float>(row * 10 + part.first_column + c));
          }
      }
    }
    for (size_t i = 0; i < 50; ++i)
      for (uint32_t c = 0; c < 10; ++c)
        EXPECT_EQ(work.rows.bets[0].span()[i * 10 + c], value(0, unique_[0], i, c)) << "row " << i;
    return counts;
  };
  model_.tables[0].dim = owners_.tables[0].dim = 10;
  using Counts = std::vector<std::array<size_t, 4>>;
  EXPECT_EQ(traffic(Partition::kEncoding),
            (Counts{{50, 50 * 4, 50, 50 * 4}, {50, 50 * 4, 50, 50 * 4}, {50, 50 * 2, 50, 50 * 2}}));
  size_t all = 0;
  for (const auto& [asked, back, keys, floats] : traffic(Partition::kToken)) {
    EXPECT_EQ(back, asked * 10);
    EXPECT_EQ(keys, asked);
    EXPECT_EQ(floats, asked * 10);
    all += asked;
  }
  EXPECT_EQ(all, 50u);
}

TEST_F(Plan, AnOwnerWithoutColumnsIsAskedNothing) {
  model_.tables[1].dim = owners_.tables[1].dim = 2;
  owners_.tables[1].partition = Partition::kEncoding;
  work_.keys = {{1, unique_[1]}};
  work_.pulls_dense = false;
  PullPlan plan = plan_pull(work_, owners_, model_, keys_);
  route_pull(plan, owners_);
  EXPECT_EQ(plan.routed[0].size(), 1u);
  EXPECT_EQ(plan.routed[1].size(), 1u);
  EXPECT_TRUE(plan.routed[2].empty());
  std::vector<std::vector<uint8_t>> found{std::vector<uint8_t>(20, 1)};
  found[0][3] = 0;
  route_pull(plan, owners_, found);
  EXPECT_EQ(plan.routed[1][0].positions, std::vector<uint32_t>{3});
}

// Every owner sees a bad row, though only one has the bad column.
TEST_F(Plan, ARowThatIsNotFiniteIsBadAtAllOwnersOfItsColumns) {
  owners_.tables[0].partition = Partition::kEncoding;
  for (const NumberType wire : {NumberType::kFloat32, NumberType::kBfloat16}) {
    owners_.wire = wire;
    FloatBuffer gradients(50 * 3);
    std::fill(gradients.span().begin(), gradients.span().end(), 1.0f);
    gradients.data()[7 * 3 + 2] = std::numeric_limits<float>::infinity();
    gradients.data()[9 * 3] = 1e19f;
    work_.gradients = {{0, unique_[0], gradients.span()}};
    const auto requests = push_requests(work_, owners_, model_, keys_);
    for (size_t owner = 0; owner < 3; ++owner)
      for (const TableSlices& t : read_slices(requests[owner].get().getTables(), 3, true)) {
        FloatBuffer room;
        const TableSlices floats = wire == NumberType::kFloat32 ? t : in_floats(t, room);
        ASSERT_EQ(floats.values.size(), 50u);
        for (size_t i = 0; i < 50; ++i) EXPECT_EQ(std::isnan(floats.values[i]), i == 7 || i == 9) << i;
      }
  }
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
