#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers::testing_support {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// "--set a=b" for each.
inline Words set(const Words& values) {
  Words words;
  for (const std::string& v : values) words = words + Words{"--set", v};
  return words;
}

// Where UCI's adult.data and adult.test are: $EMBERS_CENSUS_DIR, or else the folder that the build was given.
inline std::string census_dir() {
  const char* const given = std::getenv("EMBERS_CENSUS_DIR");
  return given != nullptr && *given != '\0' ? given : path_of(EMBERS_CENSUS_DIR);
}

// For tests that need these files.
#define SKIP_WITHOUT_CENSUS()                                      \
  if (!std::filesystem::exists(census_dir() + "/adult.data"))      \
  GTEST_SKIP() << "UCI's census files are not in " << census_dir() \
               << " (set the environment variable EMBERS_CENSUS_DIR to their folder)"

// A folder with data and a job file, and the processes of one job over them.
class JobFolder {
 public:
  static constexpr int kRecords = 1000, kTestRecords = 200;

  JobFolder() {
    write("train.csv", rows(kRecords, 1));
    write("test.csv", rows(kTestRecords, 2));
    write("job.toml", job_text());
  }

  std::string path(const std::string& name) const { return dir_ / name; }
  std::string job() const { return path("job.toml"); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  std::string read(const std::string& name) const { return read_file(path(name)); }
  nlohmann::json report(const std::string& name = "out.json") const {
    return nlohmann::json::parse(read(name));
  }

  std::unique_ptr<Process> start(const Words& words) {
    return std::make_unique<Process>(Words{path_of(EMBERS_COMMAND)} + words,
                                     path("log." + std::to_string(++processes_)));
  }

  // Runs one command to its end; returns its status and keeps its output.
  int run(const Words& words) {
    const auto process = start(words);
    const int status = process->wait();
    output_ = process->output();
    return status;
  }
  const std::string& output() const { return output_; }

  // Trains in one process; returns the dump of all rows.
  std::string train(const Words& words) {
    EXPECT_EQ(run(Words{"train", job(), "--dump-rows", path("rows"), "--report", path("out.json")} + words),
              0)
        << output();
    return read("rows");
  }

  // The probe models. Forwards of "count" and "slow" can be held.
  Words probe(const std::string& name) const {
    const Words words = set({"model.library=" + path_of(EMBERS_PROBE_MODEL), "model.name=" + name});
    return name == "count" || name == "slow" ? words + set({"model.hang_file=" + path("hang")}) : words;
  }
  // From now on no forward of this process returns before release(). True once one is under way: what comes
  // next comes while the job, with all its members, is at work, however slow or fast this machine is.
  bool hold(const Process& process) const {
    std::filesystem::remove(path("hang.held"));
    write("hang", std::to_string(process.pid()) + "\n");
    return wait_until([&] { return std::filesystem::exists(path("hang.held")); });
  }
  void release() const { write("hang", ""); }

 private:
  static std::string rows(int count, unsigned seed) {
    std::string text;
    uint64_t x = seed;
    const auto next = [&](unsigned n) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      return static_cast<unsigned>(x >> 33) % n;
    };
    for (int i = 0; i < count; ++i) {
      const unsigned color = next(7), size = next(40), tag = next(5);
      const bool label = (color + size + next(20)) % 47 > 23;
      text += "color" + std::to_string(color) + "," + std::to_string(size) + ",t" + std::to_string(tag) +
              (tag > 2 ? ";t9" : "") + "," + std::to_string(next(100)) + ".5," + (label ? "yes" : "no") +
              "\n";
    }
    return text;
  }

  std::string job_text() const {
    return "[job]\nname = \"small\"\nseed = 5\n"
           "[model]\nname = \"wide_deep\"\n"
           "[data]\ndir = \"" +
           dir_.path().string() +
           "\"\ntrain = \"train.csv\"\ntest = \"test.csv\"\n"
           "columns = [ {name=\"color\", type=\"string\"}, {name=\"size\", type=\"int\"},"
           " {name=\"tags\", type=\"string\", separator=\";\"}, {name=\"price\", type=\"float\"},"
           " {name=\"label\", type=\"label\", positive=\"yes\", negative=\"no\"} ]\n"
           "block_records = 256\n"
           "[optimizer]\nname = \"adam\"\nlearning_rate = 0.01\n"
           "[training]\nbatch_size = 16\nepochs = 2\n";
  }

