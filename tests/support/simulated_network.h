#pragma once

#include <caf/all.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "actors/errors.h"
#include "actors/message_types.h"
#include "tests/support/simulation.h"

namespace embers::testing_support {

// What the network does at a moment.
struct NetworkStep {
  std::function<void()> run;
};

}  // namespace embers::testing_support

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::testing_support::NetworkStep)

namespace embers::testing_support {

// Simulated processes and the connections between them, as actors/transport makes them of real ones: a proxy
// at the client's end, a peer at the server's end, requests and answers between them. Messages of one
// connection stay in order in each direction; those of different connections overtake one another. A
// connection may break: what was sent last is lost, what was sent before may still arrive, and each end
// notices when it does. A link that is kept connects again and asks again. Whoever is killed sends and
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
    for (const auto& link : links_) link->close();
    for (const auto& connection : connections_) connection->close();
    for (const ProcessPtr& process : processes_) process->targets_.clear();
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
  struct Connection;

 public:
  class Process {
   public:
    const std::string& name() const { return name_; }
    bool alive() const { return alive_; }
    // From now on it answers at its address; until then what is sent to it waits.
    void serve(std::vector<caf::strong_actor_ptr> targets) {
      targets_ = std::move(targets);
      for (const auto& connection : network_->connections_)
        if (connection->server == this) network_->pump(*connection, connection->there);
    }

   private:
    friend class SimulatedNetwork;
    Process(SimulatedNetwork* network, std::string name) : network_(network), name_(std::move(name)) {}
    SimulatedNetwork* network_;
    std::string name_;
    bool alive_ = true;
    Time stalled_until_{};
    std::vector<caf::strong_actor_ptr> targets_;
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

  // Proxies of what the server serves, all over one link.
  std::vector<caf::strong_actor_ptr> connect(Process& client, Process& server, size_t targets, bool kept) {
    links_.push_back(std::make_unique<Link>(this, &client, &server, kept));
    return links_.back()->open(targets);
  }
  // Ends the link of a proxy.
  void drop(const caf::strong_actor_ptr& proxy) {
    for (const auto& link : links_)
      if (link->has(proxy)) link->leave(Error(ErrorCode::kUnavailable, "this process ended the connection"));
  }

  // --- what goes wrong ---------------------------------------------------------------------------

  // What the process has sent still arrives; then its connections end. `why` is what its clients are told.
  void leave(Process& process, const std::optional<Error>& why = {}) {
    if (!process.alive_) return;
    say(process.name() + " ends");
    for (const auto& link : links_)
      if (link->client() == &process) link->leave(Error(ErrorCode::kUnavailable, "this process has ended"));
    for (const auto& connection : connections_)
      if (connection->server == &process && connection->open_there)
        send(*connection, connection->back, [this, c = connection.get(), why] { client_notices(*c, why); });
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
  // A proxy, as actors/transport/proxy.h.
  class Proxy final : public caf::monitorable_actor {
   public:
    Proxy(caf::actor_config& config, Link* link, size_t target)
        : monitorable_actor(config), link_(link), target_(target) {}
    const char* name() const override { return "simulated_proxy"; }
    void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
      if (handle_system_message(*what, host, false)) return;
      if (reason_) return bounce(what, *reason_);
      link_->ask(target_, ctrl(), *what);
    }
    bool cleanup(caf::error&& reason, caf::execution_unit* host) override {
      if (!reason_) reason_ = reason;
      return monitorable_actor::cleanup(std::move(reason), host);
    }

   private:
    Link* const link_;
    const size_t target_;
    std::optional<caf::error> reason_;
  };

  // A peer, as actors/transport/session.h.
  class Peer final : public caf::monitorable_actor {
   public:
    Peer(caf::actor_config& config, SimulatedNetwork* network, Connection* connection)
        : monitorable_actor(config), network_(network), connection_(connection) {}
    const char* name() const override { return "simulated_peer"; }
    void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override {
      if (!what->mid.is_response()) {
        if (!handle_system_message(*what, host, false)) bounce(what, caf::sec::unexpected_message);
        return;
      }
      const auto request = open_.extract(what->mid.request_id().integer_value());
      if (request) network_->answer(*connection_, request.mapped(), what->move_content_to_message());
    }
    caf::message_id remember(uint64_t correlation) {
      open_.emplace(++last_, correlation);
      return caf::make_message_id(last_);
    }

