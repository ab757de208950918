#include "storage/update_rules/update_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/floats/finite.h"
#include "storage/apply.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Params = std::map<std::string, double>;

std::unique_ptr<const UpdateRule> make(const std::string& name, std::map<std::string, double> params = {}) {
  return UpdateRule::make({name, std::move(params)});
}

// One element of a row by the formulas of torch's documentation, in float64.
struct Exact {
  double w, m = 0, v = 0, sum = 0.1;

  void sgd(double lr, double g) { w -= lr * g; }
  void adagrad(double lr, double g, double eps = 1e-7) {
    sum += g * g;
    w -= lr * g / (std::sqrt(sum) + eps);
  }
  void adam(uint64_t t, double lr, double g, double b1 = 0.9, double b2 = 0.999, double eps = 1e-7) {
    m += (g - m) * (1 - b1);
    v += (g * g - v) * (1 - b2);
    const auto step = static_cast<double>(t);
    w -= lr * std::sqrt(1 - std::pow(b2, step)) / (1 - std::pow(b1, step)) * m / (std::sqrt(v) + eps);
  }
};

Floats random_floats(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Floats values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Runs 200 steps of both and compares the row after each. Every step rounds a few times, at most 2^-24 of the
// weight or the change each.
template <class ExactStep>
void expect_as_exact(const UpdateRule& optimizer, double lr, const ExactStep& exact_step) {
  constexpr size_t kDim = 13;
  Floats row = random_floats(kDim, 1);
  Floats slots = slot_init(optimizer, kDim);
  std::vector<Exact> exact;
  for (const float w : row) exact.push_back({w});
  for (uint64_t t = 1; t <= 200; ++t) {
    const Floats grad = random_floats(kDim, 100 + t);
    optimizer.apply({t, lr}, row, slots, grad);
    for (size_t i = 0; i < kDim; ++i) {
      exact_step(exact[i], t, grad[i]);
      ASSERT_NEAR(row[i], exact[i].w, 2e-6 + 2e-7 * std::sqrt(static_cast<double>(t))) << "step " << t;
    }
  }
}

TEST(UpdateRule, SgdFollowsItsFormula) {
  expect_as_exact(*make("sgd"), 0.01, [](Exact& e, uint64_t, double g) { e.sgd(0.01, g); });
}

TEST(UpdateRule, AdagradFollowsItsFormula) {
  expect_as_exact(*make("adagrad"), 0.05, [](Exact& e, uint64_t, double g) { e.adagrad(0.05, g); });
  expect_as_exact(*make("adagrad", {{"epsilon", 0.5}}), 0.05,
                  [](Exact& e, uint64_t, double g) { e.adagrad(0.05, g, 0.5); });
}

TEST(UpdateRule, AdamFollowsItsFormula) {
  expect_as_exact(*make("adam"), 0.001, [](Exact& e, uint64_t t, double g) { e.adam(t, 0.001, g); });
  expect_as_exact(*make("adam", {{"beta_1", 0.5}, {"beta_2", 0.75}, {"epsilon", 0.01}}), 0.01,
                  [](Exact& e, uint64_t t, double g) { e.adam(t, 0.01, g, 0.5, 0.75, 0.01); });
}

TEST(UpdateRule, AdamUsesTheModelsStepForARowSeenForTheFirstTime) {
  for (const uint64_t t : {1ull, 2ull, 1000ull, 1'000'000ull, 1'000'000'000'000ull}) {
    const auto adam = make("adam");
    Floats row{1}, slots = slot_init(*adam, 1);
    adam->apply({t, 0.001}, row, slots, Floats{0.5});
    Exact exact{1};
    exact.adam(t, 0.001, 0.5);
    EXPECT_NEAR(row[0], exact.w, 1e-7) << t;
  }
}

TEST(UpdateRule, AdamWithoutMemoryDividesByNothingWrong) {
  const auto adam = make("adam", {{"beta_1", 0}, {"beta_2", 0}});
  Floats row{1, 1}, slots = slot_init(*adam, 2);
  adam->apply({1, 0.25}, row, slots, Floats{4, 0});
  EXPECT_FLOAT_EQ(row[0], 0.75f);
  EXPECT_EQ(row[1], 1.0f);
}

TEST(UpdateRule, AZeroGradientNeverMakesANumberThatIsNone) {
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = make(name, name == "adamw" ? Params{{"weight_decay", 0}} : Params{});
    Floats row{1, -2}, slots = slot_init(*optimizer, 2);
    for (uint64_t t = 1; t < 5; ++t) optimizer->apply({t, 0.1}, row, slots, Floats{0, 0});
    // FTRL's row is a function of its sums alone: 0 while they are 0.
    EXPECT_EQ(row, name.ends_with("ftrl") ? (Floats{0, 0}) : (Floats{1, -2})) << name;
  }
}

