#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <future>

#include "model/step.h"

namespace embers {
namespace {

std::string value_of(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines)
    if (line.rfind(name + "=", 0) == 0) return line.substr(name.size() + 1);
  return "";
}

TEST(NumericSettings, NameEverythingThatResultsDependOn) {
  const std::vector<std::string> lines = numeric_settings(3);
  EXPECT_EQ(value_of(lines, "threads"), "3");
  EXPECT_EQ(value_of(lines, "libtorch").substr(0, 2), "1.");
  for (const char* name : {"blas", "blas_core", "vector", "rows"})
    EXPECT_FALSE(value_of(lines, name).empty()) << name;
  EXPECT_EQ(lines, numeric_settings(3));
}

TEST(NumericSettings, WarnExactlyWhenTheBlasIsNotOpenBlas) {
  std::string warning;
  const bool fast = value_of(numeric_settings(1, &warning), "blas").find("OpenBLAS") != std::string::npos;
  EXPECT_EQ(warning.empty(), fast);
}

// OpenBLAS builds its text in one buffer for all callers.
TEST(NumericSettings, AreTheSameWhoeverAsksAtOnce) {
  const std::vector<std::string> lines = numeric_settings(1);
  std::vector<std::future<int>> others;
  for (int t = 0; t < 4; ++t)
    others.push_back(std::async(std::launch::async, [&] {
      int different = 0;
      for (int i = 0; i < 500; ++i) different += numeric_settings(1) != lines;
      return different;
    }));
  for (std::future<int>& other : others) EXPECT_EQ(other.get(), 0);
}

// On a processor that OpenBLAS does not know it would stay with the kernels of a Prescott.
TEST(ChooseBlasCore, TakesKernelsWithAvx2WhereThereAre) {
  const auto core = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (core == nullptr) GTEST_SKIP() << "another BLAS";
  const at::Tensor a = at::rand({65, 130}), b = at::rand({130, 33});
  const at::Tensor before = at::mm(a, b);
  choose_blas_core();
  EXPECT_TRUE(at::allclose(at::mm(a, b), before, 1e-5, 1e-5));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_STRNE(core(), "Prescott");
  }
#endif
}

TEST(SetThreads, LimitsTheThreadsOfOperators) {
  set_threads(1);
  EXPECT_EQ(at::get_num_threads(), 1);
  set_threads(2);
  EXPECT_EQ(at::get_num_threads(), 2);
  set_threads(1);
}

}  // namespace
}  // namespace embers
