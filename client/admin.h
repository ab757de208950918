#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "client/joining/options.h"
#include "schema/status.h"

// Steers a running job from another process. Installed as part of embers::client, without libtorch.
//
//   embers::client::Admin admin({{.job_dir = "/shared/job"}});
//   if (admin.status().workers.joined < 4) admin.scale(4);
namespace embers::client {

// What of Options it means here: `connect_timeout` is for one attempt to reach the master, `timeout` for each
// answer. No job file, model or data is read.
struct AdminOptions : Options {
  // Tries for all of connect_timeout when no master listens yet. Otherwise that is an error at once.
  bool wait_for_master = false;
};

// A connection to the master of a job, over which it is asked how the job stands and told what to do. It is
// made by the first call, and again by a call that finds it broken.
//
// Every call waits, for `timeout` at most after the connection is there, and throws an Error: kUnreachable
// when no master is there, kDenied when one side does not know the other's secret, kTimeout when the master
// does not answer, kInvalid for what cannot be done, kEnded when the job has ended meanwhile (kJobFailed:
// with an error).
//
// *Thread safety*: all members from any thread.
class Admin {
 public:
  explicit Admin(const AdminOptions& options);
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  Status status();
  // So many workers are wanted from now on, at least 1. Surplus ones are drained, the youngest first; whoever
  // starts processes (embers launch) starts missing ones. Returns when the master knows.
  void scale(uint32_t workers);
  // These workers finish what they hold and leave, and so many fewer are wanted: all of them or, when one
  // cannot be, none. By name ("worker 3", "worker-3" or "3") or by label.
  void drain(const std::vector<std::string>& members);
  // The job finishes what is under way, saves what it was to save at its end unless `save` is false, and
  // ends. Returns when the master knows. `why` is for people: what the job's log and report say.
  void stop(bool save, const std::string& why = "");
  // The job saves itself in the middle of its work, to a directory of the master's host (relative to where
  // this program runs), and goes on: a job with `resume` begins there. What workers have begun is finished
  // first; what is only leased ahead is not waited for. Returns when it is saved, however long that takes.
  // kInvalid for a directory that cannot be written, before the job has begun, and while another checkpoint
  // is saved; kDisk when the disk is full. `waits`, if not null, is called about once a second while the job
  // is not there yet, and once at the begin: whoever holds minibatches that it will not push meanwhile gives
  // them back.
  void checkpoint(const std::string& directory, const std::function<void()>& waits = nullptr);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace embers::client