   private:
    SimulatedNetwork* const network_;
    Connection* const connection_;
    uint64_t last_ = 0;
    std::map<uint64_t, uint64_t> open_;  // correlations
  };

  struct Item {
    Time due;
    std::function<void()> deliver;
  };
  struct Wire {
    Time latest{};  // when the last message arrives
    std::deque<Item> items;
  };
  struct Connection {
    Link* link = nullptr;
    Process *client = nullptr, *server = nullptr;
    uint64_t number = 0;     // of the link's
    bool is_up = true;       // takes messages
    bool open_here = true;   // the client has not noticed its end
    bool open_there = true;  // nor has the server
    Wire there, back;
    caf::strong_actor_ptr peer;

    void close() {
      is_up = open_here = open_there = false;
      there.items.clear();
      back.items.clear();
      peer = nullptr;
    }
  };

  class Link {
   public:
    Link(SimulatedNetwork* network, Process* client, Process* server, bool kept)
        : network_(network), client_(client), server_(server), kept_(kept) {}
    Process* client() const { return client_; }
    bool has(const caf::strong_actor_ptr& proxy) const {
      return std::find(proxies_.begin(), proxies_.end(), proxy) != proxies_.end();
    }
    std::vector<caf::strong_actor_ptr> open(size_t targets) {
      caf::actor_system& system = network_->system();
      for (size_t target = 0; target < targets; ++target) {
        caf::actor_config config;
        proxies_.push_back(caf::make_actor<Proxy, caf::strong_actor_ptr>(
            system.next_actor_id(), system.node(), &system, config, this, target));
      }
      const auto proxies = proxies_;
      connect();
      return proxies;
    }
    void ask(size_t target, caf::actor_control_block* proxy, caf::mailbox_element& what) {
      if (network_->closed_ || !client_->alive_) return;
      const uint64_t correlation = ++last_;
      open_[correlation] = {std::move(what.sender), what.mid.response_id(), target,
                            caf::strong_actor_ptr(proxy), what.move_content_to_message()};
      if (connection_) network_->request(*connection_, correlation);
    }
    // The connection of this number has ended.
    void ended(uint64_t number, const std::optional<Error>& why) {
      if (!connection_ || connection_->number != number) return;
      connection_ = nullptr;
      if (!client_->alive_) return;
      const bool tries_again = kept_ && (!why || remedy(why->code()) == Remedy::kRetry);
      if (!tries_again) return down(why.value_or(Error(ErrorCode::kUnavailable, "the connection was reset")));
      network_->after(network_->time_up_to(Duration(200)), [this] {
        if (!down_) connect();
      });
    }
    void down(const Error& why) {
      if (std::exchange(down_, true)) return;
      network_->say(fmt::format("link {} -> {} is down: {}", client_->name(), server_->name(), why.what()));
      for (auto& [correlation, open] : std::exchange(open_, {}))
        if (open.asker) open.asker->enqueue(open.proxy, open.id, caf::make_message(to_caf(why)), nullptr);
      for (const auto& proxy : std::exchange(proxies_, {})) cleanup(proxy, why);
    }
    // What it has sent still arrives.
    void leave(const Error& why) {
      if (connection_) {
        Connection& c = *std::exchange(connection_, nullptr);
        network_->send(c, c.there, [network = network_, &c] { network->server_notices(c); });
        c.open_here = false;
      }
      down(why);
    }
    // Its process is killed.
    void die() {
      down_ = true;
      open_.clear();
      connection_ = nullptr;
    }
    void close() {
      down_ = true;
      open_.clear();
      for (const auto& proxy : std::exchange(proxies_, {}))
        cleanup(proxy, Error(ErrorCode::kUnavailable, "the simulation is over"));
    }
    void answered(uint64_t correlation, caf::message answer) {
      const auto open = open_.extract(correlation);
      if (open && open.mapped().asker)
        open.mapped().asker->enqueue(open.mapped().proxy, open.mapped().id, std::move(answer), nullptr);
    }

   private:
    friend class SimulatedNetwork;
    struct Open {
      caf::strong_actor_ptr asker;
      caf::message_id id;
      size_t target = 0;
      caf::strong_actor_ptr proxy;
      caf::message question;
    };
    static void cleanup(const caf::strong_actor_ptr& actor, const Error& why) {
      static_cast<caf::monitorable_actor*>(actor->get())->cleanup(to_caf(why), nullptr);
    }
    void connect() {
      if (!client_->alive_) return;
      if (!server_->alive_) return down(Error(ErrorCode::kUnavailable, "connection refused"));
      connection_ = network_->add_connection(this, ++number_);
      for (const auto& [correlation, open] : open_) network_->request(*connection_, correlation);
    }

