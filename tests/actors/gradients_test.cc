// What an owner does with gradients before they change rows: bad ones, clipping, schedules.
#include "actors/owner/gradients.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "actors/owner/norms.h"
#include "actors/routing/route.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/simulation.h"

namespace embers {
namespace {

using namespace testing_support;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// An owner of one table "a" of dim 2, first values 0, sgd with learning rate 1 unless changed.
class Owner : public Simulation {
 public:
  explicit Owner(bool sync, bool skip = false, UpdateRuleSpec optimizer = {"sgd", {{"learning_rate", 1}}}) {
    TableSpec spec = table("a", 2);
    spec.update_rule = std::move(optimizer);
    OwnerConfig config = owner_config(sync, {spec});
    config.skip_bad_gradients = skip;
    handles_ = spawn_owner(*this, config);
  }
  ~Owner() {
    end_owner(handles_);
    settle();
  }

  Floats pull(const std::vector<int64_t>& ints, uint64_t version = 0, NumberType as = NumberType::kFloat32) {
    const Keys keys(ints);
    const TableSlices slices{0, keys, 0, {}};
    const auto reply =
        ask(handles_.shard, make_pull(origin(0, version), wire::ReadMode::LATEST, true, {&slices, 1}, as));
    const SentRows rows = read_sent_rows(reply.get(), 0, {0, 2, ints.size()});
    EXPECT_EQ(rows.number_type, as);
    Floats floats(2 * ints.size());
    std::vector<uint32_t> places(ints.size());
    std::iota(places.begin(), places.end(), 0);
    scatter(rows, 2, places, floats);
    return floats;
  }
  void push(const Origin& from, const std::vector<int64_t>& ints, const Floats& grads,
            NumberType as = NumberType::kFloat32) {
    const Keys keys(ints);
    const TableSlices slices{0, keys, 2, grads, as};
    ask(handles_.optimizer, make_push(from, {&slices, 1}));
  }
  storage::SquareSums norms(uint64_t version, uint64_t minibatch) {
    return read(ask(handles_.optimizer, make_message<wire::NormsRequest>([&](wire::NormsRequest::Builder b) {
                      fill(b.initCommit(), version, minibatch);
                    }))
                    .get());
  }
  void commit(uint64_t version, uint64_t minibatch, const storage::SquaredNorms& norms = {}) {
    ask(handles_.optimizer, make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) {
          fill(b, version, minibatch);
          write_norms(b, norms);
        }));
  }
  uint64_t bad_gradients() {
    return ask(handles_.optimizer, make_message<wire::StatsRequest>()).get().getBadGradients();
  }

 private:
  static void fill(wire::CommitRequest::Builder b, uint64_t version, uint64_t minibatch) {
    b.setVersion(version);
    auto part = b.initMinibatches(1)[0];
    part.setMinibatch(minibatch);
    part.setWeight(1);
  }
  OwnerHandles handles_;
};

TEST(BadGradient, IsAnErrorThatNamesMinibatchTableAndKeyAndChangesNothing) {
  for (const bool sync : {false, true})
    for (const float bad : {kNan, kInf, -kInf, 1e19f}) {
      Owner owner(sync);
      owner.pull({7, 8});
      expect_error(ErrorCode::kInvalid, {"minibatch 3 of epoch 1", "'a'", "'8'", "on_bad_gradient"}, [&] {
        owner.push(origin(3), {7, 8}, {1, 1, 1, bad});
      });
      EXPECT_EQ(owner.pull({7, 8}), (Floats{0, 0, 0, 0}));
    }
}

TEST(SentHalves, AreRowsAndGradientsRoundedOnTheirWay) {
  for (const bool sync : {false, true}) {
    Owner owner(sync);
    owner.pull({7, 8});
    owner.push(origin(0), {7, 8}, {0.1f, 0.2f, -0.3f, 1000.1f}, NumberType::kFloat16);
    if (sync) owner.commit(1, 0);
    Floats expected{-0.1f, -0.2f, 0.3f, -1000.1f};
    round_to(NumberType::kFloat16, expected);
    EXPECT_EQ(owner.pull({7, 8}, sync ? 1 : 0), expected);
    Floats as_bfloat16 = expected;
    round_to(NumberType::kBfloat16, as_bfloat16);
    EXPECT_NE(as_bfloat16, expected);
    EXPECT_EQ(owner.pull({7, 8}, sync ? 1 : 0, NumberType::kBfloat16), as_bfloat16);
  }
}

TEST(SentHalves, ThatAreInfiniteAreBadGradientsToo) {
  Owner owner(false, true);
  owner.pull({7, 8});
  owner.push(origin(0), {7, 8}, {1, 1, kInf, 1}, NumberType::kFloat16);
  EXPECT_EQ(owner.pull({7, 8}), (Floats{-1, -1, 0, 0}));
  EXPECT_EQ(owner.bad_gradients(), 1);
}

