#include "data/scanner.h"

#include <gtest/gtest.h>

#include <random>

namespace embers::data {
namespace {

Dialect dialect(char separator = ',', bool trim = true, std::string comment = "") {
  job::DataSection data;
  data.separator = separator;
  data.trim = trim;
  data.comment = std::move(comment);
  return Dialect(data);
}

using Rows = std::vector<std::vector<std::string>>;

// All rows of a whole text, divided into fields; a bad row gives {"!"}.
Rows rows_of(std::string_view text, const Dialect& dialect, std::vector<uint64_t>* lines = nullptr) {
  RecordScanner scanner(dialect, text, 1, true);
  FieldSplitter splitter(dialect);
  Rows rows;
  Record record;
  while (scanner.next(record) == RecordScanner::Step::kRecord) {
    const bool bad =
        splitter.split(text.substr(record.begin, record.end - record.begin)) != FieldError::kNone;
    rows.push_back(bad ? std::vector<std::string>{"!"}
                       : std::vector<std::string>(splitter.fields().begin(), splitter.fields().end()));
    if (lines != nullptr) lines->push_back(record.line);
  }
  return rows;
}

TEST(Scanner, EndsRecordsAtLineBreaksOfBothKindsAndAtTheEnd) {
  const Rows expected = {{"a", "b"}, {"c", "d"}, {"e", "f"}};
  EXPECT_EQ(rows_of("a,b\nc,d\r\ne,f", dialect()), expected);
  EXPECT_EQ(rows_of("a,b\nc,d\r\ne,f\r\n", dialect()), expected);
}

TEST(Scanner, KeepsEmptyFields) {
  EXPECT_EQ(rows_of(",\na,\n,,b\n", dialect()), (Rows{{"", ""}, {"a", ""}, {"", "", "b"}}));
}

TEST(Scanner, SkipsBlankLinesAndComments) {
  std::vector<uint64_t> lines;
  EXPECT_EQ(rows_of("|1x3 Cross\n\na\n  \t\n\r\n|b\nc|\n\n", dialect(',', true, "|"), &lines),
            (Rows{{"a"}, {"c|"}}));
  EXPECT_EQ(lines, (std::vector<uint64_t>{3, 7}));
}

TEST(Scanner, ALineOfTabsIsARowWhereTabsSeparate) {
  EXPECT_EQ(rows_of("\t\t\n", dialect('\t')), (Rows{{"", "", ""}}));
}

TEST(Scanner, WithoutTrimBlanksCount) {
  EXPECT_EQ(rows_of(" a , b\n \n", dialect(',', false)), (Rows{{" a ", " b"}, {" "}}));
}

TEST(Scanner, TrimsBlanksRoundUnquotedFieldsOnly) {
  EXPECT_EQ(rows_of(" a\t,  b c ,\" d \"\n", dialect()), (Rows{{"a", "b c", " d "}}));
}

TEST(Scanner, QuotesHoldSeparatorsLineBreaksAndDoubledQuotes) {
  std::vector<uint64_t> lines;
  EXPECT_EQ(rows_of("\"a,b\",\"c\nd\",\"e \"\"f\"\"\"\nx,\"\",y\r\n", dialect(), &lines),
            (Rows{{"a,b", "c\nd", "e \"f\""}, {"x", "", "y"}}));
  EXPECT_EQ(lines, (std::vector<uint64_t>{1, 3}));
}

TEST(Scanner, QuotedLineBreaksKeepTheirCarriageReturnAndCountLines) {
  std::vector<uint64_t> lines;
  EXPECT_EQ(rows_of("\"a\r\n\r\nb\"\r\nc\n", dialect(), &lines), (Rows{{"a\r\n\r\nb"}, {"c"}}));
  EXPECT_EQ(lines, (std::vector<uint64_t>{1, 4}));
}

TEST(Scanner, BlanksRoundQuotesAreTrimmed) {
  EXPECT_EQ(rows_of("a,  \"b,c\" ,d\n", dialect()), (Rows{{"a", "b,c", "d"}}));
  EXPECT_EQ(rows_of("a, \"b,c\"\n", dialect(',', false)), (Rows{{"a", " \"b", "c\""}}));
}

TEST(Scanner, AQuoteInsideAnUnquotedFieldIsAnOrdinaryCharacter) {
  EXPECT_EQ(rows_of("5\" pipe,x\ny,z\"\n", dialect()), (Rows{{"5\" pipe", "x"}, {"y", "z\""}}));
}

// Records without quotes are searched for separators many bytes at once.
TEST(Scanner, FieldsOfAnyLengthEndAtTheirSeparators) {
  std::mt19937 random(1);
  for (const bool trim : {false, true})
    for (int i = 0; i < 3000; ++i) {
      std::vector<std::string> wanted(1 + random() % 20);
      std::string record;
      for (std::string& field : wanted) {
        field.assign(random() % 3 == 0 ? random() % 40 : random() % 4, static_cast<char>('a' + random() % 3));
        const std::string blanks(random() % 2, ' ');
        if (!record.empty() || &field != &wanted.front()) record += ';';
        record += blanks + field + blanks;
        if (!trim) field = blanks + field + blanks;
      }
      const Dialect with = dialect(';', trim);
      FieldSplitter splitter(with);
      ASSERT_EQ(splitter.split(record), FieldError::kNone);
      ASSERT_EQ(std::vector<std::string>(splitter.fields().begin(), splitter.fields().end()), wanted)
          << "'" << record << "'";
    }
}

TEST(Scanner, TextAfterAClosingQuoteSpoilsItsRowOnly) {
  EXPECT_EQ(rows_of("\"a\"b,c\n\"d\",e\n", dialect()), (Rows{{"!"}, {"d", "e"}}));
}

TEST(Scanner, ManyDoubledQuotesStayValidTogether) {
  EXPECT_EQ(rows_of("\"\"\"a\"\"\",\"\"\"b\"\"\",\"\"\"\"\n", dialect()), (Rows{{"\"a\"", "\"b\"", "\""}}));
}

TEST(Scanner, TellsAnOpenQuoteWithItsLine) {
  const Dialect d = dialect();
  RecordScanner scanner(d, "a\n\"b\nc\n", 1, true);
  Record record;
  EXPECT_EQ(scanner.next(record), RecordScanner::Step::kRecord);
  EXPECT_EQ(scanner.next(record), RecordScanner::Step::kUnterminated);
  EXPECT_EQ(record.line, 2u);
}

TEST(Scanner, AnyCutOfABufferIsResumedToTheSameRecords) {
  const std::string text = "# c\n\"a\"\"b\",\"c\nd\"\r\n\r\ne,f\n\"g\",\"\"\nh";
  const Dialect d = dialect(',', true, "#");
  const auto scan = [&](size_t begin, size_t end, uint64_t& line, std::vector<Record>& out) {
    RecordScanner scanner(d, std::string_view(text).substr(begin, end - begin), line, end == text.size());
    for (Record r; scanner.next(r) == RecordScanner::Step::kRecord;) {
      out.push_back({begin + r.begin, begin + r.end, r.line});
    }
    line = scanner.line();
    return begin + scanner.resume_at();
  };
  uint64_t line = 1;
  std::vector<Record> whole;
  scan(0, text.size(), line, whole);
  ASSERT_EQ(whole.size(), 4u);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    line = 1;
    std::vector<Record> parts;
    const size_t resume = scan(0, cut, line, parts);
    ASSERT_LE(resume, cut);
    if (cut < text.size()) scan(resume, text.size(), line, parts);
    ASSERT_EQ(parts.size(), whole.size()) << "cut at " << cut;
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(parts[i].begin, whole[i].begin) << "cut at " << cut;
      EXPECT_EQ(parts[i].end, whole[i].end) << "cut at " << cut;
      EXPECT_EQ(parts[i].line, whole[i].line) << "cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace embers::data
