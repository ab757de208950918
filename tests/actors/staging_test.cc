// How a push goes through an owner: it is parsed once, whatever is asked of it later.
#include "actors/owner/staging.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/floats/numbers.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();

Message<wire::PushRequest> push(uint64_t minibatch, const std::vector<int64_t>& ints, const Floats& grads,
                                NumberType as = NumberType::kFloat32, uint32_t attempt = 1) {
  const Keys keys(ints);
  const TableSlices slices{0, keys, 2, grads, as};
  return make_push(origin(minibatch, 0, 1, attempt), {&slices, 1});
}

Message<wire::CommitRequest> commit(const std::vector<uint64_t>& minibatches) {
  return make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) {
    b.setVersion(1);
    auto parts = b.initMinibatches(static_cast<unsigned>(minibatches.size()));
    for (unsigned i = 0; i < minibatches.size(); ++i) {
      parts[i].setMinibatch(minibatches[i]);
      parts[i].setWeight(0.5);
    }
  });
}

const std::vector<TableSpec> kTables{table("a", 2)};

TEST(Staging, APushIsReadOnceWhateverIsAddedUpOfIt) {
  PushReader reader(kTables, true);
  Staging staging;
  Floats rounded{0.1f, 0.2f, 1, 1};
  staging.add(reader.read(push(0, {7, 8}, rounded, NumberType::kFloat16)));
  staging.add(reader.read(push(1, {8, 9}, {1, kInf, 3, 4})));
  round_to(NumberType::kFloat16, rounded);
  const auto request = commit({1, 0});
  for (int asked = 0; asked < 3; ++asked) {  // for norms, for the commit, for the commit again
    const VersionSum sum = staging.add_up(request.get(), kTables);
    EXPECT_EQ(sum.left_out, 1u);
    ASSERT_EQ(sum.tables.size(), 1u);
    EXPECT_EQ(sum.tables[0].keys, Keys(std::vector<int64_t>{9, 7, 8}));
    EXPECT_EQ(sum.tables[0].values, (Floats{1.5f, 2, 0.5f * rounded[0], 0.5f * rounded[1], 0.5f, 0.5f}));
  }
  EXPECT_EQ(reader.pushes(), 2u);
}

// What is staged is the very memory that arrived: nothing was copied, so nothing was looked at on the way.
TEST(Staging, FiniteFloatsStayWhereTheyArrived) {
  PushReader reader(kTables, false);
  const auto message = push(0, {7}, {1, 2});
  const PushPtr read = reader.read(message);
  const auto bytes = message.words().bytes();
  const auto* const values = reinterpret_cast<const std::byte*>(read->gradients.tables.at(0).values.data());
  EXPECT_TRUE(values >= bytes.data() && values < bytes.data() + bytes.size());
  EXPECT_TRUE(read->gradients.from_halves.empty());
  EXPECT_TRUE(read->gradients.kept.empty());
}

TEST(Staging, OfSeveralAttemptsTheFirstToComeCounts) {
  PushReader reader(kTables, false);
  for (const bool again : {false, true}) {
    Staging staging;
    const auto add = [&](Floats gradients, uint32_t attempt) {
      const PushPtr read = reader.read(push(0, {7}, gradients, NumberType::kFloat32, attempt));
      return again ? (staging.add_again(read), attempt == 2) : staging.add(read);
    };
    EXPECT_TRUE(add({1, 2}, 2));
    EXPECT_FALSE(add({3, 4}, 3));
    EXPECT_FALSE(add({5, 6}, 1));
    EXPECT_TRUE(add({7, 8}, 2)) << "asked again";
    EXPECT_EQ(staging.add_up(commit({0}).get(), kTables).tables.at(0).values, (Floats{0.5f, 1}));
  }
}

TEST(Staging, ACommitOfWhatIsNotStagedOrComesTwiceIsRefused) {
  PushReader reader(kTables, false);
  Staging staging;
  staging.add(reader.read(push(0, {7}, {1, 2})));
  EXPECT_EQ(staging.examples(0), 10u);
  expect_error(ErrorCode::kInvalid, {"minibatch 0", "twice"}, [&] {
    staging.add_up(commit({0, 0}).get(), kTables);
  });
  staging.drop(0);
  expect_error(ErrorCode::kInternal, {"minibatch 0", "never staged"},
               [&] { staging.add_up(commit({0}).get(), kTables); });
}

TEST(PushReader, RefusesGradientsOfAnotherDimOrKindOfKey) {
  PushReader reader(kTables, false);
  const Keys ints(std::vector<int64_t>{7}), strings(std::vector<std::string>{"x"});
  const Floats grads{1, 2, 3};
  const TableSlices wide{0, ints, 3, grads}, other{0, strings, 2, std::span(grads).first(2)};
  for (const TableSlices& slices : {wide, other})
    expect_error(ErrorCode::kInvalid, {"table 'a' of dim 2 with int64 keys"}, [&] {
      reader.read(make_push(origin(0), {&slices, 1}));
    });
}

}  // namespace
}  // namespace embers
