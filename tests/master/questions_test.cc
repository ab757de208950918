#include "master/state/events/questions.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

TEST(Questions, AreCompleteOnceEveryOwnerHasAnswered) {
  Questions questions;
  const uint64_t id = questions.ask(Question::Fence{7}, {Then::What::kFenced, 7}, {0, 2});
  EXPECT_FALSE(questions.answer(id, 1, {})) << "it was not asked";
  EXPECT_FALSE(questions.answer(id + 1, 0, {})) << "no such question";
  EXPECT_FALSE(questions.answer(id, 0, {}));
  EXPECT_FALSE(questions.answer(id, 0, {})) << "twice";
  EXPECT_TRUE(questions.open_for(0).empty());
  EXPECT_EQ(questions.open_for(2).size(), 1) << "its next process is asked this";
  const auto complete = questions.answer(id, 2, {});
  ASSERT_TRUE(complete);
  EXPECT_EQ(complete->then.value, 7);
  EXPECT_EQ(complete->answers.size(), 2);
  EXPECT_EQ(questions.size(), 0);
}

TEST(Questions, ThatAreWithdrawnAreNoLongerOpen) {
  Questions questions;
  questions.ask(Question::NewMap{2}, {Then::What::kMapKnown, 2}, {0});
  const uint64_t fence = questions.ask(Question::Fence{7}, {Then::What::kFenced, 7}, {0});
  questions.withdraw(Then::What::kMapKnown);
  EXPECT_EQ(questions.size(), 1);
  EXPECT_TRUE(questions.open_for(0).contains(fence));
}
}  // namespace
}  // namespace embers
