#include <gtest/gtest.h>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kColumn = "columns = [{ name = \"age\", type = \"int\" }]";

TEST(JobErrors, SyntaxIsPlacedByLineAndColumn) {
  const std::string message = parse_error("[model]\nname = \n");
  EXPECT_EQ(message.rfind("job.toml:2:", 0), 0u) << message;
  EXPECT_MENTIONS(parse_error("[model]\nname = \"a\"\nname = \"b\"\n"), "job.toml:3:");
}

TEST(JobErrors, AnUnknownKeySuggestsTheNearest) {
  EXPECT_EQ(parse_error(job_text(kColumn, "[training]\nepocs = 3")),
            "job.toml:7: unknown key 'epocs' in [training]; did you mean 'epochs'?");
  EXPECT_EQ(parse_error(job_text(kColumn + "\nsepparator = \";\"")),
            "job.toml:6: unknown key 'sepparator' in [data]; did you mean 'separator'?");
  EXPECT_MENTIONS(parse_error(job_text("columns = [{ name = \"a\", tpye = \"int\" }]")),
                  "did you mean 'type'?");
  EXPECT_MENTIONS(parse_error(job_text(kColumn, "[features]\nage = { aas = \"numeric\" }")),
                  "did you mean 'as'?");
  EXPECT_MENTIONS(parse_error(job_text(kColumn, "[storage.tables.\"*\"]\ndims = 3")), "did you mean 'dim'?");
  EXPECT_MENTIONS(parse_error(job_text(kColumn, "[job]\nsed = 3")), "did you mean 'seed'?");
}

TEST(JobErrors, AnUnknownSectionSuggestsTheNearest) {
  EXPECT_EQ(parse_error(job_text(kColumn, "[trainning]\n")),
            "job.toml:6: unknown section 'trainning'; did you mean 'training'?");
}

TEST(JobErrors, AValueInsteadOfASectionIsRefused) {
  EXPECT_EQ(parse_error("training = 3\n" + job_text(kColumn)), "job.toml:1: 'training' must be a section");
  EXPECT_MENTIONS(parse_error(job_text(kColumn, "[features]\nage = 3")),
                  "job.toml:7: [features] 'age' must be");
  EXPECT_MENTIONS(parse_error(job_text(kColumn, "[storage]\ntables = 3")),
                  "job.toml:7: [storage.tables] must be");
}

