#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/jobs.h"
#include "tests/support/hosts.h"

namespace embers::testing_support {

// A job whose processes are on two hosts, and find each other through its directory.
class JobOnTwoHosts : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_HOSTS(hosts_); }

  std::unique_ptr<Process> start_on(int host, const Words& words) {
    const std::string log = "log." + std::to_string(host) + "." + std::to_string(++started_);
    return std::make_unique<Process>(hosts_.on(host, Words{path_of(EMBERS_COMMAND)} + words),
                                     folder_.path(log));
  }

  // Beyond one host a job has a secret.
  Words job_dir() const { return {"--job-dir", folder_.path("run")}; }

  Process& start_master(int host, const std::string& job, int shards, int workers, const Words& words,
                        const std::string& listen = "") {
    const std::string address = listen.empty() ? LocalHosts::ipv4(host) + ":0" : listen;
    master_ =
        start_on(host, Words{"master", job, "--listen", address, "--shards", std::to_string(shards),
                             "--workers", std::to_string(workers), "--report", folder_.path("out.json")} +
                           job_dir() + words);
    return *master_;
  }
  Process& add(int host, const std::string& role, const Words& words = {}) {
    members_.push_back(start_on(host, Words{role} + job_dir() + words));
    return *members_.back();
  }

  // Where each process is: "ms|ww" has the master and a shard on the first host, two workers on the other.
  void start(const std::string& where, const std::string& job, const Words& words) {
    const auto count = [&](char c) { return static_cast<int>(std::count(where.begin(), where.end(), c)); };
    const auto host_of = [&](size_t at) { return at < where.find('|') ? 0 : 1; };
    start_master(host_of(where.find('m')), job, count('s'), count('w'), words);
    for (size_t i = 0; i < where.size(); ++i) {
      if (where[i] == 's') add(host_of(i), "shard");
      if (where[i] == 'w') add(host_of(i), "worker");
    }
  }
  bool is_training() {
    return wait_until([&] { return master_->has_printed(" examples  "); });
  }
  void expect_success() {
    EXPECT_EQ(master_->wait(), 0) << master_->output();
    for (const auto& member : members_) EXPECT_EQ(member->wait(), 0) << member->output();
  }

  JobFolder folder_;
  LocalHosts hosts_;
  std::unique_ptr<Process> master_;
  std::vector<std::unique_ptr<Process>> members_;
  int started_ = 0;
};

}  // namespace embers::testing_support
