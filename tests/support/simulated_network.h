#pragma once

#include <caf/all.hpp>

#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "actors/errors.h"
#include "actors/frames/dispatch.h"
#include "actors/frames/frame_link.h"
#include "tests/support/frame_bytes.h"
#include "tests/support/simulation.h"

namespace embers::testing_support {

// What the network does at a moment.
struct NetworkStep {
  std::function<void()> run;
};

}  // namespace embers::testing_support

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::testing_support::NetworkStep)

namespace embers::testing_support {

// Simulated processes and the connections between them. Proxies, what a link asks again, frames, the check of
// roles and sessions are those of actors/frames; sockets, the handshake and the watch for silence are
// simulated. Frames of one connection stay in order in each direction; those of different connections
// overtake one another. A connection may break: what was sent last is lost, what was sent before may still
// arrive, and each end notices when it does. A link that is kept connects again. Whoever is killed sends and
// receives nothing more. One seed decides everything, also whose turn it is when several actors have
// messages.
class SimulatedNetwork {
 public:
  using Time = caf::actor_clock::time_point;
  using Duration = std::chrono::milliseconds;
  struct Options {
    uint64_t seed = 0;
    bool calm = false;       // nothing is slow, actors take turns in order
    Duration silence{5000};  // after which an end notices that the other one is silent
    bool trace = false;      // to standard error
  };
  class Process;
  using ProcessPtr = std::shared_ptr<Process>;

  explicit SimulatedNetwork(const Options& options) : options_(options), random_(options.seed) {
    caf::actor_system& system = simulation_;
    post_ = system.spawn([](caf::event_based_actor*,
                            int) -> caf::behavior { return {[](const NetworkStep& step) { step.run(); }}; },
                         0);
  }
  ~SimulatedNetwork() {
    closed_ = true;
    for (const auto& link : links_) link->shut();
    for (const auto& connection : connections_) connection->shut();
    for (const ProcessPtr& process : processes_) process->dispatch_ = {};
    expect_all_to_end();
    caf::anon_send_exit(post_, caf::exit_reason::user_shutdown);
    post_ = nullptr;
  }