TEST(JobErrors, WrongTypesAndRangesNameLineSectionAndKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"[training]\nbatch_size = 0", "job.toml:7: [training] 'batch_size' is 0 but must be from 1 to"},
      {"[training]\nbatch_size = -5", "'batch_size' is -5"},
      {"[training]\nbatch_size = 4294967297", "'batch_size' is 4294967297"},
      {"[training]\nbatch_size = 2.5", "'batch_size' must be a whole number"},
      {"[training]\nepochs = 0", "'epochs' is 0"},
      {"[training]\nworkers = 0", "'workers' is 0"},
      {"[training]\ngrads_to_wait = 0", "'grads_to_wait' is 0"},
      {"[training]\nprefetch = -1", "'prefetch' is -1"},
      {"[training]\nthreads = 0", "'threads' is 0"},
      {"[training]\nminibatches_per_lease = 0", "'minibatches_per_lease' is 0"},
      {"[training]\nmode = \"asinc\"", "'mode' cannot be 'asinc'; did you mean 'async'?"},
      {"[training]\nmode = 1", "'mode' must be a string in quotes"},
      {"[training]\nreduction = \"max\"", "'reduction' cannot be 'max'"},
      {"[training]\nstaleness_bound = -1", "'staleness_bound' is -1 but must be from 0 to"},
      {"[training]\nstaleness_modulation = 1", "'staleness_modulation' must be true or false"},
      {"[training]\nget_model_steps = 0", "'get_model_steps' is 0 but must be from 1 to"},
      {"[training]\nmode = \"sync\"\nget_model_steps = 4", "job.toml:8: [training] 'get_model_steps' is 4"},
      {"[training]\ncache_rows = -1", "'cache_rows' is -1 but must be from 0 to"},
      {"[training]\ncache_staleness = -1", "'cache_staleness' is -1 but must be from 0 to"},
      {"[training]\nmode = \"sync\"\ncache_rows = 4",
       "job.toml:8: [training] 'cache_rows' is 4, but in sync mode every row is read at the current version"},
      {"[training]\nmode = \"sync\"\nstaleness_modulation = true", "no meaning in sync mode"},
      {"[job]\nseed = -1", "'seed' is -1"},
      {"[job]\nheartbeat_timeout = 0", "'heartbeat_timeout' must be greater than 0"},
      {"[job]\nheartbeat_timeout = 0.09", "'heartbeat_timeout' must be at least 0.1 s"},
      {"[job]\nheartbeat_timeout = 31536001", "'heartbeat_timeout' must be at most 31536000 s"},
      {"[job]\nworker_timeout = 31536001", "'worker_timeout' must be at most 31536000 s"},
      {"[job]\nlease_timeout = 0.05", "'lease_timeout' must be at least 0.1 s, or 0 for automatic"},
      {"[job]\nlease_timeout = -1", "'lease_timeout' must be at least 0.1 s, or 0 for automatic"},
      {"[job]\nlease_timeout = 31536001", "'lease_timeout' must be at most 31536000 s"},
      {"[job]\nworker_timeout = nan", "'worker_timeout' must be a finite number"},
      {"[optimizer]\nlearning_rate = \"x\"", "'learning_rate' must be a finite number"},
      {"[optimizer]\nlearning_rate = inf", "'learning_rate' must be a finite number"},
      {"[storage]\nbackend = \"memcache\"", "unknown backend 'memcache'; did you mean 'memcached'?"},
      {"[storage]\nservers = 11211", "'servers' must be a string or a list of strings"},
      {"[storage]\nmemory_mb = 1", "'memory_mb' is 1"},
      {"[storage]\nowner_timeout = -1", "'owner_timeout' must be"},
      {"[storage]\nnetwork_gbits = -1", "'network_gbits' must be"},
      {"[storage]\nowner_timeout = nan", "'owner_timeout' must be"},
      {"[storage]\nown_servers = 0", "'own_servers' is 0"},
      {"[storage]\nserver_timeout = 0", "'server_timeout'"},
      {"[storage]\nserver_threads = 0", "'server_threads' is 0"},
      {"[storage]\nshards = 0", "'shards' is 0"},
      {"[storage]\nbuckets = 4\nshards = 5", "more than the 4 buckets"},
      {"[storage.tables.x]\ndim = 0", "job.toml:7: [storage.tables.\"x\"] 'dim' is 0"},
      {"[storage.tables.x]\ninitializer = 3", "'initializer' must be a name, or a table"},
      {"[storage.tables.x]\noptimizer = { learning_rate = 3 }", "'optimizer' must be a name, or a table"},
  };
  for (const auto& [text, part] : cases) EXPECT_MENTIONS(parse_error(job_text(kColumn, text)), part);
}

TEST(JobErrors, TheBoundsThemselvesAreTaken) {
  const Job job = parse_job({"job.toml",
                             job_text(kColumn,
                                      "[job]\nheartbeat_timeout = 0.1\nworker_timeout = 31536000\n"
                                      "[training]\nmode = \"bounded\"\nstaleness_bound = 0\n"
                                      "staleness_modulation = true\nget_model_steps = 4\n"
                                      "cache_rows = 100\ncache_staleness = 0"),
                             {}});
  EXPECT_EQ(job.job.heartbeat_timeout, 0.1);
  EXPECT_EQ(job.job.worker_timeout, 31536000);
  EXPECT_EQ(job.training.mode, Mode::kBounded);
  EXPECT_EQ(job.training.staleness_bound, 0);
  EXPECT_TRUE(job.training.staleness_modulation);
  EXPECT_EQ(job.training.get_model_steps, 4);
  EXPECT_EQ(job.training.cache_rows, 100);
  EXPECT_EQ(job.training.cache_staleness, 0);
}

TEST(JobErrors, DataSectionIsChecked) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "[data] needs 'columns'"},
      {"columns = []", "[data] needs 'columns'"},
      {"columns = 3", "[data] needs 'columns'"},
      {"columns = [3]", "column 1 must be a section"},
      {"format = \"criteo\"\ncolumns = []", "implied by format"},
      {"format = \"cvs\"", "did you mean 'csv'?"},
      {"separator = \"ab\"", "'separator' must be one byte"},
      {"separator = \"\"", "'separator' must be one byte"},
      {"separator = '\"'", "'separator' must be one byte"},
      {"header = 1", "'header' must be true or false"},
      {"missing = [1]", "'missing' must be a list of strings"},
      {"missing = 1", "'missing' must be a string or a list of strings"},
      {"on_bad_row = \"ignore\"", "'on_bad_row' cannot be 'ignore'"},
      {"block_records = 0", "'block_records' is 0"},
      {"columns = [{ type = \"int\" }]", "column 1 needs a 'name'"},
      {"columns = [{ name = \"a\", type = \"itn\" }]", "did you mean 'int'?"},
      {"columns = [{ name = \"a\" },\n{ name = \"a\" }]", "job.toml:6: [data] column 'a' is declared twice"},
      {"columns = [{ name = \"a\", type = \"label\" },\n{ name = \"b\", type = \"label\" }]",
       "job.toml:6: [data] has two labels, 'a' and 'b'"},
      {"columns = [{ name = \"a\", type = \"label\", separator = \";\" }]",
       "only int, string and float columns"},
      {"columns = [{ name = \"a\", separator = \"\" }]", "must not be empty"},
      {"columns = [{ name = \"a\", positive = \"x\" }]", "belong to a column of type label"},
      {"columns = [{ name = \"a\", type = \"label\", negative = \"x\" }]",
       "'negative' also needs 'positive'"},
      {"columns = [{ name = \"a\", type = \"label\", positive = \"x\", negative = \"x\" }]",
       "'x' is both in"},
  };
  for (const auto& [text, part] : cases) EXPECT_MENTIONS(parse_error(job_text(text)), part);
}

