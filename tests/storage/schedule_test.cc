// Values are checked in tests/conformance; here is what is refused.
#include "storage/update_rules/schedule.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;

struct Given {
  std::string name;
  std::map<std::string, double> params = {};
  std::vector<double> boundaries = {}, values = {};
};

void expect_refused(const Given& given, std::initializer_list<std::string> parts) {
  expect_error(ErrorCode::kInvalid, parts, [&] {
    Schedule::make({given.name, given.params, given.boundaries, given.values}, 0.1);
  });
}

TEST(Schedule, UnknownNamesAndParametersSuggestTheNearest) {
  expect_refused({"exponentail", {}}, {"unknown schedule 'exponentail'", "did you mean 'exponential'?"});
  expect_refused({"cosine", {{"decay_step", 5}}}, {"'decay_step'", "did you mean 'decay_steps'?"});
  expect_refused({"piecewise", {{"value", 5}}}, {"'value'", "did you mean 'values'?"});
}

TEST(Schedule, MissingParametersAreNamed) {
  expect_refused({"exponential", {{"decay_steps", 5}}}, {"needs 'decay_rate'"});
  expect_refused({"warmup", {{"warmup_steps", 5}}}, {"needs 'warmup_target'"});
  expect_refused({"cosine", {{"decay_steps", 5}, {"warmup_target", 1}}}, {"needs 'warmup_steps'"});
  expect_error(ErrorCode::kInvalid, {"needs 'initial_learning_rate'"}, [] {
    Schedule::make({"constant", {}, {}, {}}, std::nullopt);
  });
}

TEST(Schedule, ValuesOutOfRangeAreRefused) {
  expect_refused({"cosine", {{"decay_steps", 0}}}, {"decay_steps = 0", "above 0"});
  expect_refused({"cosine", {{"decay_steps", 5}, {"alpha", -1}}}, {"alpha = -1"});
  expect_refused({"polynomial", {{"decay_steps", 5}, {"cycle", 2}}}, {"cycle = 2", "true or false"});
  expect_refused({"cosine_restarts", {{"first_decay_steps", 5}, {"t_mul", 0.5}}}, {"t_mul = 0.5"});
  expect_refused({"constant", {{"initial_learning_rate", -1}}}, {"initial_learning_rate = -1"});
  expect_refused({"piecewise", {}, {1}, {1, -1}}, {"-1", "at least 0"});
  expect_refused({"piecewise", {}, {1, 1}, {1, 2, 3}}, {"ascend"});
  expect_refused({"piecewise", {}, {}, {}}, {"0 values for 0 boundaries"});
  expect_refused({"constant", {}, {1}, {1, 2}}, {"boundaries"});
}

}  // namespace
}  // namespace embers::storage