    SimulatedNetwork* const network_;
    Process* const client_;
    Process* const server_;
    const bool kept_;
    bool down_ = false;
    uint64_t number_ = 0, last_ = 0;
    Connection* connection_ = nullptr;  // while there is one
    std::vector<caf::strong_actor_ptr> proxies_;
    std::map<uint64_t, Open> open_;  // by correlation
  };

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

  Connection* add_connection(Link* link, uint64_t number) {
    auto c = std::make_unique<Connection>();
    c->link = link;
    c->client = link->client_;
    c->server = link->server_;
    c->number = number;
    caf::actor_config config;
    caf::actor_system& in = system();
    c->peer = caf::make_actor<Peer, caf::strong_actor_ptr>(in.next_actor_id(), in.node(), &in, config, this,
                                                           c.get());
    connections_.push_back(std::move(c));
    return connections_.back().get();
  }

  void send(Connection& c, Wire& wire, std::function<void()> deliver) {
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
           (&wire == &c.back || !c.server->targets_.empty())) {
      const auto deliver = std::move(wire.items.front().deliver);
      wire.items.pop_front();
      deliver();
    }
  }
  void request(Connection& c, uint64_t correlation) {
    send(c, c.there, [this, &c, correlation, question = c.link->open_.at(correlation)] {
      if (!c.open_there || !c.server->alive_) return;
      note(c, "asks", correlation, question.question);
      auto& peer = static_cast<Peer&>(*c.peer->get());
      c.server->targets_.at(question.target)
          ->enqueue(c.peer, peer.remember(correlation), question.question, nullptr);
    });
  }
  void answer(Connection& c, uint64_t correlation, const caf::message& answer) {
    if (!c.open_there || !c.server->alive_) return;
    send(c, c.back, [this, &c, correlation, answer] {
      if (!c.open_here || !c.client->alive_) return;
      note(c, "is answered by", correlation, answer);
      c.link->answered(correlation, answer);
    });
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
    after(notices(), [this, &c] { client_notices(c, {}); });
    after(notices(), [this, &c] { server_notices(c); });
  }
  void client_notices(Connection& c, const std::optional<Error>& why) {
    c.is_up = false;
    if (std::exchange(c.open_here, false)) c.link->ended(c.number, why);
  }
  void server_notices(Connection& c) {
    c.is_up = false;
    if (!std::exchange(c.open_there, false) || !c.peer) return;
    Link::cleanup(c.peer, Error(ErrorCode::kUnavailable, "the connection was reset"));
  }

  void note(const Connection& c, const char* what, uint64_t correlation, const caf::message& message) {
    const auto add = [this](uint64_t word) { fingerprint_ = (fingerprint_ ^ word) * 0x9E3779B97F4A7C15u; };
    add(static_cast<uint64_t>(now().time_since_epoch().count()));
    for (const char letter : c.client->name() + c.server->name()) add(static_cast<uint64_t>(letter));
    add(correlation * 2 + (*what == 'a'));
    if (options_.trace)
      say(fmt::format("{} {} {}: {} {}", c.client->name(), what, c.server->name(), name_of(message),
                      correlation));
  }
  template <class Requests>
  struct Names;
  template <class... T>
  struct Names<MessageList<T...>> {
    static std::string of(const caf::message& m) {
      std::string found;
      const auto one = [&]<class M>() {
        if (m.match_elements<Message<M>>()) found = std::string(name(KindOf<M>::kind));
      };
      (one.template operator()<T>(), ...);
      (one.template operator()<typename KindOf<T>::Reply>(), ...);
      return found;
    }
  };
  static std::string name_of(const caf::message& m) {
    if (m.match_elements<caf::error>())
      return "error: " + std::string(from_caf(m.get_as<caf::error>(0)).what());
    return Names<MasterRequests>::of(m) + "/" + Names<OptimizerRequests>::of(m) + "/" +
           Names<ShardRequests>::of(m);
  }

  const Options options_;
  std::mt19937_64 random_;
  bool closed_ = false;
  uint64_t fingerprint_ = 0;
  std::vector<ProcessPtr> processes_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Connection>> connections_;
  caf::actor post_;
  Simulation simulation_;  // ends first
  Simulator* const simulator_ = embers::simulator(simulation_);
};

}  // namespace embers::testing_support
