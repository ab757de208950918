// Every case of this folder's JSON files, through the code that `embers op` runs.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/wait.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "apps/op/op.h"
#include "tests/support/temp_dir.h"

namespace embers::op {
namespace {

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(CASES))
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
std::pair<int, Json> run_command(const std::string& text) {
  const testing_support::TempDir dir;
  std::ofstream(dir / "case.json") << text;
  const std::string command = fmt::format("{} op < {} > {}", EMBERS, dir / "case.json", dir / "result.json");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read(dir / "result.json")};
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

}  // namespace
}  // namespace embers::op
