#include "client/admin.h"

#include <filesystem>
#include <optional>

#include "actors/errors.h"
#include "actors/message_types.h"
#include "actors/system_config.h"
#include "actors/system_end.h"
#include "actors/transport/transport.h"
#include "base/mutex.h"
#include "base/random_number.h"
#include "client/joining/reach_master.h"
#include "schema/messages/codec.h"

namespace embers::client {
namespace {

constexpr std::chrono::seconds kFarewell(1);  // a master that has ended needs less to hang up

bool is_farewell(const Error& e) {
  return e.code() == ErrorCode::kEnded || e.code() == ErrorCode::kJobFailed;
}

Status::Group read(wire::StatusReply::Group::Reader r) { return {r.getWanted(), r.getJoined(), r.getLost()}; }

Status::Member read(wire::StatusReply::Member::Reader r) {
  Status::Member m;
  m.name = r.getName();
  m.role = r.getRole();
  m.number = r.getNumber();
  m.label = r.getLabel();
  m.host = r.getHost();
  m.pid = r.getPid();
  m.state = r.getState();
  m.last_sign_s = r.getLastSign();
  m.joined_s = r.getJoined();
  m.minibatches = r.getMinibatches();
  m.examples = r.getExamples();
  m.rows = r.getRows();
  m.bytes = r.getBytes();
  m.pulls_per_s = r.getPullsPerSecond();
  m.pushes_per_s = r.getPushesPerSecond();
  m.lag = r.getLag();
  return m;
}

Status read(wire::StatusReply::Reader r) {
  Status s;
  s.job = r.getJob();
  s.id = r.getRun();
  s.task = r.getTask();
  s.mode = r.getMode();
  s.phase = r.getPhase();
  s.error = r.getError();
  s.stopping = r.getStopping();
  s.elapsed_s = r.getElapsed();
  s.remaining_s = r.getRemaining();
  s.epoch = r.getEpoch();
  s.epochs = r.getEpochs();
  s.version = r.getVersion();
  s.minibatches_done = r.getMinibatchesDone();
  s.minibatches = r.getMinibatches();
  s.examples = r.getExamples();
  s.examples_per_s = r.getExamplesPerSecond();
  s.loss = r.getLoss();
  s.auc = r.getAuc();
  if (r.hasEvaluation()) {
    const auto e = r.getEvaluation();
    s.evaluation = Status::Evaluation{e.getLoss(), e.getAuc(), e.getAccuracy()};
  }
  s.staleness_mean = r.getStalenessMean();
  s.staleness_max = r.getStalenessMax();
  s.workers = read(r.getWorkers());
  s.shards = read(r.getShards());
  for (const auto member : r.getMembers()) s.members.push_back(read(member));
  return s;
}

}  // namespace

struct Admin::Impl {
  explicit Impl(const AdminOptions& o)
      : options(o), location(location_of(o, "AdminOptions")), system(config) {
    // Without an address, that of the job directory is waited for only if that is wanted.
    if (!o.wait_for_master) location.connect_timeout = {};
    access = find_job(location);
    transport.emplace(system, access.credentials);
  }
  ~Impl() { transport->stop(); }

  // A new connection. Whatever is asked of a master may be asked twice.
  MasterActor reach() {
    const MutexLock lock(mutex);
    const auto link = Link::open(*transport, access.address, access.find_master, {0, 0, wire::Role::ADMIN},
                                 options.connect_timeout);
    link->keep();
    if (!options.wait_for_master) link->expect_listener();
    return *(master = link->proxy<MasterInterface>(Destination::kMaster));
  }

  template <class T>
  Message<typename KindOf<T>::Reply> ask_once(const MasterActor& whom, const Message<T>& question) {
    using Answer = Message<typename KindOf<T>::Reply>;
    caf::scoped_actor self{system};
    const auto patience =
        std::chrono::ceil<std::chrono::milliseconds>(options.connect_timeout + options.timeout);
    Answer answer;
    std::optional<caf::error> error;  // the empty one is an error, too
    self->request(whom, patience, question)
        .receive([&](const Answer& m) { answer = m; }, [&](caf::error& e) { error = std::move(e); });
    if (!error) return answer;
    if (*error == caf::sec::request_receiver_down)
      fail(ErrorCode::kUnavailable, "nobody listens at its address");
    if (*error == caf::sec::request_timeout)
      fail(ErrorCode::kTimeout,
           "{} does not answer within {:g} s: it may still be reading its data; if not, check that its "
           "process is not stopped",
           access.master, options.timeout.count());
    throw Error(from_caf(*error));
  }

  // A master that has ended says how when it hangs up, which may be after it could no longer be asked.
  void hear_farewell(const MasterActor& whom) {
    caf::scoped_actor self{system};
    self->monitor(whom);
    std::optional<Error> why;
    self->receive([&](const caf::down_msg& down) { why = from_caf(down.reason); },
                  caf::after(kFarewell) >> [] {});
    if (why && is_farewell(*why)) throw Error(*why);
  }

  template <class T>
  Message<typename KindOf<T>::Reply> ask(const Message<T>& question) {
    const SystemVisit visit;
    // A connection that was made before may have ended long ago.
    if (const auto known = connected()) {
      try {
        try {
          return ask_once(*known, question);
        } catch (const Error& e) {
          if (e.code() != ErrorCode::kUnavailable && e.code() != ErrorCode::kUnreachable) throw;
        }
        hear_farewell(*known);
      } catch (const Error& e) {
        if (is_farewell(e)) forget();  // it is said once
        throw;
      }
    }
    try {
      return ask_once(reach(), question);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnavailable) throw;
      fail(ErrorCode::kUnreachable, "{} is not there: {}. Has the job ended?", access.master, e.what());
    }
  }

  std::optional<MasterActor> connected() {
    const MutexLock lock(mutex);
    return master;
  }
  void forget() {
    const MutexLock lock(mutex);
    master.reset();
  }

  const AdminOptions options;
  JobLocation location;
  JobAccess access;
  SystemConfig config;
  caf::actor_system system;
  std::optional<Transport> transport;
  Mutex mutex;
  std::optional<MasterActor> master ABSL_GUARDED_BY(mutex);
};

Admin::Admin(const AdminOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Admin::~Admin() = default;

Status Admin::status() {
  const auto reply = impl_->ask(make_message<wire::StatusRequest>());
  return decoding(Kind::kStatusReply, [&] { return read(reply.get()); });
}

void Admin::scale(uint32_t workers) {
  impl_->ask(make_message<wire::ScaleRequest>([&](wire::ScaleRequest::Builder b) { b.setWorkers(workers); }));
}

void Admin::drain(const std::vector<std::string>& members) {
  impl_->ask(make_message<wire::DrainRequest>(
      [&](wire::DrainRequest::Builder b) { write_texts(b.initMembers(members.size()), members); }));
}

void Admin::stop(bool save, const std::string& why) {
  impl_->ask(make_message<wire::StopRequest>([&](wire::StopRequest::Builder b) {
    b.setSave(save);
    b.setWhy(why);
  }));
}

void Admin::checkpoint(const std::string& directory, const std::function<void()>& waits) {
  const std::string path = directory.empty() ? "" : std::filesystem::absolute(directory).lexically_normal();
  const auto question = make_message<wire::CheckpointRequest>([&](wire::CheckpointRequest::Builder b) {
    b.setId(random_number());
    b.setDirectory(path);
  });
  while (!impl_->ask(question).get().getSaved())
    if (waits) waits();
}

}  // namespace embers::client