TEST(UpdateRule, AssignSetsTheRow) {
  Floats row{1, 2};
  make("assign")->apply({9, 0.5}, row, {}, Floats{3, -4});
  EXPECT_EQ(row, (Floats{3, -4}));
}

// Vector code handles most elements and scalar code the rest; both must round alike.
TEST(UpdateRule, AnElementDoesNotDependOnDimOrPlace) {
  constexpr size_t kDim = 67;
  const Floats weights = random_floats(kDim, 1), grads = random_floats(kDim, 2);
  for (const std::string& name : optimizer_names()) {
    if (name == "rowwise_adagrad" || name == "group_ftrl") continue;  // these look at whole rows
    const auto optimizer =
        make(name, name == "sgd" ? Params{{"momentum", 0.5}, {"weight_decay", 0.1}} : Params{});
    Floats row = weights, slots = slot_init(*optimizer, kDim);
    for (uint64_t t = 1; t <= 3; ++t) optimizer->apply({t, 0.01}, row, slots, grads);
    for (size_t i = 0; i < kDim; ++i) {
      Floats one{weights[i]}, one_slots = slot_init(*optimizer, 1);
      for (uint64_t t = 1; t <= 3; ++t) optimizer->apply({t, 0.01}, one, one_slots, Floats{grads[i]});
      ASSERT_EQ(one[0], row[i]) << name << " element " << i;
    }
  }
}

TEST(UpdateRule, TheLearningRateComesWithTheStep) {
  Floats row{1};
  make("sgd", {{"learning_rate", 0.5}})->apply({1, 0.25}, row, {}, Floats{1});
  EXPECT_EQ(row[0], 0.75f);
}

TEST(UpdateRule, DefaultsAreKerass) {
  EXPECT_EQ(make("sgd")->learning_rate(1), 0.01);
  EXPECT_EQ(make("adagrad")->learning_rate(1), 0.01);
  EXPECT_EQ(make("adam")->learning_rate(1), 0.001);
  EXPECT_EQ(make("adam", {{"learning_rate", 0.25}})->learning_rate(1), 0.25);
}

TEST(UpdateRule, SlotsHaveNamesAndFirstValues) {
  EXPECT_EQ(slot_init(*make("sgd"), 3), Floats());
  EXPECT_EQ(slot_init(*make("assign"), 3), Floats());
  EXPECT_EQ(slot_init(*make("adagrad"), 3), Floats(3, 0.1f));
  EXPECT_EQ(slot_init(*make("adagrad", {{"initial_accumulator_value", 0}}), 1), Floats(1, 0.0f));
  EXPECT_EQ(slot_init(*make("adam"), 3), Floats(6, 0.0f));
  EXPECT_EQ(make("adagrad")->slots()[0].name, "accumulator");
  EXPECT_EQ(make("adam")->slots()[0].name, "m");
  EXPECT_EQ(make("adam")->slots()[1].name, "v");
}

TEST(UpdateRule, UsersAreOfferedAllButAssign) {
  EXPECT_EQ(optimizer_names(),
            (std::vector<std::string>{"sgd", "adagrad", "rmsprop", "adadelta", "adam", "adamw", "adamax",
                                      "nadam", "ftrl", "lion", "rowwise_adagrad", "group_ftrl"}));
}

void expect_refused(const std::string& name, std::map<std::string, double> params,
                    std::initializer_list<std::string> parts) {
  expect_error(ErrorCode::kInvalid, parts, [&] { make(name, params); });
}

TEST(UpdateRule, AnUnknownNameSuggestsTheNearest) {
  expect_refused("adagard", {}, {"'adagard'", "did you mean 'adagrad'?"});
  expect_refused("", {}, {"known: sgd, adagrad, rmsprop"});
  expect_refused("assing", {}, {"unknown optimizer 'assing'"});
}

