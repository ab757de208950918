#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "bench/control/frame_socket.h"
#include "bench/control/job.h"
#include "bench/harness/latencies.h"

namespace embers {

// Waits for the sockets and the moments of all crowds, in the thread that calls run().
class CrowdLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  // What has a socket and waits for moments.
  class Client {
   public:
    virtual ~Client() = default;
    virtual void ready(uint32_t events) = 0;
    virtual void due(uint64_t what) = 0;
  };

  CrowdLoop();
  ~CrowdLoop();
  CrowdLoop(const CrowdLoop&) = delete;
  CrowdLoop& operator=(const CrowdLoop&) = delete;

  // Until `over`, which is asked now and then, or for so long. Returns whether it was over.
  bool run(std::chrono::duration<double> time, const std::function<bool()>& over);
  void run(std::chrono::duration<double> time) {
    run(time, [] { return false; });
  }
  Time now() const { return now_; }  // of what is being handled

  void watch(int fd, Client& client, uint32_t events, bool is_new);
  void at(Time when, Client& client, uint64_t what) { due_.push({when, &client, what}); }

 private:
  struct Due {
    Time at;
    Client* client;
    uint64_t what;
    bool operator>(const Due& other) const { return at > other.at; }
  };

  int epoll_ = -1;
  Time now_ = Clock::now();
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

// Simulated members of one job, as its master sees real ones: each has a connection of its own, shakes hands,
// joins, beats as often as it is told, always has an order request at the master, and, if it is a worker,
// leases work and says that it is done. It computes nothing. The loop must end before its crowds.
class Crowd {
 public:
  // What was asked of the master and answered, since the counts were taken last.
  struct Counts {
    uint64_t leases = 0;                  // with work that is done, and was accepted as such
    Latencies beats, lease_waits, joins;  // ms; of a join, from the first attempt to connect
  };

  Crowd(CrowdLoop& loop, std::shared_ptr<const ControlJob> job);
  ~Crowd();

  // Connects and joins: an owner for each of these addresses, or so many workers.
  void add_owners(const std::vector<std::string>& addresses);
  void add_workers(size_t count);
  // From now on: every worker asks for work as soon as it is done; all together do so many leases a second,
  // each at moments of its own; nobody asks for any.
  void lease_always() { lease(kAlways); }
  void lease_at(double rate);
  void rest() { lease(kNever); }
  // Scores and labels that come with each minibatch that is done.
  void set_scores(size_t scores) { scores_.assign(scores, 0.5f); }

  size_t joined() const { return joined_; }      // and have not left
  size_t working() const { return working_; }    // have asked for work, or have some
  size_t attempts() const { return attempts_; }  // to connect
  Counts take_counts() { return std::exchange(counts_, {}); }
  // From now on the job may end.
  void expect_end() { ending_ = true; }
  // Throws what went wrong, if anything did: nobody may be refused, or be lost once it has joined.
  void check() const;

 private:
  class Member;
  static constexpr double kAlways = 0, kNever = -1;
  void lease(double period);

  CrowdLoop& loop_;
  const std::shared_ptr<const ControlJob> job_;
  std::vector<std::unique_ptr<Member>> members_;
  size_t joined_ = 0, working_ = 0, attempts_ = 0;
  double period_ = kNever;  // seconds from one of a worker's leases to its next
  std::vector<float> scores_;
  bool ending_ = false;
  std::string failure_;  // the first one
  Counts counts_;
};

}  // namespace embers
