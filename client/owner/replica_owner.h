#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "client/owner/joined_owner.h"
#include "client/pipeline/session_actor.h"

namespace embers {

// The owner of a replica: a process that is a worker and an owner. Others reach it as any other owner; the
// session of its process does without a socket.
//
//   made ──start──► joins ──► serves until the job has ended ──leave──► over
//
// *Thread safety*: all members from any thread, leave() and the destructor from one.
class ReplicaOwner {
 public:
  // Reaches the master and listens. `system` has the session's actors, too; `access` must outlive it.
  // `refused` is called, in a thread of the owner's, with why it could not join.
  ReplicaOwner(caf::actor_system& system, const OwnerOptions& options, const JobAccess& access,
               std::function<void(const Error&)> refused);
  ~ReplicaOwner();  // leave()
  ReplicaOwner(const ReplicaOwner&) = delete;
  ReplicaOwner& operator=(const ReplicaOwner&) = delete;

  // Has a session of this process use the owner's actors where the master names it. Before the session is
  // spawned.
  void connect_directly(SessionConfig& session) const;
  // Begins to join.
  void start();

  // Asks the master to save and end the job, as somebody does whose process is to end.
  void ask_to_stop();
  // Its process has no part in the job after all: tells the master why, if it has joined.
  void withdraw(const std::string& why);

  // Waits until it serves; throws why it was refused. False when neither is known by then.
  bool serves_by(std::chrono::steady_clock::time_point deadline);
  // Whether the job has ended for it, or it was refused, by then.
  bool has_ended_by(std::chrono::steady_clock::time_point deadline);
  // Waits for that; how it ended.
  std::optional<Error> wait_for_end();
  // Ends its connections and its actors.
  void leave();

 private:
  struct Shared;
  void join();
  void refuse(const Error& why);

  const std::shared_ptr<Shared> shared_;  // with its actors, which may outlive it by a moment
  const std::function<void(const Error&)> refused_;
  JoinedOwner owner_;
  std::thread joining_;
  bool over_ = false;
};

}  // namespace embers
