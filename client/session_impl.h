#pragma once

#include <algorithm>
#include <atomic>

#include "client/joining/reach_master.h"
#include "client/leased_work.h"
#include "client/owner/replica_owner.h"
#include "client/session.h"
#include "client/session_system.h"

namespace embers::client {
namespace detail {

// What is left until then, for a request.
inline caf::duration until(std::chrono::steady_clock::time_point deadline) {
  const std::chrono::steady_clock::duration left = deadline - std::chrono::steady_clock::now();
  return caf::duration(
      std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(1)));
}

}  // namespace detail

// What a session is made of: its life in session_impl.cc, calls for rows in session_rows.cc.
//
// *Thread safety*: all members from any thread, once it has joined.
struct Session::Impl {
  using Clock = std::chrono::steady_clock;

  Impl(const Options& options, ModelSpec model);
  ~Impl() { close(); }

  // A worker says more than where the job is.
  void join(wire::Role role, const WorkerOptions* worker);
  // Waits for the end of the job if this process is an owner. Also leaves the session without threads and
  // connections, as soon as no call is in the middle of using them. A second call waits for the first one.
  void close() noexcept;
  void stop_job() noexcept;

  std::optional<Draw> draw(std::optional<Clock::time_point> deadline);

  Versions lookup(std::string_view name, std::span<const int64_t> keys, std::span<float> rows);
  Versions lookup(std::string_view name, std::span<const std::string_view> keys, std::span<float> rows);
  std::optional<Versions> lookup_for(std::chrono::duration<double> time, std::string_view name, KeysView keys,
                                     std::span<float> rows);
  std::vector<std::vector<float>> parameters();
  void scan(std::string_view name, const Visitor& visit);
  void import_rows(const TableKeys& given, std::span<const float> rows);

  const Options options;
  const std::shared_ptr<detail::Core> core;
  const JobAccess access;
  // Constant once it has joined.
  std::string job;
  uint64_t run = 0;
  std::vector<Table> tables;

 private:
  std::shared_ptr<SessionConfig> make_config(MasterLink master, const WorkerOptions* worker,
                                             Transport& transport);
  void make_owner(caf::actor_system& system, const OwnerPlace& place, SessionConfig& config);
  std::shared_ptr<const Owners> wait_for_owners(Clock::time_point deadline);
  std::shared_ptr<ReplicaOwner> owner() const;
  void end_owner();
  void only_reads(embers::Work& work, const Owners& owners) const;
  // Checks what is asked for, then looks it up part by part. part(i, n) is a list of keys [i, i + n), and
  // bytes(i) what key i takes in a message.
  template <class Bytes, class Part>
  Versions look_up(std::string_view name, KeyKind kind, size_t keys, std::span<float> rows,
                   const Bytes& bytes, const Part& part);
  // ask(owners), again where owners are by then if one has moved, as long as there is time.
  template <class Ask>
  auto ask_owners(const std::string& table, Clock::time_point deadline, const Ask& ask);
  Versions read(caf::actor_system& system, const std::string& table, const std::vector<TableKeyList>& lists,
                const std::vector<std::span<float>>& places, Clock::time_point deadline);
  // The master may know more about an owner that is gone.
  [[noreturn]] void throw_failed(const std::string& table, const Error& why);

  std::atomic<uint64_t> imports_ = 0;
  bool has_begun_ = false;  // the job, with this session; constant once it has joined
  mutable Mutex owner_mutex_;
  std::shared_ptr<ReplicaOwner> owner_ ABSL_GUARDED_BY(owner_mutex_);  // if this process is an owner
  Mutex closing_;
  bool closed_ ABSL_GUARDED_BY(closing_) = false;
};

}  // namespace embers::client