  TempDir dir_;
  int processes_ = 0;
  std::string output_;
};

// A job in several processes.
class Cluster {
 public:
  // Starts a master at a free address (a Unix socket of the folder, or TCP on a port that it chooses), owners
  // and workers. With `one_process`, a single process with these options has all owners.
  Cluster(JobFolder& folder, int shards, int workers, const Words& words = {}, bool unix_socket = false,
          const Words& one_process = {})
      : Cluster(MasterAlone(), folder, shards, workers, words, unix_socket) {
    const Words listen = unix_socket ? Words{} : Words{"--listen", "127.0.0.1:0"};
    for (int i = 0; i < (one_process.empty() ? shards : 1); ++i) add_shard(listen + one_process);
    for (int i = 0; i < workers; ++i) add_worker();
  }

  // Starts a master that waits for so many, and nobody else.
  struct MasterAlone {};
  Cluster(MasterAlone, JobFolder& folder, int shards, int workers, const Words& words = {},
          bool unix_socket = false)
      : folder_(folder) {
    const std::string socket = "unix:" + folder.path("master.sock");
    const bool trains = std::find(words.begin(), words.end(), "--task") == words.end();
    master = folder.start(Words{"master", folder.job(), "--listen", unix_socket ? socket : "127.0.0.1:0",
                                "--shards", std::to_string(shards), "--workers", std::to_string(workers),
                                "--report", folder.path("out.json")} +
                          (trains ? Words{"--dump-rows", folder.path("rows")} : Words{}) + words);
    EXPECT_TRUE(wait_until([&] { return !find_address().empty(); })) << master->output();
    address = find_address();
  }

  Process& add_shard(const Words& words = {}) {
    shards.push_back(folder_.start(Words{"shard", "--master", address} + words));
    return *shards.back();
  }

  Process& add_worker(const Words& words = {}) {
    workers.push_back(folder_.start(Words{"worker", "--master", address} + words));
    return *workers.back();
  }

  // The job has begun and done some work.
  bool is_training() {
    return wait_until([&] { return master->has_printed(" examples  "); });
  }

  void expect_success() {
    EXPECT_EQ(master->wait(), 0) << master->output();
    for (const auto& p : shards) EXPECT_EQ(p->wait(), 0) << p->output();
    for (const auto& p : workers) EXPECT_EQ(p->wait(), 0) << p->output();
  }

  std::unique_ptr<Process> master;
  std::vector<std::unique_ptr<Process>> shards, workers;
  std::string address;

 private:
  std::string find_address() const {
    const std::string out = master->output(), before = "' at ";
    const size_t begin = out.find(before), end = out.find(": waiting");
    if (begin == std::string::npos || end == std::string::npos) return "";
    return out.substr(begin + before.size(), end - begin - before.size());
  }

  JobFolder& folder_;
};

// Rows of a dump: "table<TAB>key" -> values.
inline std::map<std::string, std::vector<double>> parse_dump(const std::string& dump) {
  std::map<std::string, std::vector<double>> rows;
  std::istringstream lines(dump);
  for (std::string line; std::getline(lines, line);) {
    const size_t key = line.find('\t', line.find('\t') + 1);
    std::istringstream values(line.substr(key));
    auto& row = rows[line.substr(0, key)];
    for (double v; values >> v;) row.push_back(v);
  }
  return rows;
}

// By the report and the rows of a job with model "count", whose rows add up how often their keys were seen.
inline void expect_each_record_counted_once(const JobFolder& folder, int epochs) {
  EXPECT_EQ(folder.report()["examples"], epochs * JobFolder::kRecords);
  std::map<std::string, double> sums;
  for (const auto& [key, row] : parse_dump(folder.read("rows")))
    if (key.starts_with("count/")) sums[key.substr(0, key.find('\t'))] += row.at(0);
  EXPECT_EQ(sums.at("count/color"), epochs * JobFolder::kRecords);
  EXPECT_EQ(sums.at("count/size"), epochs * JobFolder::kRecords);
}

}  // namespace embers::testing_support
