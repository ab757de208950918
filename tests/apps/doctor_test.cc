// What embers doctor makes of what it measured.
#include <gtest/gtest.h>

#include "apps/doctor/here.h"
#include "apps/doctor/network.h"

namespace embers {
namespace {


TEST(Doctor, WarnsOfSlowNetworks) {
  EXPECT_EQ(judge_round_trip("m", 0.001).verdict, Finding::Verdict::kOk);
  const Finding far = judge_round_trip("m", 0.04);
  EXPECT_EQ(far.verdict, Finding::Verdict::kWarning);
  EXPECT_NE(far.advice.find("training.prefetch"), std::string::npos);
  EXPECT_EQ(judge_bandwidth("m", 1e9, 1e9, false).verdict, Finding::Verdict::kOk);
  EXPECT_EQ(judge_bandwidth("m", 1e9, 1e8, false).verdict, Finding::Verdict::kWarning);
  EXPECT_EQ(judge_bandwidth("m", 1e8, 1e8, true).verdict, Finding::Verdict::kOk) << "this host is busy";
}

TEST(Doctor, WarnsOfClocksThatAreFarApart) {
  EXPECT_NE(judge_clock("m", 0.0004, 0.0005).what.find("agrees"), std::string::npos);
  EXPECT_NE(judge_clock("m", -0.3, 0.0005).what.find("300.0 ms behind"), std::string::npos);
  EXPECT_EQ(judge_clock("m", -0.3, 0.0005).verdict, Finding::Verdict::kOk);
  EXPECT_EQ(judge_clock("m", 90, 0.0005).verdict, Finding::Verdict::kWarning);
}

TEST(Doctor, SaysWhatToDoBelowEachFinding) {
  Findings findings;
  findings.ok("master", "reached");
  EXPECT_FALSE(findings.has_failed());
  findings.failed("shard 1", "no answer", "open a port");
  EXPECT_TRUE(findings.has_failed());
  const std::string text = findings.text();
  EXPECT_LT(text.find("ok       master"), text.find("failed   shard 1  no answer"));
  EXPECT_NE(text.find("-> open a port"), std::string::npos) << text;
  const nlohmann::json json = findings.json();
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["checks"][1]["verdict"], "failed");
  EXPECT_EQ(json["checks"][1]["advice"], "open a port");
}

TEST(Doctor, NamesTheLinesThatDiffer) {
  EXPECT_EQ(missing_in({"a", "b"}, {"a", "c"}), std::vector<std::string>{"c"});
}

}  // namespace
}  // namespace embers
