// embers plan: the tables of a job, and what is wrong with what it is given. Nothing is asserted of times.
#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

const Words kShort{"--seconds", "0.1"};

constexpr char kKeys[] = R"({
  "tables": [{"name": "actions", "dim": 64, "rows": 512}, {"name": "word", "dim": 4, "keys": "bytes"},
             {"name": "grouped", "dim": 4, "optimizer": "group_ftrl"}, {"name": "unused", "dim": 4}],
  "batches": [{"actions": [1, 2, 2, -7], "word": ["a", "b"], "grouped": [5]}, {"actions": [3], "word": ["a"]}]})";

TEST(Plan, MeasuresTheTablesOfAJobOnItsFirstMinibatches) {
  JobFolder folder;
  ASSERT_EQ(
      folder.run(Words{"plan", folder.job(), "--json", "--shards", "1,2", "--report", folder.path("p")} +
                 kShort),
      0)
      << folder.output();
  const nlohmann::json plan = folder.report("p");
  EXPECT_EQ(plan["minibatches"], 8);
  ASSERT_EQ(plan["shards"].size(), 2u);
  for (const nlohmann::json& of : plan["shards"]) {
    const bool one = of["shards"] == 1;
    EXPECT_GT(of["token"]["seconds"], 0);
    EXPECT_EQ(of["encoding"].is_null(), one);
    EXPECT_GT(of["recommended"]["seconds"], 0);
    ASSERT_FALSE(of["tables"].empty());
    for (const nlohmann::json& table : of["tables"]) {
      EXPECT_GT(table["keys"], 0) << table;
      EXPECT_GT(table["token"]["seconds"], 0) << table;
      EXPECT_LE(table["token"]["seconds_least"], table["token"]["seconds_most"]) << table;
      // Rows come, gradients go.
      const double rows = table["keys"].get<double>() * table["dim"].get<double>() * sizeof(float);
      EXPECT_GE(table["token"]["bytes"], 2 * rows) << table;
      EXPECT_EQ(table["encoding"].is_null(), one) << table;
      if (!one && table["dim"] > 1) {
        EXPECT_GT(table["encoding"]["bytes"], table["token"]["bytes"]) << "keys go to both shards" << table;
      }
      EXPECT_EQ(table["token_only"].get<std::string>().empty(), !one) << table;
      EXPECT_TRUE(table["auto"] == "token" || table["auto"] == "encoding") << table;
      EXPECT_FALSE(table["auto_because"].get<std::string>().empty()) << table;
    }
  }
  const auto shards = plan["recommended"]["shards"].get<int>();
  EXPECT_TRUE(shards == 1 || shards == 2);
  EXPECT_EQ(plan["recommended"]["partitions"].size(), plan["shards"][0]["tables"].size());
}

TEST(Plan, TakesTablesAndKeysOfAJobWhoseModelComesWithItsFirstWorker) {
  JobFolder folder;
  folder.write("first.toml", "[training]\nmode = \"sync\"\n[optimizer]\nname = \"adam\"\n");
  folder.write("keys.json", kKeys);
  ASSERT_EQ(folder.run(Words{"plan", folder.path("first.toml"), "--keys", folder.path("keys.json"), "--json",
                             "--report", folder.path("p"), "--shards", "2"} +
                       kShort),
            0)
      << folder.output();
  const nlohmann::json plan = folder.report("p"), tables = plan["shards"][0]["tables"];
  ASSERT_EQ(tables.size(), 4u);
  EXPECT_EQ(tables[0]["rows"], 512);
  EXPECT_EQ(tables[0]["keys"], 2) << "3 keys and 1 key; a repeated key counts once";
  EXPECT_TRUE(tables[1]["rows"].is_null());
  EXPECT_EQ(tables[2]["token_only"], "optimizer 'group_ftrl' needs whole rows");
  EXPECT_TRUE(tables[2]["encoding"].is_null());
  EXPECT_TRUE(tables[3]["token"].is_null()) << "without keys there is nothing to measure";
  EXPECT_EQ(tables[3]["recommended"], "token");
}

TEST(Plan, PrintsATableForPeople) {
  JobFolder folder;
  folder.write("first.toml", "[optimizer]\nname = \"adam\"\n");
  folder.write("keys.json", kKeys);
  ASSERT_EQ(folder.run(Words{"plan", folder.path("first.toml"), "--keys", folder.path("keys.json"),
                             "--shards", "2"} +
                       kShort),
            0)
      << folder.output();
  const std::string out = folder.output();
  for (const char* const said :
       {"recommended", "actions", "token only: optimizer 'group_ftrl' needs whole rows", "(all of them)",
        "[storage]\nshards = 2", "no keys of it"})
    EXPECT_NE(out.find(said), std::string::npos) << said << "\n" << out;
}

TEST(Plan, BadInputSaysWhatToDo) {
  JobFolder folder;
  folder.write("first.toml", "[optimizer]\nname = \"adam\"\n");
  folder.write("keys.json", kKeys);
  const auto keys = [&](const std::string& name, const std::string& text) {
    folder.write(name, text);
    return Words{folder.path("first.toml"), "--keys", folder.path(name)};
  };
  const std::string first = folder.path("first.toml");
  const std::vector<std::pair<Words, std::string>> wrong{
      {{folder.job(), "--shards", "0"}, "--shards 0: it must be numbers from 1 to 64"},
      {{folder.job(), "--shards", "2,x"}, "--shards 2,x"},
      {{folder.job(), "--shards", "2,"}, "--shards 2,"},
      {{folder.path("none.toml")}, "none.toml"},
      {{folder.job(), "--seconds", "0"}, "--seconds"},
      {{folder.job(), "--keys", folder.path("keys.json")}, "leave --keys out"},
      {{folder.job(), "--report", folder.path("no/where")}, "no"},
      {{first}, "--keys"},
      {{first, "--keys", folder.path("no.json")}, "no.json"},
      {keys("a.json", "{"), "no JSON"},
      {keys("b.json", "[]"), "'tables' and 'batches'"},
      {keys("c.json", R"({"tables": [], "batches": [{}]})"), "'tables' must be a list"},
      {keys("d.json", R"({"tables": [{"name": "t", "dim": 4}], "batches": []})"), "'batches' must be a list"},
      {keys("e.json", R"({"tables": [{"name": "t", "dim": 0}], "batches": [{}]})"), "'dim' of tables[0]"},
      {keys("f.json", R"({"tables": [{"name": "t", "dim": 4, "size": 1}], "batches": [{}]})"), "'size'"},
      {keys("g.json", R"({"tables": [{"name": "t", "dim": 4}], "batches": [{"u": [1]}]})"), "'u'"},
      {keys("h.json", R"({"tables": [{"name": "t", "dim": 4}], "batches": [{"t": ["a"]}]})"), "no int64"},
      {keys("i.json",
            R"({"tables": [{"name": "t", "dim": 4, "optimizer": "adagard"}], "batches": [{"t": [1]}]})"),
       "adagrad"},
      {keys("j.json", R"({"tables": [{"name": "t", "dim": 4}, {"name": "t", "dim": 4}], "batches": [{}]})"),
       "a 'name' of its own"},
  };
  for (const auto& [words, said] : wrong) {
    EXPECT_EQ(folder.run(Words{"plan"} + words), 2) << said;
    EXPECT_NE(folder.output().find(said), std::string::npos) << said << "\n" << folder.output();
  }
}

}  // namespace
}  // namespace embers::testing_support
