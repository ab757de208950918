// embers launch: a loop in one thread. It looks at what its members did and said, and at what the master
// wants, and does what the policy says.
#include "apps/launch/launch.h"

#include <fmt/format.h>
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "actors/transport/addresses/job_dir.h"
#include "apps/launch/job_watch.h"
#include "apps/launch/members/launch_dir.h"
#include "apps/launch/members/log_follower.h"
#include "apps/launch/members/orders.h"
#include "apps/launch/policy.h"
#include "apps/launch/slurm/submit.h"
#include "apps/launch/starters.h"
#include "apps/process/progress_display.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "base/log/standard_error.h"
#include "base/standard_streams.h"

namespace embers::launch {
namespace {

using std::chrono::steady_clock;

constexpr auto kTick = std::chrono::milliseconds(50);
// How long members may take to end after a master that ended well: those that were in the job, as programs of
// users may have something to do, and those that were still looking for it. Also after one that did not.
constexpr Seconds kFarewell = 30, kShortFarewell = 3;
constexpr size_t kLastLines = 10;

Seconds now() { return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count(); }

// Whether a line of the master says how far the job is. On a terminal, a line that is redrawn says so.
bool is_progress(const std::string& line) {
  const size_t text = line.find(' ');  // after the time of day
  return text != std::string::npos && line.find(" examples  ", text) != std::string::npos &&
         (line.compare(text, 7, " epoch ") == 0 || line.compare(text, 12, " evaluating ") == 0);
}

void show(const std::string& who, const std::string& line) {
  if (who == "master" && standard_error().is_terminal() && is_progress(line)) return;
  standard_error().line(fmt::format("{:6} | {}", who, line));
}
void say(const std::string& line) { show("launch", std::string(at_present(line))); }

// The address that a program is told: one that other hosts reach, if there is one.
std::string address_in(const std::string& job_dir) {
  const auto endpoints = find_address(job_dir);
  if (!endpoints) return "";
  const auto tcp =
      std::find_if(endpoints->begin(), endpoints->end(), [](const Endpoint& e) { return !e.unix_socket; });
  return (tcp == endpoints->end() ? endpoints->front() : *tcp).text();
}

// How the launcher talks with the master.
client::AdminOptions watching(const Plan& plan) {
  const AccessOptions& access = plan.options.master.access;
  client::AdminOptions options;
  options.job_dir = plan.job_dir;
  options.secret_file = access.secret_file;
  options.insecure = access.insecure;
  options.timeout = std::chrono::seconds(5);
  return options;
}

class Launcher {
 public:
  Launcher(const Plan& plan, std::unique_ptr<Starter> starter)
      : plan_(plan),
        policy_({.shards = plan.shards,
                 .workers = plan.workers,
                 .owners = plan.options.owner ? plan.job_shards : 0,
                 .shards_return = plan.shards_return,
                 .max_restarts = plan.options.max_restarts}),
        follower_(show),
        starter_(std::move(starter)) {}
  ~Launcher() {
    starter_.reset();  // no member outlives it; and the watch need not wait for a master
  }

  // The exit status.
  int run() {
    watch_signals();
    tick();
    io_.run();
    return status_;
  }

 private:
  // --- signals ---------------------------------------------------------------------------------

