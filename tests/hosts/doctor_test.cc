// embers doctor, on one host of a job whose master and one of whose shards are on another.
#include "tests/hosts/two_hosts_job.h"

namespace embers::testing_support {
namespace {

class DoctorOnAnotherHost : public JobOnTwoHosts {
 protected:
  // A job that has begun, and goes on for as long as it is examined.
  void start_job() {
    start("msw|s", folder_.job(),
          folder_.probe("slow") + set({"model.sleep_ms=50", "training.epochs=1000", "training.mode=sync"}));
    ASSERT_TRUE(is_training()) << master_->output();
  }
  int run_doctor(const Words& words) {
    const auto doctor = start_on(1, Words{"doctor", "--json", "--connect-timeout", "3"} + words);
    const int status = doctor->wait();
    output_ = doctor->output();
    const size_t begin = output_.find('{');
    found_ = nlohmann::json::parse(begin == output_.npos ? "" : output_.substr(begin), nullptr, false);
    return status;
  }
  // The checks with this verdict.
  Words with(const std::string& verdict) const {
    Words names;
    for (const auto& check : found_["checks"])
      if (check["verdict"] == verdict) names.push_back(check["check"]);
    return names;
  }
  std::string advice(const std::string& name) const {
    for (const auto& check : found_["checks"])
      if (check["check"] == name) return check["advice"];
    return "there is no check " + name;
  }

  std::string output_;
  nlohmann::json found_;
};

TEST_F(DoctorOnAnotherHost, FindsAHealthyJobHealthy) {
  start_job();
  EXPECT_EQ(run_doctor(job_dir()), 0) << output_;
  EXPECT_EQ(found_["host"], "host-b");
  EXPECT_EQ(with("failed"), Words{}) << output_;
  const Words ok = with("ok");
  for (const char* const check :
       {"secret", "master", "versions", "master: clock", "master: way back", "shard 0", "shard 0: way back",
        "shard 1", "data: files", "data: contents", "numeric settings"})
    EXPECT_NE(std::find(ok.begin(), ok.end(), check), ok.end()) << check << "\n" << output_;
  for (const auto& check : found_["checks"])
    if (check["check"] == "master: round trip") EXPECT_GE(check["seconds"], 0.001);
}

TEST_F(DoctorOnAnotherHost, SaysThatDataAreMissingAndWhatToDo) {
  start_job();
  EXPECT_EQ(run_doctor(job_dir() + set({"data.dir=/nowhere"})), 2) << output_;
  EXPECT_EQ(with("failed"), (Words{"data: files", "data: contents"})) << output_;
  EXPECT_NE(advice("data: files").find("--set data.dir"), std::string::npos) << output_;
}

TEST_F(DoctorOnAnotherHost, SaysThatTheSecretIsWrong) {
  start_job();
  folder_.write("secret", std::string(64, 'x'));
  std::filesystem::permissions(folder_.path("secret"), std::filesystem::perms(0600));
  const std::string address = folder_.read("run/address");
  EXPECT_EQ(run_doctor(
                {"--master", address.substr(0, address.find('\n')), "--secret-file", folder_.path("secret")}),
            2)
      << output_;
  EXPECT_EQ(with("failed"), Words{"secret"}) << output_;
  EXPECT_NE(advice("secret").find("--job-dir"), std::string::npos) << output_;
}

TEST_F(DoctorOnAnotherHost, SaysThatOthersDoNotReachThisHost) {
  start_job();
  EXPECT_EQ(run_doctor(job_dir() + Words{"--skip-data", "--advertise", "10.77.0.99"}), 2) << output_;
  EXPECT_EQ(with("failed"), (Words{"master: way back", "shard 0: way back", "shard 1: way back"})) << output_;
  EXPECT_NE(advice("master: way back").find("--port-range"), std::string::npos) << output_;
}

TEST_F(DoctorOnAnotherHost, SaysThatTheMasterIsOutOfReach) {
  start_job();
  hosts_.cut();
  EXPECT_EQ(run_doctor(job_dir()), 2) << output_;
  EXPECT_EQ(with("failed"), Words{"master"}) << output_;
  EXPECT_NE(output_.find("from host-b"), std::string::npos) << output_;
}

}  // namespace
}  // namespace embers::testing_support
