#include "apps/launch/slurm/commands/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <thread>

#include "apps/process/child.h"
#include "base/errors.h"

namespace embers::launch {
namespace {

namespace bp = boost::process;

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

struct SlurmCommand::Impl {
  using Clock = std::chrono::steady_clock;

  SlurmAnswer said(int status) const { return {status, all_of(output.get()), all_of(errors.get())}; }

  std::string name;
  const File output{std::tmpfile()}, errors{std::tmpfile()};  // no pipes: see apps/process/README.md
  std::optional<Clock::time_point> end_by;
  bp::child child;
};

SlurmCommand::SlurmCommand(const Words& words, std::optional<std::chrono::milliseconds> most)
    : impl_(std::make_unique<Impl>()) {
  if (!impl_->output || !impl_->errors)
    fail(ErrorCode::kInvalid, "cannot make a temporary file; is TMPDIR full?");
  impl_->name = words.front();
  if (most) impl_->end_by = Impl::Clock::now() + *most;
  try {
    impl_->child =
        bp::child(kFindInPath, bp::args(words), bp::std_in<bp::null, bp::std_out> impl_->output.get(),
                  bp::std_err > impl_->errors.get(), ends_with_this_process());
  } catch (const std::system_error& e) {
    fail(ErrorCode::kInvalid, "cannot run {}: {}", words.front(), e.what());
  }
}

SlurmCommand::~SlurmCommand() { end(impl_->child); }

std::optional<SlurmAnswer> SlurmCommand::answer() {
  Impl& i = *impl_;
  if (!i.child.running()) return i.said(i.child.exit_code());
  if (!i.end_by || Impl::Clock::now() < *i.end_by) return std::nullopt;
  end(i.child);
  SlurmAnswer late = i.said(SlurmAnswer::kTookTooLong);
  late.errors += i.name + " did not answer in time\n";
  return late;
}

SlurmAnswer SlurmCommand::wait() {
  while (impl_->end_by) {
    if (const auto said = answer()) return *said;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  impl_->child.wait();
  return impl_->said(impl_->child.exit_code());
}

SlurmAnswer run_slurm(const Words& words, std::optional<std::chrono::milliseconds> most) {
  return SlurmCommand(words, most).wait();
}

std::string as_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) pattern.append(c == '%' ? 2 : 1, c);
  return pattern;
}

Words place_words_of_one(const SchedulerOptions& options) {
  const auto is_of_all = [](const std::string& word) {  // also --ntasks-per-node=2 and -N2
    constexpr const char* kOfAll[] = {"--signal",     "--nodes", "--nodelist", "--nodefile", "--ntasks",
                                      "--dependency", "--array", "--hold",     "--begin",    "-N",
                                      "-w",           "-F",      "-n",         "-d",         "-a",
                                      "-H",           "-b"};
    return std::ranges::any_of(kOfAll, [&](const char* option) { return word.starts_with(option); });
  };
  SchedulerOptions one = options;
  std::erase_if(one.sbatch, is_of_all);
  return place_words(one);
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
