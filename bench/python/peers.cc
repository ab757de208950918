#include "bench/python/peers.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/process/program.h"
#include "base/errors.h"
#include "bench/python/scripts.h"

namespace embers {
namespace {

namespace fs = std::filesystem;

// Debian's Python, for which the package is built, unless somebody says otherwise.
std::string interpreter() {
  if (const char* const chosen = std::getenv("EMBERS_PYTHON"); chosen != nullptr && *chosen != 0)
    return chosen;
  return fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
}

// env NAME=VALUE...
std::vector<std::string> environment() {
  std::vector<std::string> words{"env"};
  const fs::path built = fs::path(program_beside("embers")).parent_path() / "python";
  if (fs::exists(built / "embers" / "__init__.py")) {
    const char* const others = std::getenv("PYTHONPATH");
    words.push_back(
        fmt::format("PYTHONPATH={}{}", built.string(), others == nullptr ? "" : fmt::format(":{}", others)));
  }
  return words;
}

}  // namespace

void prepare_python(const std::string& dir) {
  std::ofstream(dir + "/click_models.py") << kClickModelsScript;
  std::ofstream(dir + "/lookup.py") << kLookupScript;
  std::ofstream(dir + "/check.py") << "import numpy, torch, embers, embers.torch\n";
  std::string command;
  for (const std::string& word : environment()) command += fmt::format("'{}' ", word);
  command += fmt::format("'{}' '{}/check.py' 2>'{}/check.log' >/dev/null", interpreter(), dir, dir);
  if (std::system(command.c_str()) == 0) return;
  std::ifstream log(dir + "/check.log");
  std::string line, last = "it cannot be run";
  while (std::getline(log, line))
    if (!line.empty()) last = line;
  fail(ErrorCode::kInvalid,
       "embers bench python needs torch, NumPy and the package embers for {} (EMBERS_PYTHON names another "
       "one): {}",
       interpreter(), last);
}

BenchChild run_python(const std::string& dir, const std::string& script,
                      const std::vector<std::string>& words, int threads, const std::string& master) {
  std::vector<std::string> command = environment();
  for (const char* const library : {"OMP", "OPENBLAS"})
    command.push_back(fmt::format("{}_NUM_THREADS={}", library, threads));
  command.insert(command.end(), {"MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=1073741824",
                                 "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "PYTHONDONTWRITEBYTECODE=1",
                                 "EMBERS_MASTER=" + master, interpreter(), dir + "/" + script});
  command.insert(command.end(), words.begin(), words.end());
  return BenchChild(command);
}

}  // namespace embers
