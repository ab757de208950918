#include "bench/control/crowd.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/host.h"
#include "base/random_number.h"
#include "base/stage_times.h"
#include "bench/harness/bench.h"

namespace embers {
namespace {

constexpr int kEvents = 256;     // that one look at the sockets takes
constexpr int kMoments = 64;     // that are due, before the sockets are looked at again
constexpr double kAgain = 0.05;  // seconds until a member tries again to connect
constexpr int kLookMs = 5;       // until `over` is asked again
constexpr uint64_t kMostGenerations = 1 << 20;

double ms(CrowdLoop::Time begin, CrowdLoop::Time end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// A number in [0, 1) that spreads members evenly over a period.
double phase(uint32_t number) { return static_cast<double>(number * 2654435761u) / 4294967296.0; }

}  // namespace

// --- the loop ------------------------------------------------------------------------------------

CrowdLoop::CrowdLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

CrowdLoop::~CrowdLoop() { ::close(epoll_); }

void CrowdLoop::watch(int fd, Client& client, uint32_t events, bool is_new) {
  epoll_event e{};
  e.events = events;
  e.data.ptr = &client;
  if (::epoll_ctl(epoll_, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e) != 0)
    fail(ErrorCode::kInternal, "cannot watch a socket: {}", std::strerror(errno));
}

bool CrowdLoop::run(std::chrono::duration<double> time, const std::function<bool()>& over) {
  const Time end = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  std::array<epoll_event, kEvents> events;
  for (now_ = Clock::now(); now_ < end; now_ = Clock::now()) {
    if (over()) return true;
    int wait = kLookMs;
    if (!due_.empty()) wait = std::clamp(static_cast<int>(ms(now_, due_.top().at) + 0.5), 0, kLookMs);
    const int n = ::epoll_wait(epoll_, events.data(), kEvents, wait);
    for (int i = 0; i < n; ++i) {
      now_ = Clock::now();
      static_cast<Client*>(events[i].data.ptr)->ready(events[i].events);
    }
    now_ = Clock::now();
    for (int i = 0; i < kMoments && !due_.empty() && due_.top().at <= now_; ++i, now_ = Clock::now()) {
      const Due due = due_.top();
      due_.pop();
      due.client->due(due.what);
    }
  }
  return over();
}

// --- a member ------------------------------------------------------------------------------------

class Crowd::Member final : public CrowdLoop::Client {
 public:
  Member(Crowd& crowd, wire::Role role, uint32_t number, std::string address)
      : crowd_(crowd), role_(role), number_(number), address_(std::move(address)), token_(random_number()) {
    began_ = crowd.loop_.now();
    connect();
  }

  bool worker() const { return role_ == wire::Role::WORKER; }
  // The crowd leases in another way from now on.
  void lease_anew() {
    if (!worker() || incarnation_ == 0 || leaving_) return;
    ++lease_epoch_;
    if (crowd_.period_ == kNever) return;
    if (crowd_.period_ == kAlways) return ask_for_work();
    next_lease_ = now() + seconds(crowd_.period_ * phase(number_));
    at(next_lease_, kLease, lease_epoch_);
  }

  void ready(uint32_t events) override {
    guarded([&] {
      if (events & EPOLLOUT) socket_.writable();
      if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        socket_.readable([this](const FrameSocket::Frame& frame) { take(frame); });
      if (socket_.welcomed() && !joining_) join();
      watch();
    });
  }

  void due(uint64_t what) override {
    guarded([&] {
      switch (static_cast<What>(what & 7)) {
        case kConnect:
          return connect();
        case kBeat:
          if (is_now(what >> 3, connection_)) beat();
          break;
        case kPing:
          if (is_now(what >> 3, connection_)) ping();
          break;
        case kLease:
          if (is_now(what >> 3, lease_epoch_)) ask_for_work();
          break;
      }
      watch();
    });
  }

 private:
  enum What : uint8_t { kConnect, kBeat, kPing, kLease };

  CrowdLoop::Time now() const { return crowd_.loop_.now(); }
  static CrowdLoop::Clock::duration seconds(double s) {
    return std::chrono::duration_cast<CrowdLoop::Clock::duration>(std::chrono::duration<double>(s));
  }
  void at(CrowdLoop::Time when, What what, uint64_t epoch) {
    crowd_.loop_.at(when, *this, epoch % kMostGenerations << 3 | what);
  }
  static bool is_now(uint64_t epoch, uint64_t current) { return epoch == current % kMostGenerations; }

  template <class Body>
  void guarded(Body&& body) {
    try {
      body();
    } catch (const Error& e) {
      broke(e);
    }
  }

