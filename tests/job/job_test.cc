#include <gtest/gtest.h>

#include "job/sections/said.h"
#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kColumns = R"(columns = [
  { name = "age", type = "int" },
  { name = "height", type = "float" },
  { name = "town", type = "string" },
  { name = "tags", type = "string", separator = ";" },
  { name = "junk", type = "ignore" },
  { name = "y", type = "label", positive = "yes", negative = ["no", "never"] },
])";

TEST(Job, HasDefaultsForAllThatIsNotSaid) {
  const Job job = parse(job_text(kColumns));
  EXPECT_EQ(job.job.name, "job");
  EXPECT_EQ(job.job.seed, 1u);
  EXPECT_EQ(job.model.name, "m");
  EXPECT_TRUE(job.model.params.empty());
  EXPECT_EQ(job.data.dir, ".");
  EXPECT_EQ(job.data.train, std::vector<std::string>{"t.csv"});
  EXPECT_TRUE(job.data.test.empty());
  EXPECT_EQ(job.data.separator, ',');
  EXPECT_FALSE(job.data.header);
  EXPECT_TRUE(job.data.trim);
  EXPECT_TRUE(job.data.shuffle);
  EXPECT_FALSE(job.data.skip_bad_rows);
  EXPECT_EQ(job.data.missing, std::vector<std::string>{""});
  EXPECT_EQ(job.optimizer, UpdateRuleSpec{});
  EXPECT_EQ(job.training.mode, Mode::kAsync);
  EXPECT_EQ(job.training.batch_size, 64u);
  EXPECT_EQ(job.storage.backend, "memory");
  EXPECT_EQ(job.storage.shards, 1u);
}