TEST(JobErrors, FilesToTrainOnAreNeeded) {
  const std::string rest = "[model]\nname = \"m\"\n[data]\n" + kColumn;
  EXPECT_EQ(parse_error(rest), "job.toml:3: [data] needs 'train', the files to train on");
  EXPECT_MENTIONS(parse_error(rest + "\ntrain = []"), "needs 'train'");
}

TEST(JobErrors, AModelIsNeeded) {
  EXPECT_MENTIONS(parse_error("[data]\ntrain = \"x\"\n" + kColumn), "section [model] is missing");
  EXPECT_MENTIONS(parse_error("[model]\nhidden = 3\n[data]\n"), "job.toml:1: [model] needs a 'name'");
  EXPECT_MENTIONS(parse_error("[model]\nname = \"m\"\nborn = 2020-01-01\n[data]\n"), "job.toml:3: dates");
  EXPECT_MENTIONS(parse_error("[model]\nname = \"m\"\n"), "section [data] is missing");
}

TEST(JobErrors, WhatComesWithTheFirstWorkerIsNotInTheFile) {
  EXPECT_MENTIONS(parse_error("[features]\n"), "job.toml:1: section [features] needs [model] and [data]");
  EXPECT_MENTIONS(parse_error("[columns]\n"), "section [columns] needs");
  EXPECT_MENTIONS(parse_error("[training]\nepochs = 2"),
                  "job.toml:2: [training] 'epochs' comes with the first");
  EXPECT_MENTIONS(parse_error("[training]\nbatch_size = 2"), "'batch_size' comes with the first worker");
}

TEST(JobErrors, FeaturesReferToColumnsThatFit) {
  const std::string columns = R"(columns = [
  { name = "age", type = "int" }, { name = "town" }, { name = "h", type = "float" }, { name = "junk", type = "ignore" },
  { name = "many", type = "int", separator = ";" }, { name = "y", type = "label" }])";
  const std::pair<const char*, const char*> cases[] = {
      {"x = { column = \"agge\" }",
       "job.toml:9: [features] 'x' there is no column 'agge'; did you mean 'age'?"},
      {"twon = {}", "there is no column 'twon'; did you mean 'town'?"},
      {"y = {}", "column 'y' is the label, which cannot be a feature"},
      {"junk = {}", "column 'junk' is ignored, which cannot be a feature"},
      {"age = { as = \"number\" }", "did you mean 'numeric'?"},
      {"town = { as = \"numeric\" }", "a numeric feature needs an int or float column"},
      {"many = { as = \"numeric\" }", "a numeric feature needs an int or float column"},
      {"town = { keys = \"int64\" }", "int64 keys need an int column"},
      {"h = { as = \"categorical\", keys = \"int64\" }", "int64 keys need an int column"},
      {"age = { missing = \"?\" }", "'missing' is '?', which is not an int64 key"},
      {"age = { missing = 2.5 }", "'missing' must be a string or a whole number"},
      {"age = { transform = \"log1p\" }", "unknown key 'transform'"},
      {"h = { keys = \"string\" }", "unknown key 'keys'"},
      {"h = { missing = \"?\" }", "'missing' must be a finite number"},
      {"h = { transform = \"standardise\" }", "did you mean 'standardize'?"},
      {"h = { transform = \"standardize\", mean = 1 }", "this transform needs 'std'"},
      {"h = { transform = \"standardize\", mean = 1, std = 0 }", "'std' must be greater than 0"},
      {"h = { transform = \"minmax\", min = 1, max = 1 }", "'max' must be greater than 'min'"},
      {"h = { transform = \"log1p\", mean = 1 }", "unknown key 'mean'"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_MENTIONS(parse_error(job_text(columns, std::string("[features]\n") + text)), part);
  }
}

}  // namespace
}  // namespace embers::data