TEST(UpdateRule, AnUnknownParameterSuggestsTheNearest) {
  expect_refused("adam", {{"beta1", 0.5}}, {"'adam'", "'beta1'", "did you mean 'beta_1'?"});
  expect_refused("sgd", {{"momentun", 0.5}}, {"'sgd'", "'momentun'", "did you mean 'momentum'?"});
  expect_refused("ftrl", {{"weight_decay", 0.5}}, {"'ftrl'", "'weight_decay'"});
  expect_refused("adam", {{"globalclipnorm", 0.5}}, {"did you mean 'global_clipnorm'?"});
  expect_refused("assign", {{"learning_rate", 1}}, {"'assign'", "takes no parameters"});
}

TEST(UpdateRule, ValuesOutOfRangeAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  for (const std::string& name : optimizer_names())
    for (const double rate : {0.0, -0.1, kNan, kInf, -kInf, 1e-60, 1e60})
      expect_refused(name, {{"learning_rate", rate}}, {"'" + name + "'", "learning_rate"});
  for (const char* beta : {"beta_1", "beta_2"})
    for (const double value : {-0.1, 1.0, 1.5, kNan})
      expect_refused("adam", {{beta, value}}, {"'adam'", beta});
  for (const char* name : {"adagrad", "adam"})
    for (const double value : {0.0, -1e-7, 1e-60, kNan})
      expect_refused(name, {{"epsilon", value}}, {name, "epsilon"});
  for (const double value : {-0.1, kNan, 1e60})
    expect_refused("adagrad", {{"initial_accumulator_value", value}},
                   {"'adagrad'", "initial_accumulator_value"});
  expect_refused("sgd", {{"nesterov", 0.5}}, {"nesterov", "true or false"});
  expect_refused("sgd", {{"momentum", 1.5}}, {"momentum", "from 0 to 1"});
  expect_refused("rmsprop", {{"rho", 1}}, {"rho", "below 1"});
  expect_refused("ftrl", {{"learning_rate_power", 0.5}}, {"learning_rate_power", "at most 0"});
  expect_refused("ftrl", {{"l1_regularization_strength", -1}}, {"l1_regularization_strength"});
  expect_refused("adamw", {{"weight_decay", -1}}, {"weight_decay"});
  for (const char* name : {"clipvalue", "clipnorm", "global_clipnorm"})
    expect_refused("adam", {{name, -1}}, {name, "at least 0"});
}

TEST(UpdateRule, OnlyOneKindOfClippingCanBeSet) {
  expect_refused("adam", {{"clipvalue", 1}, {"clipnorm", 1}},
                 {"only one of clipvalue, clipnorm and global_clipnorm"});
  EXPECT_EQ(make("adam", {{"clipvalue", 0}, {"clipnorm", 2}})->clipping().norm, 2);
}

TEST(UpdateRule, AScheduleStartsWithTheFirstStepAtTheOptimizersLearningRate) {
  UpdateRuleSpec spec{"adam", {{"learning_rate", 0.5}}};
  spec.schedule = {"exponential", {{"decay_steps", 1}, {"decay_rate", 0.5}}, {}, {}};
  EXPECT_EQ(UpdateRule::make(spec)->learning_rate(1), 0.5);
  EXPECT_EQ(UpdateRule::make(spec)->learning_rate(3), 0.125);
  spec.schedule.params["initial_learning_rate"] = 1;
  expect_error(ErrorCode::kInvalid, {"learning_rate", "not both"}, [&] { UpdateRule::make(spec); });
  spec.params.clear();
  EXPECT_EQ(UpdateRule::make(spec)->learning_rate(2), 0.5);
  spec = {"adam", {{"learning_rate", 0.5}}, {"piecewise", {}, {5}, {0.25, 0.125}}};
  expect_error(ErrorCode::kInvalid, {"values", "not both"}, [&] { UpdateRule::make(spec); });
}

