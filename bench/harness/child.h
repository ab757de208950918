#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace embers {

// A process of a benchmark. It prints one line when it is ready, answers each line that it is told with one
// line, and ends when its standard input or this process ends. Not thread-safe.
class BenchChild {
 public:
  // Runs `words` (found in PATH) and waits for its first line. kInternal when it ends without one.
  explicit BenchChild(const std::vector<std::string>& words);
  // This very program, playing one of its parts: `embers-bench part WORDS...`.
  static BenchChild part(std::vector<std::string> words);
  // The same under mimalloc with huge pages. kInvalid if it is not installed.
  static BenchChild part_with_mimalloc(std::vector<std::string> words);
  // A part of embers' side: under mimalloc, if it is installed, as embers' programs are.
  static BenchChild part_of_embers(std::vector<std::string> words);
  ~BenchChild();
  BenchChild(BenchChild&& other) noexcept;

  const std::string& ready() const { return ready_; }  // its first line, without "ready "
  void tell(const std::string& line);
  std::string answer();
  std::string ask(const std::string& line) { return tell(line), answer(); }
  // It and all that it has started.
  std::vector<pid_t> processes() const;
  double cpu_seconds() const;  // of them so far

 private:
  std::string read_line();

  struct Process;

  std::string name_;
  std::unique_ptr<Process> process_;
  std::string ready_;
};

// What `env` is given so that a program has mimalloc with huge pages. kInvalid if it is not installed.
std::vector<std::string> mimalloc_environment();

// The other end: says that it is ready, then answers lines until there are no more.
void answer_lines(const std::string& ready,
                  const std::function<std::string(const std::string& line)>& answer);

}  // namespace embers
