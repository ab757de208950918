// Texts of others on a terminal.
#include "apps/process/shown_text.h"

#include <gtest/gtest.h>

#include <clocale>

namespace embers {
namespace {

class ShownText : public testing::Test {
 protected:
  ShownText() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
  ~ShownText() override { std::setlocale(LC_CTYPE, "C"); }
};

TEST_F(ShownText, IsCutAndFilledUpByColumns) {
  EXPECT_EQ(cut_to("worker", 4), "work");
  EXPECT_EQ(cut_to("worker", 0), "");
  EXPECT_EQ(pad_to("ab", 4), "ab  ");
  EXPECT_EQ(pad_to("ab", 4, Align::kRight), "  ab");
  EXPECT_EQ(pad_to("abcdef", 4), "abcd");
  EXPECT_EQ(columns_of("worker"), 6);
}

TEST_F(ShownText, CountsColumnsRatherThanBytes) {
  EXPECT_EQ(columns_of("müller"), 6);
  EXPECT_EQ(cut_to("müller", 2), "mü");
  EXPECT_EQ(columns_of("主机"), 4);
  EXPECT_EQ(pad_to("主机", 3), "主 ") << "half a character has no room";
}

TEST_F(ShownText, HasNothingThatSteersATerminal) {
  EXPECT_EQ(cut_to("a\033[2Jb\nc\td\x7f", 100), "a?[2Jb?c?d?");
  EXPECT_EQ(cut_to(std::string_view("a\0b", 3), 100), "a?b");
  EXPECT_EQ(cut_to("\xc2\x9b"
                   "2J",
                   100),
            "?2J")
      << "the same sequence in a byte of its own";
  EXPECT_EQ(cut_to("a\xff\xc3", 100), "a??");
}

TEST_F(ShownText, IsAsciiWhereTheTerminalIs) {
  std::setlocale(LC_CTYPE, "C");
  const std::string shown = cut_to("müller", 100);
  EXPECT_EQ(shown, "m??ller");
}

}  // namespace
}  // namespace embers
