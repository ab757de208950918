#include "apps/compute/rejoin.h"

#include <spdlog/spdlog.h>

#include <fstream>

#include "actors/system_config.h"
#include "apps/process/child.h"
#include "apps/process/joining.h"
#include "apps/process/program.h"
#include "base/log/standard_error.h"

namespace embers {
namespace {

// As this process was started.
std::vector<std::string> command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

bool joins_again(const Error& why, bool has_finished_something) {
  return has_finished_something && (why.code() == ErrorCode::kFenced || why.code() == ErrorCode::kTimeout);
}

// A new process image, rather than a new session in this one: a thread of the old one may still be in the
// middle of a minibatch, with the model in its hands.
Error join_again(const JoinOptions& options, uint64_t run) {
  try {
    {
      const JobAccess access = find_job(options);
      SystemConfig system_config;
      caf::actor_system system(system_config);
      Transport transport(system, access.credentials);
      if (reach_master(transport, access, options, wire::Role::WORKER).run != run)
        fail(ErrorCode::kLost, "{} is now that of another job", access.master);
      transport.stop();
    }
    spdlog::info("joining again, as a new worker");
    say_last_words();
    inherit_only_standard_streams();
    become("embers-compute", command_line());
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace embers
