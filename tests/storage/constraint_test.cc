// Constraints by Keras' formulas, and where they are applied.
#include "storage/rows/constraint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "storage/apply.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Floats = std::vector<float>;

Floats constrained(const std::string& name, std::map<std::string, double> params, Floats row) {
  Constraint::make({name, std::move(params)})->apply(row);
  return row;
}

void expect_near(const Floats& got, const Floats& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
}

TEST(Constraint, NoneForNoName) { EXPECT_EQ(Constraint::make({}), nullptr); }

TEST(Constraint, NonNegativeKeepsWhatIsNot) {
  EXPECT_EQ(constrained("non_neg", {}, {-1, 0, 2, -0.5f}), (Floats{0, 0, 2, 0}));
}

TEST(Constraint, UnitNormScalesToOne) {
  expect_near(constrained("unit_norm", {}, {3, 4}), {0.6f, 0.8f});
  expect_near(constrained("unit_norm", {}, {0, 0}), {0, 0});
}

TEST(Constraint, MaxNormScalesOnlyLongRows) {
  expect_near(constrained("max_norm", {}, {3, 4}), {1.2f, 1.6f});  // Keras' default is 2
  expect_near(constrained("max_norm", {{"max_value", 10}}, {3, 4}), {3, 4});
  expect_near(constrained("max_norm", {{"max_value", 0}}, {3, 4}), {0, 0});
}

TEST(Constraint, MinMaxNormGoesTheGivenPartOfTheWay) {
  expect_near(constrained("min_max_norm", {}, {3, 4}), {0.6f, 0.8f});
  expect_near(constrained("min_max_norm", {{"min_value", 10}, {"max_value", 20}}, {3, 4}), {6, 8});
  // rate 0.5: halfway from norm 5 to norm 1
  expect_near(constrained("min_max_norm", {{"rate", 0.5}}, {3, 4}), {1.8f, 2.4f});
}

TEST(Constraint, RenormScalesBeforeTheStep) {
  const auto before = [](std::map<std::string, double> params, Floats row) {
    const auto constraint = Constraint::make({"renorm", std::move(params)});
    constraint->before(row);
    return row;
  };
  expect_near(before({}, {3, 4}), {0.6f, 0.8f});
  expect_near(before({{"max_norm", 10}}, {3, 4}), {3, 4});
  expect_near(before({{"max_norm", 3.5}, {"norm_type", 1}}, {3, -4}), {1.5f, -2});
  expect_near(before({{"max_norm", 1}, {"norm_type", 3}}, {3, 0}), {1, 0});
  expect_near(constrained("renorm", {}, {3, 4}), {3, 4});
  expect_error(ErrorCode::kInvalid, {"renorm", "max_norm = 0", "above 0"}, [] {
    Constraint::make({"renorm", {{"max_norm", 0}}});
  });
}

TEST(Constraint, RefusesWhatKerasDoesNotHave) {
  expect_error(ErrorCode::kInvalid, {"'maxnorm'", "did you mean 'max_norm'"}, [] {
    Constraint::make({"maxnorm", {}});
  });
  expect_error(ErrorCode::kInvalid, {"'max_valu'", "did you mean 'max_value'"}, [] {
    Constraint::make({"max_norm", {{"max_valu", 1}}});
  });
  expect_error(ErrorCode::kInvalid, {"min_value", "3", "2"}, [] {
    Constraint::make({"min_max_norm", {{"min_value", 3}, {"max_value", 2}}});
  });
  expect_error(ErrorCode::kInvalid, {"max_value"}, [] {
    Constraint::make({"max_norm", {{"max_value", -1}}});
  });
  expect_error(ErrorCode::kInvalid, {"rate = 1.5"}, [] {
    Constraint::make({"min_max_norm", {{"rate", 1.5}}});
  });
}

TEST(Constraint, HoldsAfterAnApplyForTheRowsThatItTouched) {
  const auto store = make_memory_store();
  const auto sgd = UpdateRule::make({"sgd", {}});
  const auto constraint = Constraint::make({"non_neg", {}});
  store->add_table(spec("t", 2), {});
  store->add_if_absent(0, ints({1, 2}), Floats{1, -1, 1, -1});
  apply(*store, 0, *sgd, {1, 1.0}, ints({2}), Floats{2, -3}, constraint.get());
  Floats rows(4);
  std::vector<uint8_t> found(2);
  store->gather(0, ints({1, 2}), rows, found);
  EXPECT_EQ(rows, (Floats{1, -1, 0, 2}));
}

// The step is fine, but what the constraint makes of it is not: then the row is what it was, slots included.
TEST(Constraint, ThatLeavesNoFiniteRowUndoesTheStep) {
  const auto store = make_memory_store();
  const auto adam = UpdateRule::make({"adam", {}});
  const auto constraint = Constraint::make({"min_max_norm", {{"min_value", 1e38}, {"max_value", 2e38}}});
  store->add_table(spec("t", 2), slot_init(*adam, 2));
  store->add_if_absent(0, ints({1}), Floats{0.1f, 0.1f});
  const LeftOut left_out = apply(*store, 0, *adam, {1, 0.1}, ints({1}), Floats{1, 1}, constraint.get());
  EXPECT_EQ(left_out.rows, 1u);
  store->scan(0, 0, 1, [](KeysView, std::span<const float> values) {
    EXPECT_EQ(Floats(values.begin(), values.end()), (Floats{0.1f, 0.1f, 0, 0, 0, 0}));
  });
}

TEST(Constraint, RenormHoldsBeforeAnApply) {
  const auto store = make_memory_store();
  const auto sgd = UpdateRule::make({"sgd", {}});
  const auto constraint = Constraint::make({"renorm", {}});
  store->add_table(spec("t", 2), {});
  store->add_if_absent(0, ints({1, 2}), Floats{3, 4, 3, 4});
  apply(*store, 0, *sgd, {1, 1.0}, ints({2}), Floats{-1, -2}, constraint.get());
  Floats rows(4);
  std::vector<uint8_t> found(2);
  store->gather(0, ints({1, 2}), rows, found);
  expect_near(rows, {3, 4, 1.6f, 2.8f});
}

}  // namespace
}  // namespace embers::storage