  void watch_signals() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      ::sigaction(number, nullptr, &action);
      if (action.sa_handler == SIG_IGN) continue;  // nohup
      signals_.add(number);
      restart_calls_after(number);
    }
    next_signal();
  }
  void next_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      const bool again = std::exchange(signalled_, true);
      if (again && number == SIGHUP) return next_signal();  // the end of a terminal gives two
      if (again) return end(128 + number);
      if (master_status_) return end(exit_status());
      stopped_by_ = number;
      const char* const name = number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGHUP";
      say(watch_ ? fmt::format("{}: the master saves and ends the job; a second one ends everything at once",
                               name)
                 : fmt::format("{}: the job, which has not begun, ends", name));
      stop(name);
      next_signal();
    });
  }
  // Not by a signal, if the master listens: whoever has sent one to this process may have sent it to the
  // master as well (systemd does), and the master's second signal ends it without saving.
  void stop(const std::string& why) {
    if (std::exchange(stopping_, true)) return;
    policy_.on_stop();
    if (watch_)
      watch_->stop(why);
    else
      starter_->ask_to_end({Kind::kMaster});
  }
  void end(int status) {
    status_ = status;
    io_.stop();
  }

  // --- the loop --------------------------------------------------------------------------------

  void tick() {
    follower_.poll();
    for (const Ended& ended : starter_->ended()) on_end(ended);
    if (!master_status_) look_for_master();
    if (watch_) look_at_job();
    for (const Member& member : policy_.take_lost()) end_lost(member);
    for (const Member& member : policy_.due(now())) start(member);
    for (const Policy::GivenUp& member : policy_.take_given_up()) give_up(member);
    if (policy_.hopeless() && !stopping_) {
      say("the job cannot go on without it: the master saves and ends the job");
      stop("embers launch gave up on " + policy_.hopeless()->member.label());
    }
    if (master_status_ && (running_.empty() || now() > farewell())) return end(exit_status());
    timer_.expires_after(kTick);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) tick();
    });
  }

  // When the others must have ended, now that the master has.
  Seconds farewell() const {
    const bool well = *master_status_ == 0;
    const bool any = std::any_of(running_.begin(), running_.end(),
                                 [&](const std::string& label) { return joined_.contains(label); });
    return master_ended_ + (well && any ? kFarewell : kShortFarewell);
  }

  int exit_status() const {
    if (policy_.hopeless()) return policy_.hopeless()->ending.status == 2 ? 2 : 1;
    return ended_as_asked() ? 128 + stopped_by_ : *master_status_;
  }

  // Whether the master was ended by a signal before it listened: it had nothing to save yet.
  bool ended_as_asked() const { return stopped_by_ != 0 && !watch_ && *master_status_ == 128 + SIGTERM; }

  void look_for_master() {
    if (stopping_ || !address_.empty() || (address_ = address_in(plan_.job_dir)).empty()) return;
    watch_.emplace(watching(plan_), now);
    policy_.on_master_listens();
    say(fmt::format("starting {}{}; job directory {}",
                    plan_.shards == 0 ? "" : counted(plan_.shards, "shard") + " and ",
                    counted(plan_.workers, "worker"), plan_.job_dir));
  }
  static std::string counted(uint32_t n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  }

  void look_at_job() {
    if (const auto answer = watch_->take_answer()) {
      const JobView view = view_of(answer->status, labels_);
      policy_.on_view(view, answer->asked);
      for (const auto& [label, member] : view.members) joined_.insert(label);
      if (standard_error().is_terminal() && view.begun && !master_status_)
        progress_.show(figures_of(answer->status));
    }
    if (const auto trouble = watch_->take_trouble(); trouble && !master_status_)
      say("cannot ask the master how the job stands: " + *trouble);
    // srun would end the master at once.
    if (watch_->take_stop_failed() && !plan_.options.scheduler.slurm) starter_->ask_to_end({Kind::kMaster});
  }

  void start(const Member& member) {
    const Order order = order_for(plan_, member, address_);
    follower_.follow(member.label(), order.log);
    labels_.insert(member.label());
    if (member.restart > 0)
      say(fmt::format("starting {} again ({} of {} times in a row)", member.label(), member.restart,
                      plan_.options.max_restarts));
    try {
      starter_->start(order);
      running_.insert(member.label());
    } catch (const Error& e) {
      if (member.kind == Kind::kMaster) throw;
      on_end({member, {127, e.what()}});
    }
  }

  void end_lost(const Member& member) {
    if (!running_.contains(member.label())) return;
    say(fmt::format("the master has lost {}: ending its process", member.label()));
    starter_->end_lost(member);
  }

  void on_end(const Ended& ended) {
    const std::string label = ended.member.label();
    follower_.finish(label);
    running_.erase(label);
    const bool master = ended.member.kind == Kind::kMaster;
    if (master) {
      progress_.finish();
      master_status_ = ended.ending.status;
      master_ended_ = now();
    }
    if (ended.ending.status != 0 && !(master && ended_as_asked()))
      say(fmt::format("{} ended: {}", label, ended.ending.how));
    policy_.on_end(ended.member, ended.ending, now());
  }

  void give_up(const Policy::GivenUp& member) {
    const std::string label = member.member.label();
    say(
        fmt::format("gave up on {}, which was started {} and got nothing done: {}. Its last lines, of "
                    "{}/logs/{}.log:",
                    label, member.starts == 1 ? "once" : fmt::format("{} times", member.starts),
                    member.ending.how, plan_.job_dir, label));
    for (const std::string& line : follower_.last_lines(label, kLastLines)) say("  " + line);
  }

  const Plan& plan_;
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_{io_};
  boost::asio::steady_timer timer_{io_};
  Policy policy_;
  LogFollower follower_;
  ProgressDisplay progress_{standard_error()};
  std::optional<JobWatch> watch_;
  std::unique_ptr<Starter> starter_;
  std::string address_;  // of the master, once it listens
  // Of members ever started, of those that run, and of those that were in the job, maybe as another process.
  std::set<std::string> labels_, running_, joined_;
  std::optional<int> master_status_;  // once it has ended
  Seconds master_ended_ = 0;
  bool signalled_ = false, stopping_ = false;
  int stopped_by_ = 0;  // the first signal
  int status_ = 0;
};

std::string secret_of(const Plan& plan, const LaunchDir& dir) {
  const AccessOptions& access = plan.options.master.access;
  if (access.insecure) return "";
  return access.secret_file.empty() ? dir.secret() : read_secret(access.secret_file).bytes();
}

// After all that was said, so that neither is in the middle of the other. May have to wait for its reader; a
// signal ends that.
void show_results(const Plan& plan) {
  std::ifstream file(results_file(plan), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  flush_standard_error();
  std::fwrite(text.data(), 1, text.size(), stdout);
  flush_results();
}

}  // namespace

int launch(const LaunchOptions& options) {
  Plan plan = make_plan(options);
  if (submits(options)) return submit(std::move(plan));
  if (options.dry_run) return dry_run(plan);
  LaunchDir dir(options.scheduler.slurm ? job_dir_in_slurm(options) : options.master.access.job_dir);
  plan.job_dir = dir.path();
  int status = 0;
  {
    Launcher launcher(plan, starter_for(plan, [&] { return secret_of(plan, dir); }));
    status = launcher.run();
  }
  show_results(plan);
  if (status == 0)
    dir.drop();
  else if (dir.is_temporary())
    say("the logs are in " + dir.path() + "/logs");
  return status;
}

}  // namespace embers::launch
