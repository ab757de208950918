#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace embers::launch {

// Reads what members append to their logs: files, so that no member ever waits for whoever reads, and nothing
// is lost when the launcher dies. A member that says more than can be shown does not keep the launcher from
// its work: of what is more than kFarBehind back, only the end is shown, and a line says so.
class LogFollower {
 public:
  // Hands each line to `show`, with the label of its member.
  explicit LogFollower(std::function<void(const std::string& label, const std::string& line)> show)
      : show_(std::move(show)) {}

  static constexpr uint64_t kFarBehind = 1 << 20;  // bytes of a log

  // From its present end on. Following it again is for the next process of the same member.
  void follow(const std::string& label, const std::string& path);
  // Shows what is new, or a part of it where that is much.
  void poll();
  // Shows the rest of a log to which nobody writes any more, its last line even without an end.
  void finish(const std::string& label);
  // At most so many of the last lines since follow().
  std::vector<std::string> last_lines(const std::string& label, size_t most) const;

 private:
  struct Log {
    std::string path;
    uint64_t begin = 0, read = 0;  // bytes
    std::string line;              // without its end yet
  };
  void read(const std::string& label, Log& log, uint64_t most);
  void skip(const std::string& label, Log& log, uint64_t size);

  const std::function<void(const std::string&, const std::string&)> show_;
  std::map<std::string, Log> logs_;  // by label
};

}  // namespace embers::launch