  // Nobody minds an attempt that fails, as when too many come at once; the master's log counts them.
  void broke(const Error& why) {
    socket_.close();
    ++connection_;
    joining_ = beating_ = false;
    if (leaving_ || crowd_.ending_) return;
    if (incarnation_ == 0 && remedy(why.code()) == Remedy::kRetry)
      return at(now() + seconds(kAgain), kConnect, 0);
    if (crowd_.failure_.empty())
      crowd_.failure_ = fmt::format("simulated {} {}: {}", name(role_), number_, why.what());
  }

  void connect() {
    ++crowd_.attempts_;
    socket_.connect(crowd_.job_->master, role_, crowd_.job_->secret);
    events_ = EPOLLIN | EPOLLOUT;
    crowd_.loop_.watch(socket_.fd(), *this, events_, true);
  }

  void watch() {
    if (socket_.fd() < 0) return;
    const uint32_t wanted = EPOLLIN | (socket_.has_unsent() ? static_cast<uint32_t>(EPOLLOUT) : 0u);
    if (!socket_.said_hello() || wanted == events_) return;
    crowd_.loop_.watch(socket_.fd(), *this, events_ = wanted, false);
  }

  template <class T, class Fill>
  void ask(Fill&& fill) {
    socket_.send(make_message<T>(fill), ++correlation_);
  }

  void join() {
    joining_ = true;
    next_beat_ = next_ping_ = now();
    beat();
    ping();
    const ControlJob& job = *crowd_.job_;
    ask<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
      b.setRole(role_);
      b.setHost(host_name());
      b.setPid(static_cast<uint64_t>(::getpid()) << 32 | number_);  // as if each had a process
      b.setBootId(boot_id());
      b.setToken(token_);
      if (!worker()) return write_texts(b.initEndpoints(1), {&address_, 1});
      write_texts(b.initModel(job.model.size()), job.model);
      write_texts(b.initNumeric(job.numeric.size()), job.numeric);
      write_texts(b.initSettings(job.settings.size()), job.settings);
    });
  }

  void beat() {
    next_beat_ = std::max(next_beat_ + seconds(beat_), now());
    at(next_beat_, kBeat, connection_);
    if (std::exchange(beating_, true)) return;  // the master has not answered the one before
    beat_at_ = now();
    ask<wire::HeartbeatRequest>([&](wire::HeartbeatRequest::Builder b) { b.setIncarnation(incarnation_); });
  }

  void ping() {
    next_ping_ = std::max(next_ping_ + seconds(socket_.silence() / 4), now());
    at(next_ping_, kPing, connection_);
    // As a Connection does: every other one is saved where something else was sent.
    const bool asked = std::exchange(asked_before_, correlation_) != correlation_;
    skipped_ping_ = asked && !skipped_ping_;
    if (skipped_ping_) return;
    socket_.send(make_message<wire::Ping>([&](wire::Ping::Builder b) { b.setReceived(socket_.received()); }),
                 0);
  }

  void wait_for_order() {
    ask<wire::OrderRequest>([&](wire::OrderRequest::Builder b) {
      b.setIncarnation(incarnation_);
      b.setReceived(last_order_);
      b.setCarriedOut(last_order_);
    });
  }

  void ask_for_work() {
    if (leasing_ || leaving_) return;
    leasing_ = true;
    ++crowd_.working_;
    lease_at_ = now();
    ask<wire::LeaseRequest>([&](wire::LeaseRequest::Builder b) {
      b.setIncarnation(incarnation_);
      b.setReceived(last_lease_);
    });
  }

