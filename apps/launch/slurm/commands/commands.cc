#include "apps/launch/slurm/commands/commands.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "apps/process/child.h"
#include "base/errors.h"

namespace embers::launch {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

std::string all_of(std::FILE* file) {
  std::string text;
  char part[4096];
  std::rewind(file);
  while (const size_t n = std::fread(part, 1, sizeof part, file)) text.append(part, n);
  return text;
}

}  // namespace

std::vector<std::string> SlurmAnswer::lines() const {
  std::vector<std::string> lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string SlurmAnswer::first_line() const { return output.substr(0, output.find('\n')); }

SlurmAnswer run_slurm(const Words& words) {
  namespace bp = boost::process;
  const File output(std::tmpfile()), errors(std::tmpfile());  // no pipes: see apps/process/README.md
  if (!output || !errors) fail(ErrorCode::kInvalid, "cannot make a temporary file; is TMPDIR full?");
  SlurmAnswer answer;
  try {
    bp::child child(kFindInPath, bp::args(words), bp::std_in<bp::null, bp::std_out> output.get(),
                    bp::std_err > errors.get(), ends_with_this_process());
    child.wait();
    answer.status = child.exit_code();
  } catch (const std::system_error& e) {
    fail(ErrorCode::kInvalid, "cannot run {}: {}", words.front(), e.what());
  }
  answer.output = all_of(output.get());
  answer.errors = all_of(errors.get());
  return answer;
}

std::string as_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) pattern.append(c == '%' ? 2 : 1, c);
  return pattern;
}

Words place_words(const SchedulerOptions& options) {
  Words words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(std::string(option) + "=" + value);
  };
  add("--partition", options.partition);
  add("--account", options.account);
  add("--time", options.time);
  words.insert(words.end(), options.sbatch.begin(), options.sbatch.end());
  return words;
}

}  // namespace embers::launch