TEST(UpdateRule, SlotsComeAndGoWithHyperParameters) {
  const auto names = [](const std::string& name, Params params) {
    std::vector<std::string> names;
    const auto optimizer = make(name, std::move(params));
    for (const UpdateRule::Slot& slot : optimizer->slots()) names.push_back(slot.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("sgd", {}), Names());
  EXPECT_EQ(names("sgd", {{"momentum", 0.5}}), Names{"momentum"});
  EXPECT_EQ(names("rmsprop", {}), Names{"velocity"});
  EXPECT_EQ(names("rmsprop", {{"centered", 1}, {"momentum", 0.1}}),
            (Names{"velocity", "average_gradient", "momentum"}));
  EXPECT_EQ(names("adam", {{"amsgrad", 1}}), (Names{"m", "v", "v_hat"}));
}

TEST(UpdateRule, ASlotOfTheWholeRowIsOneFloat) {
  EXPECT_EQ(slot_init(*make("rowwise_adagrad", {{"initial_accumulator_value", 0.5}}), 7), Floats{0.5f});
  EXPECT_EQ(slot_floats(*make("rowwise_adagrad"), 7), 1u);
  EXPECT_EQ(slot_floats(*make("ftrl"), 7), 14u);
}

TEST(UpdateRule, ALearningRateOfZeroMovesNothing) {
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = make(name);
    Floats row{1, -2}, slots = slot_init(*optimizer, 2);
    optimizer->apply({1, 0}, row, slots, Floats{3, -4});
    EXPECT_EQ(row, (Floats{1, -2})) << name;
  }
}

TEST(UpdateRule, RowsOfAnotherOptimizersTableAreRefused) {
  Floats row(2), grad(2), slots(3);
  for (const char* name : {"sgd", "adagrad", "adam", "assign"})
    expect_error(ErrorCode::kInternal, {"slots"}, [&] { make(name)->apply({}, row, slots, grad); });
  expect_error(ErrorCode::kInternal, {"gradient"}, [&] { make("sgd")->apply({}, row, {}, Floats(3)); });
}

TEST(Apply, ChangesTheRowsOfTheKeysAndNoOthers) {
  const auto store = make_memory_store();
  const auto adagrad = make("adagrad");
  store->add_table(spec("t", 2), slot_init(*adagrad, 2));
  store->add_if_absent(0, ints({1, 2, 3}), Floats{1, 1, 2, 2, 3, 3});
  apply(*store, 0, *adagrad, {1, 0.5}, ints({3, 1}), Floats{1, 2, 3, 4});
  Floats rows(6), one{3, 3}, other{1, 1}, slots = slot_init(*adagrad, 2), other_slots = slots;
  std::vector<uint8_t> found(3);
  store->gather(0, ints({1, 2, 3}), rows, found);
  adagrad->apply({1, 0.5}, one, slots, Floats{1, 2});
  adagrad->apply({1, 0.5}, other, other_slots, Floats{3, 4});
  EXPECT_EQ(rows, (Floats{other[0], other[1], 2, 2, one[0], one[1]}));
}

// An average that decays would otherwise stay at some 5e-45 for ever.
TEST(Apply, LeavesNoDenormals) {
  const auto store = make_memory_store();
  const auto adam = make("adam");
  store->add_table(spec("t", 2), slot_init(*adam, 2));
  store->add_if_absent(0, ints({1}), Floats{1, 1});
  for (uint64_t step = 1; step < 400; ++step)
    apply(*store, 0, *adam, {step, 0.1}, ints({1}), Floats{step == 1 ? 1e-30f : 0, 1});
  store->scan(0, 0, 1, [](KeysView, std::span<const float> values) {
    EXPECT_NE(std::fpclassify(values[2]), FP_SUBNORMAL)
        << "m of what has had no gradient for long: " << values[2];
    EXPECT_GT(values[3], 0.9) << "m of what has one";
  });
  volatile float denormal = 1e-40f;
  EXPECT_NE(denormal * 2, 0) << "others' arithmetic has them";
}

TEST(Apply, ARowThatWouldNotBeFiniteIsLeftAsItWasSlotsIncluded) {
  const auto store = make_memory_store();
  const auto momentum = make("sgd", {{"momentum", 0.5}});
  store->add_table(spec("t", 2), slot_init(*momentum, 2));
  store->add_if_absent(0, ints({1, 2, 3}), Floats{1, 1, 2, 2, 3, 3});
  const float huge = 3e38f, nan = std::numeric_limits<float>::quiet_NaN();
  const LeftOut left_out =
      apply(*store, 0, *momentum, {1, 4}, ints({1, 2, 3}), Floats{1, 1, huge, 1, nan, 1});
  EXPECT_EQ(left_out.rows, 2u);
  EXPECT_EQ(left_out.first, 1u);
  Floats all;
  store->scan(0, 0, 10,
              [&](KeysView, std::span<const float> values) { all.assign(values.begin(), values.end()); });
  EXPECT_EQ(all, (Floats{-3, -3, 1, 1, 2, 2, 0, 0, 3, 3, 0, 0}));
}

