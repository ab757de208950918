// Every case of this folder's JSON files, through the code that `embers op` runs.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "apps/op/op.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers::op {
namespace {

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(testing_support::path_of(CASES)))
    if (entry.path().extension() == ".json") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

Json read(const std::filesystem::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

bool near(const Json& got, const Json& want) {
  const float x = number(got, "got"), y = number(want, "expected");
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y || std::abs(x - y) <= 1e-5 * std::max(1.0f, std::abs(y));
}

// "" when alike, else the first place that differs.
std::string difference(const Json& got, const Json& want, const std::string& place) {
  if (want.is_object() && got.is_object()) {
    for (const auto& [key, value] : want.items())
      if (const std::string d = difference(at(got, key.c_str()), value, place + "." + key); !d.empty())
        return d;
    return got.size() == want.size() ? "" : place + " has other keys";
  }
  if (want.is_array() && got.is_array()) {
    if (got.size() != want.size()) return place + " has another length";
    for (size_t i = 0; i < want.size(); ++i)
      if (const std::string d = difference(got[i], want[i], fmt::format("{}[{}]", place, i)); !d.empty())
        return d;
    return "";
  }
  if (got.type() != want.type() && !(got.is_number() && want.is_number()))
    return place + " is of another type";
  const bool same = want.is_number_integer() && got.is_number_integer() ? got == want : near(got, want);
  return same ? "" : fmt::format("{} is {}, expected {}", place, got.dump(), want.dump());
}

void expect_error(const Answer& answer, const Json& parts) {
  ASSERT_TRUE(answer.failed) << answer.json;
  ASSERT_EQ(answer.json.size(), 1u) << answer.json;
  for (const Json& part : parts)
    EXPECT_NE(answer.json.at("error").get<std::string>().find(part.get<std::string>()), std::string::npos)
        << "no " << part << " in " << answer.json;
}

void check(const Json& entry) {
  const Answer answer = op::answer(entry.at("case").dump());
  const Json& expect = entry.at("expect");
  if (expect.contains("error")) return expect_error(answer, expect.at("error"));
  EXPECT_FALSE(answer.failed) << answer.json;
  EXPECT_EQ(difference(answer.json, expect, "result"), "");
}

TEST(Conformance, EveryCaseGivesWhatItsSourceSays) {
  size_t cases = 0;
  for (const auto& file : files())
    for (const Json& entry : read(file)) {
      SCOPED_TRACE(file.filename().string() + ": " + entry.at("name").get<std::string>() + " (" +
                   entry.at("source").get<std::string>() + ")");
      check(entry);
      ++cases;
    }
  EXPECT_GE(cases, 150u);
}

TEST(Conformance, TheComparisonSeesWhatDiffers) {
  EXPECT_NE(difference(Json::parse("[1, 2]"), Json::parse("[1, 2.001]"), "x"), "");
  EXPECT_NE(difference(Json::parse("[1]"), Json::parse("[1, 2]"), "x"), "");
  EXPECT_NE(difference(Json::parse("[\"nan\"]"), Json::parse("[0]"), "x"), "");
  EXPECT_NE(difference(Json::parse("{\"a\": 1}"), Json::parse("{\"a\": 1, \"b\": []}"), "x"), "");
  EXPECT_EQ(difference(Json::parse("[1.000001, \"-inf\"]"), Json::parse("[1, \"-inf\"]"), "x"), "");
}

// The command itself: standard input, standard output and exit status.
std::pair<int, std::string> run_words(const std::string& words, const std::string& text) {
  const testing_support::TempDir dir;
  std::ofstream(dir / "case.json") << text;
  const std::string command = fmt::format("{} {} < {} > {}", testing_support::path_of(EMBERS), words,
                                          dir / "case.json", dir / "result.json");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), testing_support::read_file(dir / "result.json")};
}

std::pair<int, Json> run_command(const std::string& text) {
  const auto [status, result] = run_words("op", text);
  return {status, Json::parse(result)};
}

// Status and answers of `embers op --lines`.
std::pair<int, std::vector<Json>> run_lines(const std::string& text) {
  const auto [status, result] = run_words("op --lines", text);
  std::vector<Json> answers;
  std::istringstream lines(result);
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  EXPECT_TRUE(result.empty() || result.ends_with('\n'));
  return {status, answers};
}