  caf::actor_system& system() { return simulation_; }
  Simulation& simulation() { return simulation_; }
  Time now() { return clock().now(); }
  // 0 ... below - 1
  uint64_t pick(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  Duration time_up_to(Duration most) { return Duration(pick(static_cast<uint64_t>(most.count()) + 1)); }
  void after(Duration time, std::function<void()> run) { at(now() + time, std::move(run)); }
  void say(const std::string& line) {
    if (options_.trace)
      fmt::print(stderr, "{:9.3f} {}\n", std::chrono::duration<double>(now().time_since_epoch()).count(),
                 line);
  }
  // Of everything that was delivered, and when: equal in runs with equal seeds.
  uint64_t fingerprint() const { return fingerprint_; }

  // One more turn of one actor, or what is due next. Returns whether there was anything to do.
  bool step() {
    auto& jobs = simulator_->jobs;
    if (!options_.calm && jobs.size() > 1) std::swap(jobs.front(), jobs[pick(jobs.size())]);
    return embers::step(*simulator_);
  }
  template <class Condition>
  bool run_until(Condition&& condition, Duration most = std::chrono::hours(1)) {
    const Time latest = now() + most;
    while (!condition())
      if (now() > latest || !step()) return condition();
    return true;
  }

 private:
  class Link;
  class Connection;

 public:
  class Process {
   public:
    const std::string& name() const { return name_; }
    bool alive() const { return alive_; }
    // Requests of interface I for `destination` go to `actor`. Before start().
    template <class I>
    void serve(Destination destination, typename I::Actor actor) {
      dispatch_.serve<I>(destination, std::move(actor));
    }
    // From now on it takes requests; until then what is sent to it waits.
    void start() {
      started_ = true;
      for (const auto& connection : network_->connections_)
        if (connection->server == this) network_->pump(*connection, connection->there);
    }

   private:
    friend class SimulatedNetwork;
    Process(SimulatedNetwork* network, std::string name) : network_(network), name_(std::move(name)) {}
    SimulatedNetwork* network_;
    std::string name_;
    bool alive_ = true;
    bool started_ = false;
    Time stalled_until_{};
    Dispatch dispatch_;
  };

  ProcessPtr add_process(const std::string& name) {
    processes_.push_back(ProcessPtr(new Process(this, name)));
    return processes_.back();
  }
  // The process that was added last under this name.
  Process* find(const std::string& name) {
    for (auto p = processes_.rbegin(); p != processes_.rend(); ++p)
      if ((*p)->name() == name) return p->get();
    throw std::logic_error("no process " + name);
  }

  // A client that says in the handshake that this is its role.
  std::shared_ptr<FrameLink> connect(Process& client, Process& server, wire::Role role) {
    links_.push_back(std::make_shared<Link>(this, &client, &server, role));
    closed_ ? links_.back()->shut() : links_.back()->connect();
    return links_.back();
  }

  // --- what goes wrong ---------------------------------------------------------------------------

  // What the process has sent still arrives; then its connections end. `why` is what its clients are told.
  void leave(Process& process, const std::optional<Error>& why = {}) {
    if (!process.alive_) return;
    say(process.name() + " ends");
    for (const auto& link : links_)
      if (link->client() == &process) link->leave(Error(ErrorCode::kUnavailable, "this process has ended"));
    for (const auto& connection : connections_) {
      if (connection->server != &process || !connection->open_there) continue;
      if (why) reject(*connection, *why);
      hang_up(*connection, connection->back);
    }
    process.alive_ = false;
  }
  void kill(Process& process) {
    if (!process.alive_) return;
    say(process.name() + " is killed");
    process.alive_ = false;
    for (const auto& connection : connections_)
      if (connection->is_up && (connection->client == &process || connection->server == &process))
        break_off(*connection);
    for (const auto& link : links_)
      if (link->client() == &process) link->die();
  }
  // Nothing leaves or reaches it for this time; if that is long, others give up on its connections.
  void stall(Process& process, Duration time) {
    if (!process.alive_) return;
    say(fmt::format("{} is stalled for {} ms", process.name(), time.count()));
    process.stalled_until_ = std::max(process.stalled_until_, now() + time);
    for (const auto& connection : connections_) {
      if (!connection->is_up || (connection->client != &process && connection->server != &process)) continue;
      for (Wire* wire : {&connection->there, &connection->back}) {
        for (Item& item : wire->items) item.due = std::max(item.due, process.stalled_until_);
        wire->latest = std::max(wire->latest, process.stalled_until_);
        at(process.stalled_until_, [this, c = connection.get(), wire] { pump(*c, *wire); });
      }
      if (time > options_.silence) break_off(*connection);
    }
  }
  // Breaks one connection for which the condition, of its client and server, holds.
  template <class Condition>
  void break_one(Condition&& condition) {
    std::vector<Connection*> some;
    for (const auto& c : connections_)
      if (c->is_up && c->client->alive_ && c->server->alive_ && condition(*c->client, *c->server))
        some.push_back(c.get());
    if (!some.empty()) break_off(*some[pick(some.size())]);
  }

 private:
  using Deliver = std::function<void()>;
  struct Item {
    Time due;
    Deliver deliver;
  };
  // One direction of a connection, and what is under way there.
  struct Wire final : FrameConnection {
    Wire(SimulatedNetwork* n, Connection* c) : network(n), connection(c) {}
    void send(OutFrame frame) override { network->send(*connection, *this, std::move(frame)); }
    void finish() override { network->finish(*connection, *this); }

    SimulatedNetwork* const network;
    Connection* const connection;
    Time latest{};  // when the last frame arrives
    std::deque<Item> items;
  };
  class Connection {
   public:
    Connection(SimulatedNetwork* network, Link* by, Process* from, Process* to, uint64_t count)
        : link(by), client(from), server(to), number(count), there(network, this), back(network, this) {}
    void shut() {
      is_up = open_here = open_there = false;
      there.items.clear();
      back.items.clear();
      session = nullptr;
    }

    Link* const link;
    Process *const client, *const server;
    const uint64_t number;   // of the link's
    bool is_up = true;       // takes frames
    bool open_here = true;   // the client has not noticed its end
    bool open_there = true;  // nor has the server
    Wire there, back;
    caf::strong_actor_ptr session;
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  static std::shared_ptr<FrameConnection> end_of(const ConnectionPtr& c, Wire& wire) { return {c, &wire}; }

  // The client's end, without sockets.
  class Link final : public FrameLink {
   public:
    Link(SimulatedNetwork* network, Process* client, Process* server, wire::Role role)
        : FrameLink(network->system()), network_(network), client_(client), server_(server), role_(role) {}
    Process* client() const { return client_; }

    // The handshake takes a while.
    void connect() {
      const Time then = std::max({network_->now() + network_->delay() + network_->delay(),
                                  client_->stalled_until_, server_->stalled_until_});
      network_->at(then, [this] {
        if (down_ || !client_->alive_) return;
        if (!server_->alive_) return down(Error(ErrorCode::kUnavailable, "connection refused"));
        if (connection_) network_->server_notices(*connection_, "its client has connected again");
        connection_ = network_->add_connection(this, client_, server_, role_, ++number_);
        connected_ = true;
        use(end_of(connection_, connection_->there));
      });
    }
    void receive(InFrame& frame) { deliver(frame); }
    void close(const Error& why) override {
      network_->at(network_->now(), [this, why] { leave(why); });
    }
    // The client has noticed that the connection has ended.
    void ended(const Connection& connection, const Error& why) {
      if (!connected_ || connection_.get() != &connection || down_) return;
      connected_ = false;
      if (!is_kept() || remedy(why.code()) != Remedy::kRetry) return down(why);
      disconnected();
      network_->after(network_->time_up_to(Duration(200)), [this] {
        if (!down_) connect();
      });
    }
    // What it has sent still arrives.
    void leave(const Error& why) {
      if (std::exchange(connected_, false)) {
        connection_->open_here = false;
        network_->hang_up(*connection_, connection_->there);
      }
      down(why);
    }
    // Its process is killed: nobody else is told anything, and what its actors still do leads nowhere.
    void die() {
      down_ = true;
      connected_ = false;
      end(Error(ErrorCode::kUnavailable, "this process was killed"));
    }
    void shut() {
      down_ = true;
      end(Error(ErrorCode::kUnavailable, "the simulation is over"));
      connection_ = nullptr;
    }

   private:
    bool post(std::function<void()> work) override {
      work();
      return true;
    }
    void down(const Error& why) {
      if (std::exchange(down_, true)) return;
      network_->say(fmt::format("link {} -> {} is down: {}", client_->name(), server_->name(), why.what()));
      end(why);
    }

    SimulatedNetwork* const network_;
    Process* const client_;
    Process* const server_;
    const wire::Role role_;
    bool down_ = false;
    uint64_t number_ = 0;
    ConnectionPtr connection_;  // the latest one
    bool connected_ = false;    // by it
  };

  // Of a request. Now and then, large answers have to wait for room.
  class Room final : public Arrival {
   public:
    explicit Room(SimulatedNetwork* network) : network_(network) {}
    void settle() override {}
    bool has_room(const std::function<void()>& room) override {
      if (network_->closed_ || network_->options_.calm || !network_->chance(0.02)) return true;
      network_->after(network_->time_up_to(Duration(100)), room);
      return false;
    }

   private:
    SimulatedNetwork* const network_;
  };

  // Nobody waits for an answer that will not come. (Otherwise the system would wait for that actor without
  // end.) A message that is due later keeps its receiver until then.
  void expect_all_to_end() {
    const auto all_but_post = [this] { return system().registry().running() - 1; };
    if (run_until([&] { return all_but_post() == 0; }, std::chrono::minutes(1))) return;
    fmt::print(stderr, "{} actors of this simulation never end\n", all_but_post());
    std::abort();
  }

  caf::detail::test_actor_clock& clock() { return simulator_->clock(); }
  void at(Time time, std::function<void()> run) {
    if (closed_) return;
    clock().schedule_message(time, caf::actor_cast<caf::strong_actor_ptr>(post_),
                             caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                                       NetworkStep{[this, run = std::move(run)] {
                                                         if (!closed_) run();
                                                       }}));
  }
  Duration delay() {
    if (options_.calm) return Duration(1);
    return Duration(1) + time_up_to(chance(0.02) ? Duration(2000) : Duration(15));
  }

  ConnectionPtr add_connection(Link* link, Process* client, Process* server, wire::Role role,
                               uint64_t number) {
    connections_.push_back(std::make_shared<Connection>(this, link, client, server, number));
    const ConnectionPtr& c = connections_.back();
    c->session = make_session(system(), end_of(c, c->back), role, client->name());
    return c;
  }

  void send(Connection& c, Wire& wire, const OutFrame& frame) {
    if (&wire == &c.back && !(c.open_there && c.server->alive_)) return;
    put(c, wire, [this, &c, &wire, bytes = bytes_of(frame)] {
      &wire == &c.there ? arrive_there(c, bytes) : arrive_here(c, bytes);
    });
  }
  void arrive_there(Connection& c, const Bytes& bytes) {
    if (!c.open_there || !c.server->alive_) return;
    InFrame frame = frame_of(bytes, std::make_shared<Room>(this));
    note(c, "asks", frame, bytes);
    const auto denied = c.server->dispatch_.ask(static_cast<Session&>(*c.session->get()), frame);
    if (denied) say(fmt::format("{} denies {}: {}", c.server->name(), c.client->name(), denied->what()));
  }
  void arrive_here(Connection& c, const Bytes& bytes) {
    if (!c.open_here || !c.client->alive_) return;
    InFrame frame = frame_of(bytes);
    note(c, "is answered by", frame, bytes);
    try {
      if (frame.header.correlation == 0 && frame.error()) throw_error_reply(frame);
      c.link->receive(frame);
    } catch (const Error& why) {
      client_notices(c, why);
      after(delay(), [this, &c] { server_notices(c, "the connection was reset"); });
    }
  }
  // As Connection::reject() says why it will end.
  void reject(Connection& c, const Error& why) {
    send(c, c.back,
         out_frame(make_error(why.code(), why.what()), Destination{}, 0,
                   FrameHeader::kReply | FrameHeader::kError));
  }
  // The other end notices when everything else has arrived.
  void hang_up(Connection& c, Wire& wire) {
    put(c, wire, [this, &c, &wire] {
      &wire == &c.there ? server_notices(c, "the connection was closed by the peer")
                        : client_notices(c, closed_by_peer());
    });
  }
  // Of a session's end.
  void finish(Connection& c, Wire& wire) {
    hang_up(c, wire);
    at(now(), [this, &c] { server_notices(c, "this process ended the connection"); });
  }

  void put(Connection& c, Wire& wire, Deliver deliver) {
    if (!c.is_up || closed_) return;
    const Time due =
        std::max({wire.latest, now() + delay(), c.client->stalled_until_, c.server->stalled_until_});
    wire.latest = due;
    wire.items.push_back({due, std::move(deliver)});
    at(due, [this, &c, &wire] { pump(c, wire); });
  }
  void pump(Connection& c, Wire& wire) {
    // An owner that has not begun to serve keeps requests waiting.
    while (!wire.items.empty() && wire.items.front().due <= now() &&
           (&wire == &c.back || c.server->started_)) {
      const auto deliver = std::move(wire.items.front().deliver);
      wire.items.pop_front();
      deliver();
    }
  }
  void break_off(Connection& c) {
    say(fmt::format("connection {} of {} -> {} breaks", c.number, c.client->name(), c.server->name()));
    c.is_up = false;
    for (Wire* wire : {&c.there, &c.back}) {
      wire->items.resize(pick(wire->items.size() + 1));
      const Duration late = chance(0.5) ? time_up_to(options_.silence) : Duration(0);
      for (Item& item : wire->items) {
        item.due += late;
        at(item.due, [this, &c, wire] { pump(c, *wire); });
      }
    }
    const auto notices = [this] {
      return chance(0.5) ? time_up_to(Duration(20)) : time_up_to(options_.silence);
    };
    after(notices(), [this, &c] { client_notices(c, closed_by_peer()); });
    after(notices(), [this, &c] { server_notices(c, "the connection was reset"); });
  }
  static Error closed_by_peer() {
    return Error(ErrorCode::kUnavailable, "the connection was closed by the peer");
  }
  void client_notices(Connection& c, const Error& why) {
    c.is_up = false;
    if (std::exchange(c.open_here, false)) c.link->ended(c, why);
  }
  void server_notices(Connection& c, const char* why) {
    c.is_up = false;
    if (!std::exchange(c.open_there, false) || !c.session) return;
    static_cast<Session&>(*c.session->get()).cleanup(to_caf(Error(ErrorCode::kUnavailable, why)), nullptr);
  }

  void note(const Connection& c, const char* what, const InFrame& frame, const Bytes& bytes) {
    const auto add = [this](uint64_t word) { fingerprint_ = (fingerprint_ ^ word) * 0x9E3779B97F4A7C15u; };
    add(static_cast<uint64_t>(now().time_since_epoch().count()));
    for (const char letter : c.client->name() + c.server->name()) add(static_cast<uint64_t>(letter));
    add(frame.header.correlation * 2 + !frame.reply());
    if (options_.trace)
      say(fmt::format("{} {} {}: {} {:x}", c.client->name(), what, c.server->name(), text_of(bytes),
                      frame.header.correlation));
  }
  const Options options_;
  std::mt19937_64 random_;
  bool closed_ = false;
  uint64_t fingerprint_ = 0;
  std::vector<ProcessPtr> processes_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<ConnectionPtr> connections_;
  caf::actor post_;
  Simulation simulation_;  // ends first
  Simulator* const simulator_ = embers::simulator(simulation_);
};

}  // namespace embers::testing_support
