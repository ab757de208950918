// Where models come from: the zoo by name, or a user's shared library.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/model/toy.h"
#include "tests/support/paths.h"

namespace embers {
namespace {

const std::vector<job::Feature> kFeatures{toy::feature("a", KeyKind::kInt64), toy::numeric("x"),
                                          toy::numeric("y")};

job::Job library_job(const std::string& library, const std::string& model = "mine",
                     nlohmann::json params = nlohmann::json::object()) {
  job::Job job = toy::job_of(kFeatures, model, std::move(params));
  job.model.library = library;
  return job;
}

void expect_refused(const std::vector<std::string>& parts, const job::Job& job) {
  toy::expect_invalid(parts, [&] { make_model(job); });
}

TEST(Library, ModelTrainsLikeOneFromTheBox) {
  auto runner = ModelRunner::make(library_job(testing_support::path_of(GOOD_PLUGIN)));
  toy::Server server;
  const StepResult result = toy::train(
      *runner, server, toy::minibatch_of({toy::ids_of<int64_t>({{1}, {2}})}, {0, 1}, {1, 2, 3, 4}));
  EXPECT_EQ(result.scores.size(), 2u);
  EXPECT_EQ(runner->spec().dense.at(0).name, "linear.weight");
}

TEST(Library, IsFoundBesideTheJobFile) {
  const std::filesystem::path plugin = testing_support::path_of(GOOD_PLUGIN);
  job::Job job = library_job(plugin.filename());
  job.source.path = plugin.parent_path() / "job.toml";
  EXPECT_NE(make_model(job), nullptr);
}

TEST(Library, ThatDoesNotExistIsNamed) {
  expect_refused({"toy.toml:1", "libnone.so", "does not exist"}, library_job("libnone.so"));
}

TEST(Library, ThatIsNoLibraryIsNamed) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("embers_no_library_" + std::to_string(getpid()) + ".so");
  std::ofstream(path) << "not ELF";
  expect_refused({path.string(), "does not load"}, library_job(path));
  std::filesystem::remove(path);
}

TEST(Library, ThatUsesOpenCvIsToldHowToReachIt) {
  expect_refused({"opencv_plugin", "does not load", "imread", "LD_LIBRARY_PATH"},
                 library_job(testing_support::path_of(OPENCV_PLUGIN)));
}

TEST(Library, WithoutAFactoryIsRefused) {
  expect_refused({"no_factory", "embers_make_model", "EMBERS_MODEL"},
                 library_job(testing_support::path_of(NO_FACTORY_PLUGIN)));
}

TEST(Library, OfAnotherAbiIsRefused) {
  expect_refused({"other_abi", "ABI 4711", "build it again"},
                 library_job(testing_support::path_of(OTHER_ABI_PLUGIN)));
}

TEST(Library, WithoutTheModelIsNamed) {
  expect_refused({"probe_model", "'coutn'", "model.name"}, library_job(testing_support::path_of(PROBE_MODEL), "coutn"));
}

TEST(Library, WhoseConstructorThrowsIsNamed) {
  expect_refused({"'mine'", "construction", "shape"},
                 library_job(testing_support::path_of(GOOD_PLUGIN), "mine", {{"throw_torch_error", true}}));
}

TEST(Library, SettingsThatItDoesNotReadAreRefused) {
  expect_refused({"toy.toml:1", "'sleep_s'", "did you mean 'sleep_ms'"},
                 library_job(testing_support::path_of(PROBE_MODEL), "slow", {{"sleep_s", 1}}));
}

TEST(MakeModel, SuggestsTheNearestModel) {
  expect_refused({"'wide_dep'", "did you mean 'wide_deep'"}, toy::job_of(kFeatures, "wide_dep"));
}

TEST(MakeModel, BuildsTheSameParametersInEveryThread) {
  const job::Job job = toy::job_of(kFeatures, "wide_deep");
  std::vector<std::vector<float>> values(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& mine : values)
    threads.emplace_back([&job, &mine] {
      const std::shared_ptr<Model> model = make_model(job);
      const FloatBuffer chunks = dense_values(*model, model_spec(*model, job), false);
      mine.assign(chunks.data(), chunks.data() + chunks.size());
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& other : values) EXPECT_EQ(other, values[0]);
  job::Job reseeded = job;
  reseeded.job.seed = 12;
  const FloatBuffer chunks = dense_values(*make_model(reseeded), model_spec(*make_model(job), job), false);
  EXPECT_NE(std::vector<float>(chunks.data(), chunks.data() + chunks.size()), values[0]);
}

TEST(ProbeModel, CountsRecordsByTheirKeys) {
  auto runner = ModelRunner::make(library_job(testing_support::path_of(PROBE_MODEL), "count"));
  toy::Server server;
  const StepResult result =
      toy::train(*runner, server, toy::minibatch_of({toy::ids_of<int64_t>({{1}, {2}, {1}})}, {0, 1, 0}));
  ASSERT_EQ(result.gradients.size(), 1u);
  EXPECT_EQ(toy::by_key(result.gradients[0]).at(1), std::vector<float>{-2});
  EXPECT_EQ(toy::by_key(result.gradients[0]).at(2), std::vector<float>{-1});
  EXPECT_EQ(result.scores, std::vector<float>(3, 0.5f));
  EXPECT_TRUE(runner->spec().dense.empty());
}

TEST(ProbeModel, OthersTrain) {
  for (const auto& [name, tables] :
       {std::pair<const char*, size_t>{"slow", 2}, {"dense_only", 1}, {"batchnorm", 2}}) {
    auto runner = ModelRunner::make(library_job(testing_support::path_of(PROBE_MODEL), name));
    EXPECT_EQ(runner->spec().tables.size(), tables) << name;
    toy::Server server;
    const StepResult result = toy::train(
        *runner, server, toy::minibatch_of({toy::ids_of<int64_t>({{1}, {2}})}, {0, 1}, {1, 2, 3, 4}));
    EXPECT_GT(result.loss_sum, 0) << name;
  }
}

}  // namespace
}  // namespace embers
