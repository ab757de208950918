#include "apps/control/control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <clocale>

#include "apps/control/status_json.h"
#include "apps/control/status_text.h"
#include "apps/process/joining.h"

namespace embers {
namespace {

constexpr std::chrono::seconds kAnswer(10);  // of a master that is there

void print_json(const Status& status) { fmt::print("{}\n", json_text(status)); }

// What became of it, for people or as JSON. The master knows already: a job that has ended since is no error.
template <class Text>
void print(const SteerOptions& options, client::Admin& admin, Status before, Text text) {
  try {
    before = admin.status();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kEnded || e.code() == ErrorCode::kUnreachable) before.phase = "over";
    if (e.code() == ErrorCode::kJobFailed) before.phase = "failed";
  }
  if (options.json)
    print_json(before);
  else
    fmt::print("{}\n", text(before));
}

std::string are_wanted(const Status::Group& workers) {
  return fmt::format("{} {} wanted, {} {} there", workers.wanted,
                     workers.wanted == 1 ? "worker is" : "workers are", workers.joined,
                     workers.joined == 1 ? "is" : "are");
}

}  // namespace

client::AdminOptions admin_options(const JoinOptions& options) {
  check_location(options);
  client::AdminOptions admin;
  admin.master = options.master;
  admin.job_dir = options.access.job_dir;
  admin.secret_file = options.access.secret_file;
  admin.insecure = options.access.insecure;
  admin.connect_timeout = std::chrono::duration<double>(options.connect_timeout);
  admin.timeout = kAnswer;
  return admin;
}

int show_status(const StatusOptions& options) {
  std::setlocale(LC_CTYPE, "");  // what can be shown
  client::Admin admin(admin_options(options.steer.join));
  const Status status = admin.status();
  if (options.steer.json)
    print_json(status);
  else
    fmt::print("{}", to_text(status));
  return 0;
}

int scale(const ScaleOptions& options) {
  client::Admin admin(admin_options(options.steer.join));
  const Status before = admin.status();
  admin.scale(options.workers);
  print(options.steer, admin, before, [](const Status& status) { return are_wanted(status.workers); });
  return 0;
}

int drain(const DrainOptions& options) {
  client::Admin admin(admin_options(options.steer.join));
  const Status before = admin.status();
  admin.drain(options.members);
  print(options.steer, admin, before, [&](const Status& status) {
    return fmt::format("draining {}: {}", fmt::join(options.members, ", "), are_wanted(status.workers));
  });
  return 0;
}

// A job that has ended before it was told to is what was wanted, too.
int stop(const StopOptions& options) {
  client::Admin admin(admin_options(options.steer.join));
  const Status before = admin.status();
  const char* how = options.save ? "finishes what is under way, saves and ends" : "ends without saving";
  try {
    admin.stop(options.save);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kEnded) throw;
    how = "has ended";
  }
  print(options.steer, admin, before,
        [&](const Status&) { return fmt::format("the job '{}' {}", job_file(before), how); });
  return 0;
}

int checkpoint(const CheckpointOptions& options) {
  client::Admin admin(admin_options(options.steer.join));
  const Status before = admin.status();
  admin.checkpoint(options.out);
  print(options.steer, admin, before, [&](const Status&) {
    return fmt::format("the job '{}' is saved to {}, and goes on", job_file(before), options.out);
  });
  return 0;
}

}  // namespace embers