TEST(OpCommand, AnswersOnStandardOutput) {
  const auto [status, result] = run_command(
      R"({"op": "embedding_lookup", "params": [[["nan", 0.1], ["inf", "-inf"]]], "ids": [1, 0]})");
  EXPECT_EQ(status, 0);
  EXPECT_EQ(result, Json::parse(R"({"output": [["inf", "-inf"], ["nan", 0.1]], "grads": []})"));
}

TEST(OpCommand, ExitsWithStatusOneAfterAnError) {
  for (const char* text :
       {"", "{", "[]", "3", "null", R"({"op": "embedding_lookup", "params": [[[1]]], "ids": [1]})"}) {
    const auto [status, result] = run_command(text);
    EXPECT_EQ(status, 1) << text;
    EXPECT_TRUE(result.contains("error")) << text;
  }
}

TEST(OpCommand, RefusesCasesNestedWithoutEnd) {
  EXPECT_TRUE(op::answer(std::string(1000000, '[')).failed);
  EXPECT_TRUE(op::answer("{\"op\": " + std::string(1000000, '[') + std::string(1000000, ']') + "}").failed);
}

TEST(OpLines, AnswersEachCaseAsItWouldAlone) {
  std::string text;
  std::vector<Json> expected;
  bool failed = false;
  for (const auto& file : files())
    for (const Json& entry : read(file)) {
      const Answer answer = op::answer(entry.at("case").dump());
      failed |= answer.failed;
      expected.push_back(answer.json);
      text += entry.at("case").dump() + '\n';
    }
  const auto [status, answers] = run_lines(text);
  EXPECT_EQ(status, failed ? 1 : 0);
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(answers[i].dump(), expected[i].dump()) << "line " << i + 1;
}

constexpr char kGood[] = R"({"op": "embedding_lookup", "params": [[[1, 2]]], "ids": [0]})";

TEST(OpLines, ABadLineIsAnsweredByItsErrorAndTheOthersGoOn) {
  const auto [status, answers] = run_lines(fmt::format("{0}\n{{\n\n[]\n \r\n{0}\n", kGood));
  EXPECT_EQ(status, 1);
  ASSERT_EQ(answers.size(), 6u);
  for (const size_t bad : {1, 2, 3, 4}) EXPECT_TRUE(answers[bad].contains("error")) << answers[bad];
  EXPECT_EQ(answers[0], Json::parse(R"({"output": [[1, 2]], "grads": []})"));
  EXPECT_EQ(answers[5], answers[0]);
}

TEST(OpLines, TheLastLineNeedsNoEndAndNoneIsNone) {
  EXPECT_EQ(run_lines(std::string(kGood) + "\n" + kGood),
            std::pair(0, std::vector<Json>(2, run_lines(kGood).second.at(0))));
  EXPECT_EQ(run_lines(""), std::pair(0, std::vector<Json>{}));
}

TEST(OpLines, LinesMayBeLong) {
  std::string rows = "[0.5, 1]", ids = "0";
  for (int i = 1; i < 200'000; ++i) {
    rows += ", [0.5, 1]";
    ids += fmt::format(", {}", i);
  }
  const std::string long_case =
      fmt::format(R"({{"op": "embedding_lookup", "params": [[{}]], "ids": [{}]}})", rows, ids);
  const auto [status, answers] = run_lines(long_case + "\n" + kGood + "\n");
  EXPECT_EQ(status, 0);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].at("output").size(), 200'000u);
}

// A program that asks, waits for the answer, and asks again.
TEST(OpLines, EachAnswerComesBeforeTheNextCase) {
  const testing_support::TempDir dir;
  const std::string in = dir / "in", out = dir / "out";
  ASSERT_EQ(::mkfifo(in.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(out.c_str(), 0600), 0);
  auto status = std::async(std::launch::async, [&] {
    return std::system(
        fmt::format("timeout 60 {} op --lines < {} > {}", testing_support::path_of(EMBERS), in, out).c_str());
  });
  std::ofstream asks(in);
  std::ifstream answers(out);
  for (int i = 0; i < 3; ++i) {
    asks << kGood << std::endl;
    std::string line;
    ASSERT_TRUE(std::getline(answers, line));
    EXPECT_TRUE(Json::parse(line).contains("output")) << line;
  }
  asks.close();
  EXPECT_EQ(WEXITSTATUS(status.get()), 0);
}

}  // namespace
}  // namespace embers::op