TEST(BadGradient, CanBeLeftOutRowByRowAndIsCounted) {
  Owner async(false, true);
  async.pull({7, 8, 9});
  async.push(origin(0), {7, 8, 9}, {1, 1, 1, kNan, kInf, 1});
  EXPECT_EQ(async.pull({7, 8, 9}), (Floats{-1, -1, 0, 0, 0, 0}));
  EXPECT_EQ(async.bad_gradients(), 2);

  Owner sync(true, true);
  sync.pull({7, 8});
  sync.push(origin(0), {7, 8}, {kNan, 1, 2, 2});
  EXPECT_EQ(sync.bad_gradients(), 0) << "counted when the version is made, once";
  sync.commit(1, 0);
  EXPECT_EQ(sync.pull({7, 8}, 1), (Floats{0, 0, -2, -2}));
  EXPECT_EQ(sync.bad_gradients(), 1);
}

TEST(BadGradient, APushOfNothingElseStillCountsItsMinibatch) {
  Owner owner(true, true);
  owner.pull({7});
  owner.push(origin(0), {7}, {kNan, kNan});
  owner.commit(1, 0);
  EXPECT_EQ(owner.pull({7}, 1), (Floats{0, 0}));
}

// Finite gradients whose step overflows the row.
TEST(BadGradient, AStepThatOverflowsARowIsOneToo) {
  const UpdateRuleSpec steep{"sgd", {{"learning_rate", 1e38}}};
  Owner owner(false, false, steep);
  owner.pull({7});
  expect_error(ErrorCode::kInvalid, {"step 1", "'a'", "'7'", "learning rate"}, [&] {
    owner.push(origin(0), {7}, {1e10, 0});
  });
  EXPECT_EQ(owner.pull({7}), (Floats{0, 0}));

  Owner patient(false, true, steep);
  patient.pull({7});
  patient.push(origin(0), {7}, {1e10, 0});
  EXPECT_EQ(patient.pull({7}), (Floats{0, 0}));
  EXPECT_EQ(patient.bad_gradients(), 1);
}

TEST(BadGradient, BuffersHoldValuesAndMayBeInfinite) {
  TableSpec buffers = table(kBufferTable, 1, KeyKind::kBytes);
  buffers.accumulation = Accumulation::kLast;
  const Keys keys(std::vector<std::string>{"mask#0"});
  const Floats values{-kInf};
  const FiniteGradients finite = finite_gradients({{0, keys, 1, values}}, {&buffers, 1}, origin(0), false);
  ASSERT_EQ(finite.tables.size(), 1u);
  EXPECT_EQ(finite.tables[0].values[0], -kInf);
}

TEST(Clipping, AnAsyncPushIsClippedByItsOwnNorm) {
  Owner owner(false, false, {"sgd", {{"learning_rate", 1}, {"global_clipnorm", 2.5}}});
  owner.pull({7, 8});
  owner.push(origin(0), {7, 8}, {3, 0, 0, 4});
  EXPECT_EQ(owner.pull({7, 8}), (Floats{-1.5, 0, 0, -2}));
}

TEST(Clipping, ACommitIsClippedByTheNormOfAllOwners) {
  for (const char* kind : {"clipnorm", "global_clipnorm"}) {
    const UpdateRuleSpec optimizer{"sgd", {{"learning_rate", 1}, {kind, 2.5}}};
    Owner one(true, false, optimizer), other(true, false, optimizer);
    one.pull({7});
    other.pull({8});
    one.push(origin(0), {7}, {3, 0});
    other.push(origin(0), {8}, {0, 4});
    storage::SquareSums sums = one.norms(1, 0);
    add(other.norms(1, 0), sums);
    one.commit(1, 0, values(sums));
    other.commit(1, 0, values(sums));
    EXPECT_EQ(one.pull({7}, 1), (Floats{-1.5, 0}));
    EXPECT_EQ(other.pull({8}, 1), (Floats{0, -2}));
  }
}

TEST(Clipping, ACommitWithoutTheNormsItNeedsIsRefused) {
  Owner owner(true, false, {"sgd", {{"learning_rate", 1}, {"clipnorm", 2.5}}});
  owner.pull({7});
  owner.push(origin(0), {7}, {3, 0});
  expect_error(ErrorCode::kInternal, {"norm", "'a'"}, [&] { owner.commit(1, 0); });
}

TEST(Schedule, TheLearningRateIsAFunctionOfTheModelsStep) {
  UpdateRuleSpec halving{"sgd", {{"learning_rate", 1}}};
  halving.schedule = {"exponential", {{"decay_steps", 1}, {"decay_rate", 0.5}}, {}, {}};
  Owner async(false, false, halving), sync(true, false, halving);
  async.pull({7});
  sync.pull({7});
  for (uint64_t step = 0; step < 3; ++step) {
    async.push(origin(step, step), {7}, {-1, -1});
    sync.push(origin(step, step), {7}, {-1, -1});
    sync.commit(step + 1, step);
  }
  EXPECT_EQ(async.pull({7}), (Floats{1.75, 1.75}));
  EXPECT_EQ(sync.pull({7}, 3), (Floats{1.75, 1.75}));
}

}  // namespace
}  // namespace embers