  void work_on(wire::LeaseReply::Reader lease) {
    if (lease.getKind() == wire::LeaseReply::Kind::END) return leave();
    last_lease_ = lease.getLease();
    crowd_.counts_.lease_waits.add(ms(lease_at_, now()));
    undone_ = lease.getMinibatches().size();
    for (const auto part : lease.getMinibatches()) {
      ++*crowd_.job_->minibatches;
      ask<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
        b.setIncarnation(incarnation_);
        b.setLease(last_lease_);
        b.setMinibatch(part.getMinibatch());
        b.setAttempt(part.getAttempt());
        b.setExamples(1);
        b.setLossSum(0.5);
        b.setScores(as_data(crowd_.scores_));
        b.setLabels(as_data(crowd_.scores_));
        b.initStageSeconds(StageTimes::kStages);
        b.setKeys(1);
        b.setOwnerRows(1);
      });
    }
  }

  void done(wire::DoneReply::Reader reply) {
    if (!reply.getAccepted()) fail(ErrorCode::kInternal, "a minibatch was not accepted");
    if (--undone_ > 0) return;
    ++crowd_.counts_.leases;
    leasing_ = false;
    --crowd_.working_;
    if (crowd_.period_ == kAlways) return ask_for_work();
    if (crowd_.period_ == kNever) return;
    // Who is behind does not catch up: as many come late as the master lets wait.
    next_lease_ = std::max(next_lease_ + seconds(crowd_.period_), now());
    at(next_lease_, kLease, lease_epoch_);
  }

  void leave() {
    leaving_ = true;
    --crowd_.joined_;
    if (std::exchange(leasing_, false)) --crowd_.working_;
    ask<wire::LeaveRequest>([&](wire::LeaveRequest::Builder b) { b.setIncarnation(incarnation_); });
  }

  void take(const FrameSocket::Frame& frame) {
    if (frame.kind() == Kind::kPing) return;
    if (frame.header->flags & FrameHeader::kError) {
      const Error why = read_error(frame);
      if (!leaving_ && why.code() != ErrorCode::kEnded) throw why;
      leaving_ = true;
      return;
    }
    switch (frame.kind()) {
      case Kind::kJoinReply:
        read_root<wire::JoinReply>(frame, [&](auto reply) { incarnation_ = reply.getIncarnation(); });
        ++crowd_.joined_;
        crowd_.counts_.joins.add(ms(began_, now()));
        wait_for_order();
        lease_anew();
        break;
      case Kind::kHeartbeatReply:
        beating_ = false;
        crowd_.counts_.beats.add(ms(beat_at_, now()));
        read_root<wire::HeartbeatReply>(frame, [&](auto reply) { beat_ = reply.getInterval(); });
        break;
      case Kind::kOrderReply:
        read_root<wire::OrderReply>(
            frame, [&](auto reply) { last_order_ = std::max<uint64_t>(last_order_, reply.getNumber()); });
        wait_for_order();
        break;
      case Kind::kLeaseReply:
        read_root<wire::LeaseReply>(frame, [&](auto reply) { work_on(reply); });
        break;
      case Kind::kDoneReply:
        read_root<wire::DoneReply>(frame, [&](auto reply) { done(reply); });
        break;
      case Kind::kEmpty:  // it has left
        socket_.close();
        ++connection_;
        break;
      default:
        fail(ErrorCode::kBadFrame, "nobody asked for a message of kind {}", frame.header->kind);
    }
  }

  Crowd& crowd_;
  const wire::Role role_;
  const uint32_t number_;
  const std::string address_;  // of an owner
  const uint64_t token_;
  FrameSocket socket_;
  uint32_t events_ = 0;       // that the loop waits for
  uint64_t connection_ = 0;   // counts them: what was due for an earlier one is not
  uint64_t lease_epoch_ = 0;  // counts the ways in which the crowd leases
  uint64_t incarnation_ = 0, correlation_ = 0, last_lease_ = 0, last_order_ = 0;
  uint64_t asked_before_ = 0;  // correlation_ at the last ping, or the one that was saved
  size_t undone_ = 0;          // of its lease
  bool skipped_ping_ = false;
  bool joining_ = false, beating_ = false, leasing_ = false, leaving_ = false;
  double beat_ = 1;  // seconds
  // The next ones are counted from the last ones' own moments, not from when this thread came to them:
  // members on thousands of hosts do not fall into step because one of them was late.
  CrowdLoop::Time next_beat_, next_ping_, next_lease_;
  CrowdLoop::Time began_, beat_at_, lease_at_;
};

// --- the crowd -----------------------------------------------------------------------------------

Crowd::Crowd(CrowdLoop& loop, std::shared_ptr<const ControlJob> job) : loop_(loop), job_(std::move(job)) {}

Crowd::~Crowd() = default;

void Crowd::add_owners(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses)
    members_.push_back(
        std::make_unique<Member>(*this, wire::Role::OWNER, static_cast<uint32_t>(members_.size()), address));
}

void Crowd::add_workers(size_t count) {
  for (size_t i = 0; i < count; ++i)
    members_.push_back(
        std::make_unique<Member>(*this, wire::Role::WORKER, static_cast<uint32_t>(members_.size()), ""));
}

void Crowd::lease_at(double rate) {
  size_t workers = 0;
  for (const auto& member : members_) workers += member->worker();
  lease(static_cast<double>(workers) / rate);
}

void Crowd::lease(double period) {
  period_ = period;
  for (const auto& member : members_) member->lease_anew();
}

void Crowd::check() const {
  if (!failure_.empty()) fail(ErrorCode::kInternal, "{}", failure_);
}

}  // namespace embers