TEST(Job, ReadsEveryValue) {
  const Job job = parse(R"(
[job]
name = "census"
seed = 9223372036854775807
heartbeat_timeout = 2.5
worker_timeout = 3
lease_timeout = 20.5
[model]
name = "wide_deep"
library = "libmine.so"
hidden = [64, 32]
dropout = 0.5
cross = { first = "a", deep = true }
[data]
dir = "d"
train = ["a.csv", "b-*.csv"]
test = "c.csv"
format = "tsv"
separator = ";"
header = true
trim = false
comment = "#"
missing = ["", "?"]
on_bad_row = "skip"
shuffle = false
block_records = 10
columns = [{ name = "x", type = "int" }]
[optimizer]
name = "adam"
learning_rate = 1e-3
beta_1 = 0.9
amsgrad = true
[training]
mode = "sync"
reduction = "sum"
batch_size = 128
epochs = 5
workers = 2
grads_to_wait = 3
prefetch = 0
threads = 4
minibatches_per_lease = 16
[storage]
backend = "redis"
servers = ["a:1", "b:2"]
own_servers = 3
memory_mb = 256
server_timeout = 2.5
server_threads = 3
journal = "notes"
owner_timeout = 2.5
network_gbits = 2.5
shards = 4
buckets = 64
)");
  EXPECT_EQ(job.job.name, "census");
  EXPECT_EQ(job.job.seed, 9223372036854775807u);
  EXPECT_EQ(job.job.heartbeat_timeout, 2.5);
  EXPECT_EQ(job.job.worker_timeout, 3);
  EXPECT_EQ(job.job.lease_timeout, 20.5);
  EXPECT_EQ(job.model.library, "libmine.so");
  EXPECT_EQ(job.place({"model", "library"}), "job.toml:10");
  EXPECT_EQ(job.place({"model", "absent", "deeper"}), "job.toml:8");
  EXPECT_EQ(job.place({"nowhere"}), "job.toml");
  EXPECT_EQ(job.model.params.dump(), R"({"cross":{"deep":true,"first":"a"},"dropout":0.5,"hidden":[64,32]})");
  EXPECT_EQ(job.data.train, (std::vector<std::string>{"a.csv", "b-*.csv"}));
  EXPECT_EQ(job.data.test, std::vector<std::string>{"c.csv"});
  EXPECT_EQ(job.data.separator, ';');
  EXPECT_TRUE(job.data.header);
  EXPECT_FALSE(job.data.trim);
  EXPECT_EQ(job.data.comment, "#");
  EXPECT_EQ(job.data.missing, (std::vector<std::string>{"", "?"}));
  EXPECT_TRUE(job.data.skip_bad_rows);
  EXPECT_FALSE(job.data.shuffle);
  EXPECT_EQ(job.data.block_records, 10u);
  EXPECT_EQ(job.optimizer.name, "adam");
  EXPECT_EQ(job.optimizer.params,
            (std::map<std::string, double>{{"amsgrad", 1}, {"beta_1", 0.9}, {"learning_rate", 1e-3}}));
  EXPECT_EQ(job.training.mode, Mode::kSync);
  EXPECT_EQ(job.training.reduction, Reduction::kSum);
  EXPECT_EQ(job.training.batch_size, 128u);
  EXPECT_EQ(job.training.epochs, 5u);
  EXPECT_EQ(job.training.workers, 2u);
  EXPECT_EQ(job.training.grads_to_wait, 3u);
  EXPECT_EQ(job.training.prefetch, 0u);
  EXPECT_EQ(job.training.threads, 4u);
  EXPECT_EQ(job.training.minibatches_per_lease, 16u);
  EXPECT_EQ(job.storage.backend, "redis");
  EXPECT_EQ(job.storage.servers, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(job.storage.own_servers, 3u);
  EXPECT_EQ(job.storage.memory_mb, 256u);
  EXPECT_EQ(job.storage.server_timeout, 2.5);
  EXPECT_EQ(job.storage.server_threads, 3u);
  EXPECT_EQ(job.storage.journal, "notes");
  EXPECT_EQ(job.storage.owner_timeout, 2.5);
  EXPECT_EQ(job.storage.network_gbits, 2.5);
  EXPECT_EQ(job.storage.shards, 4u);
  EXPECT_EQ(job.storage.buckets, 64u);
}

TEST(Job, TsvIsDividedByTabs) {
  EXPECT_EQ(parse(job_text("format = \"tsv\"\n" + kColumns)).data.separator, '\t');
}

TEST(Job, ColumnsKnowTheirTypeAndLabels) {
  const Job job = parse(job_text(kColumns));
  ASSERT_EQ(job.data.columns.size(), 6u);
  EXPECT_EQ(job.data.columns[0].type, ColumnType::kInt);
  EXPECT_EQ(job.data.columns[3].separator, ";");
  EXPECT_EQ(job.data.columns[5].positive, std::vector<std::string>{"yes"});
  EXPECT_EQ(job.data.columns[5].negative, (std::vector<std::string>{"no", "never"}));
}

TEST(Job, WithoutFeaturesEveryColumnIsOne) {
  const Job job = parse(job_text(kColumns));
  const FeatureSchema schema = job.feature_schema();
  EXPECT_EQ(schema.numeric, std::vector<std::string>{"height"});
  ASSERT_EQ(schema.categorical.size(), 3u);
  EXPECT_EQ(schema.categorical[0].name, "age");
  EXPECT_EQ(schema.categorical[0].key_kind, KeyKind::kInt64);
  EXPECT_EQ(schema.categorical[1].name, "town");
  EXPECT_EQ(schema.categorical[1].key_kind, KeyKind::kBytes);
  EXPECT_EQ(schema.categorical_index("tags"), 2);
  EXPECT_EQ(schema.categorical_index("height"), -1);
}

TEST(Job, FeaturesStandInTheOrderOfTheFileWhateverTheirNames) {
  const Job job = parse(job_text(kColumns, R"([features]
zebra = { column = "town", missing = "?" }
age_key = { column = "age", as = "categorical", keys = "string" }
[features.middle]
column = "age"
missing = -1
[features.age]
as = "numeric"
transform = "standardize"
mean = 38.6
std = 13.6
[features.a]
column = "height"
transform = "minmax"
min = 100
max = 200
missing = 150.0
)"));
  ASSERT_EQ(job.features.size(), 5u);
  EXPECT_EQ(job.features[0].name, "zebra");
  EXPECT_EQ(job.features[0].missing_key, "?");
  EXPECT_TRUE(job.features[0].has_missing_key);
  EXPECT_EQ(job.features[1].name, "age_key");
  EXPECT_EQ(job.features[1].key_kind, KeyKind::kBytes);
  EXPECT_FALSE(job.features[1].has_missing_key);
  EXPECT_EQ(job.features[2].name, "middle");
  EXPECT_EQ(job.features[2].key_kind, KeyKind::kInt64);
  EXPECT_EQ(job.features[2].missing_key, "-1");
  EXPECT_EQ(job.features[3].name, "age");
  EXPECT_FALSE(job.features[3].categorical);
  EXPECT_EQ(job.features[3].transform, Transform::kStandardize);
  EXPECT_EQ(job.features[3].a, 38.6);
  EXPECT_EQ(job.features[3].b, 13.6);
  EXPECT_EQ(job.features[3].missing_number, 38.6);
  EXPECT_EQ(job.features[4].name, "a");
  EXPECT_EQ(job.features[4].a, 100);
  EXPECT_EQ(job.features[4].b, 100);
  EXPECT_EQ(job.features[4].missing_number, 150);
}

TEST(Job, CriteoImpliesColumnsAndFeatures) {
  const Job job = parse(job_text("format = \"criteo\""));
  EXPECT_EQ(job.data.separator, '\t');
  EXPECT_FALSE(job.data.header);
  EXPECT_EQ(job.data.columns.size(), 40u);
  EXPECT_EQ(job.feature_schema().numeric.size(), 13u);
  EXPECT_EQ(job.feature_schema().categorical.size(), 26u);
  const Job other = parse(job_text("format = \"criteo\"\nseparator = \",\"\nheader = true"));
  EXPECT_EQ(other.data.separator, ',');
  EXPECT_TRUE(other.data.header);
}

TEST(Job, TablesMatchByGlobAndLaterEntriesWin) {
  const Job job = parse(job_text(kColumns, R"([optimizer]
name = "adam"
learning_rate = 0.5
[storage.tables]
"z*" = { dim = 4, initializer = "zeros", optimizer = { name = "adagrad", initial_accumulator_value = 0.1 } }
"*a" = { dim = 8, learning_rate = 0.25 }
[storage.tables."deep/?"]
initializer = { name = "uniform", minval = -1, maxval = 1 }
)"));
  EXPECT_EQ(job.dim_for("zb", 16), 4u);
  EXPECT_EQ(job.dim_for("za", 16), 8u);
  EXPECT_EQ(job.dim_for("b", 16), 16u);

  TableSpec za{
      .name = "za", .dim = 8, .key_kind = {}, .initializer = {}, .update_rule = {}, .constraint = {}};
  job.apply_overrides(za);
  EXPECT_EQ(za.initializer.name, "zeros");
  EXPECT_EQ(za.update_rule,
            (UpdateRuleSpec{"adagrad", {{"initial_accumulator_value", 0.1}, {"learning_rate", 0.25}}}));

  TableSpec deep{
      .name = "deep/1", .dim = 3, .key_kind = {}, .initializer = {}, .update_rule = {}, .constraint = {}};
  job.apply_overrides(deep);
  EXPECT_EQ(deep.initializer, (InitializerSpec{"uniform", {{"maxval", 1}, {"minval", -1}}}));
  EXPECT_EQ(deep.update_rule, (UpdateRuleSpec{"adam", {{"learning_rate", 0.5}}}));
}

TEST(Job, RowsMayBeKeptAndSentAsHalves) {
  const Job plain = parse(job_text("columns = [{ name = \"x\" }]"));
  EXPECT_EQ(plain.storage.dtype, NumberType::kFloat32);
  EXPECT_EQ(plain.storage.wire_dtype, NumberType::kFloat32);
  const Job job = parse(job_text(kColumns, R"([storage]
dtype = "float16"
wire_dtype = "bfloat16"
[storage.tables]
"b*" = { dtype = "bfloat16", rounding = "nearest" }
)"));
  EXPECT_EQ(job.storage.wire_dtype, NumberType::kBfloat16);
  TableSpec a{.name = "a", .dim = 8, .key_kind = {}, .initializer = {}, .update_rule = {}, .constraint = {}};
  job.apply_overrides(a);
  EXPECT_EQ(a.number_type, NumberType::kFloat16);
  EXPECT_EQ(a.rounding, Rounding::kStochastic);
  TableSpec b{.name = "b1", .dim = 8, .key_kind = {}, .initializer = {}, .update_rule = {}, .constraint = {}};
  job.apply_overrides(b);
  EXPECT_EQ(b.number_type, NumberType::kBfloat16);
  EXPECT_EQ(b.rounding, Rounding::kNearest);
}

TEST(Job, OwnersShareTablesByRowsOrColumns) {
  const std::string columns = "columns = [{ name = \"x\" }]";
  const Job job = parse(job_text(columns, R"([storage.tables]
"*" = { partition = "auto" }
"wide" = { partition = "encoding" }
"deep" = { partition = "token" }
)"));
  const auto of = [&](const char* name) {
    TableSpec table{
        .name = name, .dim = 8, .key_kind = {}, .initializer = {}, .update_rule = {}, .constraint = {}};
    job.apply_overrides(table);
    return table.partition;
  };
  EXPECT_EQ(of("other"), Partition::kAuto);
  EXPECT_EQ(of("wide"), Partition::kEncoding);
  EXPECT_EQ(of("deep"), Partition::kToken);
  EXPECT_EQ(message_of([&] { parse(job_text(columns, "[storage.tables.\"z\"]\npartition = \"rows\"")); }),
            "job.toml:7: [storage.tables.\"z\"] partition must be token, encoding or auto, not 'rows'");
}

TEST(Job, HalvesAreKeptInMemoryOnly) {
  const std::string columns = "columns = [{ name = \"x\" }]";
  EXPECT_EQ(
      message_of([&] { parse(job_text(columns, "[storage]\nbackend = \"redis\"\ndtype = \"float16\"")); }),
      "job.toml:8: only backend 'memory' keeps rows as float16; redis holds float32 (storage.wire_dtype "
      "works with all backends)");
  EXPECT_NE(message_of([&] {
              parse(job_text(columns,
                             "[storage]\nbackend = \"redis\"\n[storage.tables.\"z*\"]\ndtype = "
                             "\"bfloat16\""));
            }).find("job.toml:9"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              parse(job_text(columns, "[storage]\ndtype = \"float8\""));
            }).find("'dtype' cannot be 'float8'"),
            std::string::npos);
}

TEST(Job, ATableThatTheModelMadeWithAnotherDimIsAnError) {
  const Job job = parse(job_text("columns = [{ name = \"x\" }]", "[storage.tables.\"z*\"]\ndim = 4"));
  TableSpec table{
      .name = "zb", .dim = 16, .key_kind = {}, .initializer = {}, .update_rule = {}, .constraint = {}};
  const std::string message = message_of([&] { job.apply_overrides(table); });
  EXPECT_EQ(message,
            "job.toml:7: [storage.tables.\"z*\"] gives table 'zb' dim 4, but the model made it with dim 16");
}

TEST(JobFile, IsReadWithItsOverrides) {
  const TempDir dir;
  const std::string path = write_file(dir, "a.toml", job_text("columns = [{ name = \"x\" }]"));
  const JobText text = read_job(path, {"model.name=other"});
  EXPECT_EQ(text.path, path);
  EXPECT_EQ(parse_job(text).model.name, "other");
}

TEST(JobFile, ThatCannotBeReadIsNamed) {
  const TempDir dir;
  for (const std::string& path : {dir / "none.toml", dir.path().string()}) {
    EXPECT_MENTIONS(message_of([&] { read_job(path, {}); }), path);
  }
}

TEST(JobFile, ThatIsEmptyHasAModelThatComesWithItsFirstWorker) {
  const TempDir dir;
  const std::string path = write_file(dir, "empty.toml", "");
  EXPECT_TRUE(parse_job(read_job(path, {})).from_worker);
  EXPECT_TRUE(parse_job(read_job(path, {"training.mode=sync"})).from_worker);
  EXPECT_FALSE(
      parse_job(read_job(testing_support::path_of(EMBERS_EXAMPLES) + "/census.toml", {})).from_worker);
}

Job with_python(const std::string& rest, std::vector<std::string> overrides = {}) {
  return job::parse_job(
      {"job.toml",
       "[model]\npython = \"net:Net\"\n[data]\ntrain = \"a\"\ncolumns = [{ name = \"x\" }]\n" + rest,
       std::move(overrides)});
}

TEST(PythonModel, ComesWithTheFirstWorkerButItsDataDoNot) {
  const Job job = with_python("", {"model.dim=3", "model.python_path=\"/models\""});
  EXPECT_EQ(job.model.python, "net:Net");
  EXPECT_EQ(job.model.python_path, "/models");
  EXPECT_EQ(job.model.params, nlohmann::json::parse(R"({"dim": 3})")) << "other keys are the model's";
  EXPECT_TRUE(job.model_from_worker());
  EXPECT_FALSE(job.from_worker);
  const auto lines = job::settings(job.source);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "model.python = \"net:Net\""), 1);
  EXPECT_TRUE(std::none_of(lines.begin(), lines.end(), [](const auto& line) {
    return line.starts_with("model.python_path");
  })) << "each host has its own folders";
}

TEST(PythonModel, IsAModuleAndAClass) {
  for (const char* const name : {"a:B", "a.b_c:D", "_a1:B.C"})
    EXPECT_EQ(with_python("", {fmt::format("model.python=\"{}\"", name)}).model.python, name);
  for (const char* const name : {"", "a", "a:", ":B", "a/b:C", "a:B()", "1a:B", "a: B"})
    EXPECT_MENTIONS(message_of([&] { with_python("", {fmt::format("model.python=\"{}\"", name)}); }),
                    "[model] 'python' must be \"module:Class\"");
}

TEST(PythonModel, GoesWithNothingThatIsForModelsInCpp) {
  const auto refused = [](const std::string& rest, std::vector<std::string> overrides = {}) {
    return message_of([&] { with_python(rest, overrides); });
  };
  EXPECT_MENTIONS(refused("", {"model.name=dlrm"}), "'name' does not go with 'python'");
  EXPECT_MENTIONS(refused("", {"model.library=a.so"}), "'library' does not go with 'python'");
  EXPECT_MENTIONS(refused("[columns]\nx = { as = \"embedding\", dimension = 1 }"),
                  "job.toml:6: [columns] are for models in C++");
  EXPECT_MENTIONS(refused("[training]\nget_model_steps = 2"),
                  "job.toml:7: [training] 'get_model_steps' above 1");
  EXPECT_MENTIONS(
      message_of([] {
        parse_job({"job.toml", "[model]\nname = \"dlrm\"\npython_path = \"a\"\n[data]\ntrain = \"a\"", {}});
      }),
      "job.toml:3: [model] 'python_path' is where a Python model is");
}

TEST(SaidOfTable, IsAValueAsInAJobFile) {
  TableSpec table;
  job::read_said("table 'user'", {"zeros", "{ name = \"adam\", learning_rate = 0.5 }", ""}, table);
  EXPECT_EQ(table.initializer, (InitializerSpec{"zeros", {}}));
  EXPECT_EQ(table.update_rule, (UpdateRuleSpec{"adam", {{"learning_rate", 0.5}}, {}}));
  EXPECT_EQ(table.constraint, ConstraintSpec());
  TableSpec same = table;
  job::read_said("table 'user'", {}, same);
  EXPECT_EQ(same, table) << "nothing is said";
  const auto wrong = [&](const std::string& optimizer) {
    return message_of([&] { job::read_said("table 'user'", {"", optimizer, ""}, table); });
  };
  EXPECT_MENTIONS(wrong("{ learning_rate = 1 }"), "what a worker says of table 'user': its 'optimizer' must");
  EXPECT_MENTIONS(wrong("{ name = \"adam\", learning_rate = \"x\" }"), "of table 'user'");
  EXPECT_MENTIONS(wrong("7"), "must be a name, or a table");
  job::read_said("table 'user'", {"", "", "", "encoding"}, table);
  EXPECT_EQ(table.partition, Partition::kEncoding);
  job::read_said("table 'user'", {"", "", "", "", "bfloat16"}, table);
  EXPECT_EQ(table.number_type, NumberType::kBfloat16);
  EXPECT_MENTIONS(message_of([&] {
                    job::read_said("table 'user'", {"", "", "", "", "float64"}, table);
                  }),
                  "table 'user': dtype must be float32, float16 or bfloat16, not 'float64'");
  EXPECT_EQ(message_of([&] {
              job::read_said("table 'user'", {"", "", "", "x"}, table);
            }),
            "table 'user': partition must be token, encoding or auto, not 'x'");
  job::read_said("table 'user'", {"", "sgd\nconstraint = \"x\"", ""}, table);
  EXPECT_EQ(table.constraint.name, "") << "a line break adds no key";
}

TEST(Examples, Parse) {
  const Job census = parse_job(read_job(testing_support::path_of(EMBERS_EXAMPLES) + "/census.toml", {}));
  EXPECT_EQ(census.data.columns.size(), 15u);
  EXPECT_EQ(census.feature_schema().categorical.size(), 13u);
  EXPECT_EQ(census.feature_schema().numeric.size(), 7u);
  const Job criteo = parse_job(read_job(testing_support::path_of(EMBERS_EXAMPLES) + "/criteo.toml", {}));
  EXPECT_EQ(criteo.data.columns.size(), 40u);
}

}  // namespace
}  // namespace embers::data