// For optimizers with a loop of their own (adam) and those without, with dims around a cache line; every
// fifth row overflows.
TEST(Apply, ABatchIsItsRowsOneAfterAnotherWithoutThoseThatWouldNotBeFinite) {
  constexpr size_t kRows = 40;
  for (const std::string name : {"adam", "adamw", "sgd", "ftrl"})
    for (const uint32_t dim : {1, 3, 15, 16, 17, 32, 50, 64, 100, 128, 129, 150}) {
      const auto optimizer = make(name, {{"learning_rate", 0.1}});
      const Floats first = random_floats(kRows * dim, 1);
      Floats grads = random_floats(kRows * dim, 2);
      for (size_t i = 0; i < kRows; i += 5) grads[i * dim + i % dim] = 3e38f;
      const auto store = make_memory_store();
      store->add_table(spec("t", dim), slot_init(*optimizer, dim));
      std::vector<int64_t> numbers(kRows);
      std::iota(numbers.begin(), numbers.end(), 0);
      store->add_if_absent(0, ints(numbers), first);
      size_t left_out = 0;
      for (const bool again : {false, true}) {
        const UpdateRule::Step step{again ? 2u : 1u, name == "sgd" ? 1e10 : 0.1};
        left_out = apply(*store, 0, *optimizer, step, ints(numbers), grads).rows;
      }
      size_t expected_left_out = 0;
      for (size_t i = 0; i < kRows; ++i) {
        Floats row(first.begin() + i * dim, first.begin() + (i + 1) * dim);
        Floats slots = slot_init(*optimizer, dim);
        for (const bool again : {false, true}) {
          Floats new_row = row, new_slots = slots;
          optimizer->apply({again ? 2u : 1u, name == "sgd" ? 1e10 : 0.1}, new_row, new_slots,
                           std::span<const float>(grads).subspan(i * dim, dim));
          const bool finite = all_finite(new_row) && all_finite(new_slots);
          expected_left_out += again && !finite;
          if (!finite) continue;
          row = new_row;
          slots = new_slots;
        }
        store->scan(0, i, 1, [&](KeysView, std::span<const float> values) {
          row.insert(row.end(), slots.begin(), slots.end());
          EXPECT_TRUE(std::equal(values.begin(), values.end(), row.begin(), row.end()))
              << name << ", dim " << dim << ", row " << i;
        });
      }
      EXPECT_EQ(left_out, expected_left_out) << name << ", dim " << dim;
      if (name != "ftrl") {
        EXPECT_GE(left_out, kRows / 5);
      }
    }
}

// A square that overflows would end up in a slot, although the row itself would not change.
TEST(Apply, ARowWhoseSlotsWouldNotBeFiniteIsLeftOutToo) {
  const auto store = make_memory_store();
  const auto adagrad = make("adagrad", {{"initial_accumulator_value", 0.5}});
  store->add_table(spec("t", 1), slot_init(*adagrad, 1));
  store->add_if_absent(0, ints({1, 2}), Floats{1, 2});
  const LeftOut left_out = apply(*store, 0, *adagrad, {1, 1}, ints({1, 2}), Floats{1e25f, 0});
  EXPECT_EQ(left_out.rows, 1u);
  EXPECT_EQ(left_out.first, 0u);
  Floats all;
  store->scan(0, 0, 10,
              [&](KeysView, std::span<const float> values) { all.assign(values.begin(), values.end()); });
  EXPECT_EQ(all, (Floats{1, 0.5, 2, 0.5}));
}

TEST(Apply, AMissingKeyChangesNothing) {
  const auto store = make_memory_store();
  store->add_table(spec("t", 1), {});
  store->add_if_absent(0, ints({1}), Floats{5});
  expect_error(ErrorCode::kMissingKey, {"'t'", "77"}, [&] {
    apply(*store, 0, *make("sgd"), {}, ints({1, 77}), Floats{1, 1});
  });
  Floats row(1);
  std::vector<uint8_t> found(1);
  store->gather(0, ints({1}), row, found);
  EXPECT_EQ(row[0], 5);
}

}  // namespace
}  // namespace embers::storage
