#include "apps/doctor/here.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/process/child.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "base/host.h"

namespace embers {
namespace {

namespace fs = std::filesystem;
using FilePtr = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

constexpr char kOtherPath[] =
    "copy or mount them at the same path, or give the path here: --set data.dir=DIR, to doctor and worker "
    "alike";

std::string read_all(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char part[4096];
  for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  return text;
}

std::vector<std::string> command_of(const JoinOptions& join) {
  std::vector<std::string> words{"examine", "--connect-timeout", fmt::format("{}", join.connect_timeout)};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--master", join.access.job_dir.empty() ? join.master : "");
  add("--job-dir", join.access.job_dir);
  add("--secret-file", join.access.secret_file);
  if (join.access.insecure) words.push_back("--insecure");
  for (const std::string& value : join.set) add("--set", value);
  return words;
}

// What the child printed, or its last words.
nlohmann::json examine(const JoinOptions& join) {
  const FilePtr out(std::tmpfile(), &std::fclose), log(std::tmpfile(), &std::fclose);
  if (!out || !log) fail(ErrorCode::kDisk, "cannot make a temporary file");
  boost::process::child child;
  const std::string program = program_beside("embers-compute");
  try {
    child = boost::process::child(program, boost::process::args(command_of(join)),
                                  boost::process::std_out > out.get(), boost::process::std_err > log.get(),
                                  ends_with_this_process());
  } catch (const std::system_error& e) {
    fail(ErrorCode::kInvalid,
         "cannot start {}: {}; it must be in the folder of this program: build or install all of embers",
         program, e.code().message());
  }
  child.wait();
  const std::string text = read_all(out.get());
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (child.exit_code() == 0 && json.is_object()) return json;
  std::string said = read_all(log.get());
  while (!said.empty() && said.back() == '\n') said.pop_back();
  said = said.substr(said.rfind('\n') + 1);
  if (const size_t error = said.find("error: "); error != std::string::npos) said = said.substr(error + 7);
  fail(ErrorCode::kInvalid, "{}",
       said.empty() ? fmt::format("embers-compute ended with {}", child.exit_code()) : said);
}

}  // namespace

std::vector<std::string> missing_in(const std::vector<std::string>& there,
                                    const std::vector<std::string>& here) {
  std::vector<std::string> missing;
  for (const std::string& line : here)
    if (std::find(there.begin(), there.end(), line) == there.end()) missing.push_back(line);
  return missing;
}

void examine_files(const job::Job& job, bool evaluates, Findings& findings) {
  std::vector<std::string> patterns = job.data.test;
  if (!evaluates) patterns.insert(patterns.begin(), job.data.train.begin(), job.data.train.end());
  std::vector<std::string> absent;
  uint64_t bytes = 0, files = 0;
  for (const std::string& pattern : patterns) {
    const std::string path = (fs::path(job.data.dir) / pattern).string();
    glob_t found{};
    const bool any = ::glob(path.c_str(), 0, nullptr, &found) == 0;
    if (!any) absent.push_back(path);
    for (size_t i = 0; any && i < found.gl_pathc; ++i) {
      std::error_code unknown;
      const uint64_t size = fs::file_size(found.gl_pathv[i], unknown);
      if (unknown || ::access(found.gl_pathv[i], R_OK) != 0) {
        absent.push_back(found.gl_pathv[i]);
      } else {
        bytes += size;
        ++files;
      }
    }
    ::globfree(&found);
  }
  if (absent.empty())
    return findings.ok("data: files",
                       fmt::format("{} file{}, {:.1f} MiB", files, files == 1 ? "" : "s",
                                   static_cast<double>(bytes) / (1 << 20)),
                       {{"files", files}, {"bytes", bytes}});
  findings.failed("data: files",
                  fmt::format("cannot be read on {}: {}", host_name(), fmt::join(absent, ", ")), kOtherPath);
}

void examine_worker(const JoinOptions& join, const std::vector<std::string>& settings,
                    const std::vector<std::string>& numeric, bool sync, Findings& findings) {
  try {
    const nlohmann::json here = examine(join);
    const auto my_settings = here.at("settings").get<std::vector<std::string>>();
    const auto my_numeric = here.at("numeric").get<std::vector<std::string>>();
    if (my_settings == settings)
      findings.ok("data: contents", "job, model and data are those of the master");
    else
      findings.failed("data: contents",
                      fmt::format("differs: {} here, {} at the master",
                                  fmt::join(missing_in(settings, my_settings), "; "),
                                  fmt::join(missing_in(my_settings, settings), "; ")),
                      "a worker here is refused: give it the same files and settings");
    // Empty where workers run Python, which the master's host need not have.
    if (my_numeric == numeric || numeric.empty())
      return findings.ok("numeric settings", fmt::format("{}", fmt::join(my_numeric, ", ")),
                         {{"settings", my_numeric}});
    findings.add(
        {"numeric settings",
         sync ? Finding::Verdict::kFailed : Finding::Verdict::kWarning,
         fmt::format("{} here, {} at the master's host", fmt::join(missing_in(numeric, my_numeric), ", "),
                     fmt::join(missing_in(my_numeric, numeric), ", ")),
         sync ? "a sync job takes only workers with the settings of its first one: install the same "
                "libraries, "
                "or set OPENBLAS_CORETYPE to the same on all hosts"
              : "results of hosts differ in their last bits",
         {{"settings", my_numeric}}});
  } catch (const Error& e) {
    findings.failed("data: contents", e.what(), "see embers check, on this host");
  }
}

}  // namespace embers
