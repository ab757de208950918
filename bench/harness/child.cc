#include "bench/harness/child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "apps/process/child.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "bench/harness/processes.h"

namespace embers {
namespace {

using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

// Both ends of a pipe. Those of boost::process are inherited by every child that is started later, so that
// none of them would see the end of its input.
struct Pipe {
  Pipe() : read(nullptr, &std::fclose), write(nullptr, &std::fclose) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      fail(ErrorCode::kInternal, "cannot create a pipe: {}", std::strerror(errno));
    read.reset(::fdopen(ends[0], "r"));
    write.reset(::fdopen(ends[1], "w"));
  }
  File read, write;
};

constexpr char kReady[] = "ready ", kLibrary[] = "libmimalloc.so.2";

bool has_mimalloc() { return ::dlopen(kLibrary, RTLD_LAZY) != nullptr; }

}  // namespace

struct BenchChild::Process {
  Process(const std::vector<std::string>& words, Pipe in, Pipe out)
      : to(std::move(in.write)),
        from(std::move(out.read)),
        child(kFindInPath, boost::process::args(words), (boost::process::std_in < in.read.get()),
              (boost::process::std_out > out.write.get()), ends_with_this_process()) {}
  ~Process() {
    to.reset();
    child.wait();
  }

  File to, from;
  boost::process::child child;
};

BenchChild::BenchChild(const std::vector<std::string>& words)
    : name_(words.at(0)), process_(std::make_unique<Process>(words, Pipe(), Pipe())) {
  std::string line = read_line();
  while (!line.starts_with(kReady)) line = read_line();  // libraries may print something first
  ready_ = line.substr(std::strlen(kReady));
}

BenchChild BenchChild::part(std::vector<std::string> words) {
  words.insert(words.begin(), {program_beside("embers-bench"), "part"});
  return BenchChild(words);
}

BenchChild BenchChild::part_with_mimalloc(std::vector<std::string> words) {
  std::vector<std::string> all{"/usr/bin/env"};
  for (const std::string& setting : mimalloc_environment()) all.push_back(setting);
  all.insert(all.end(), {program_beside("embers-bench"), "part"});
  all.insert(all.end(), words.begin(), words.end());
  return BenchChild(all);
}

BenchChild BenchChild::part_of_embers(std::vector<std::string> words) {
  return has_mimalloc() ? part_with_mimalloc(std::move(words)) : part(std::move(words));
}

std::vector<std::string> mimalloc_environment() {
  if (!has_mimalloc()) fail(ErrorCode::kInvalid, "there is no {}", kLibrary);
  return {fmt::format("LD_PRELOAD={}", kLibrary), "MIMALLOC_LARGE_OS_PAGES=1"};
}

BenchChild::BenchChild(BenchChild&&) noexcept = default;
BenchChild::~BenchChild() = default;

void BenchChild::tell(const std::string& line) {
  std::fputs((line + '\n').c_str(), process_->to.get());
  std::fflush(process_->to.get());
}

std::string BenchChild::answer() { return read_line(); }

std::string BenchChild::read_line() {
  std::string line;
  std::FILE* const from = process_->from.get();
  for (int c = std::fgetc(from); c != '\n'; c = std::fgetc(from)) {
    if (c == EOF) fail(ErrorCode::kInternal, "a process of the benchmark ended early: {}", name_);
    line.push_back(static_cast<char>(c));
  }
  return line;
}

std::vector<pid_t> BenchChild::processes() const { return with_descendants(process_->child.id()); }
double BenchChild::cpu_seconds() const { return embers::cpu_seconds(processes()); }

void answer_lines(const std::string& ready, const std::function<std::string(const std::string&)>& answer) {
  std::cout << kReady << ready << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
}

}  // namespace embers
