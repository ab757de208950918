#include "apps/process/own_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "apps/process/child.h"
#include "apps/process/runtime.h"
#include "base/errors.h"

namespace embers {
namespace {

constexpr int kAttempts = 5;  // another process may take the port before the server does
constexpr auto kComesUp = std::chrono::seconds(10);
constexpr uint64_t kMiB = 1 << 20;

using FilePtr = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

struct Socket {
  explicit Socket(int family) : fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { ::close(fd); }
  const int fd;
};

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

Address resolve(const std::string& host, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    fail(ErrorCode::kInvalid, "a server cannot listen on '{}': {}", host, gai_strerror(error));
  Address address;
  address.size = found->ai_addrlen;
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&address.bytes));
  freeaddrinfo(found);
  return address;
}

uint16_t free_port(const std::string& host) {
  Address address = resolve(host, 0);
  const Socket socket(address.bytes.ss_family);
  auto* const bytes = reinterpret_cast<sockaddr*>(&address.bytes);
  char port[NI_MAXSERV];
  if (::bind(socket.fd, bytes, address.size) != 0 || ::getsockname(socket.fd, bytes, &address.size) != 0 ||
      ::getnameinfo(bytes, address.size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0)
    fail(ErrorCode::kInvalid, "a server cannot listen on '{}': {}", host, std::strerror(errno));
  return static_cast<uint16_t>(std::stoi(port));
}

bool is_listening(const std::string& host, uint16_t port) {
  const Address address = resolve(host, port);
  const Socket socket(address.bytes.ss_family);
  return ::connect(socket.fd, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) == 0;
}

std::vector<std::string> command(const OwnServer::Options& o, uint16_t port) {
  if (o.backend == "redis")
    return {"redis-server",
            "--bind",
            o.host,
            "--port",
            std::to_string(port),
            "--save",
            "",
            "--appendonly",
            "no",
            "--protected-mode",
            "no",
            "--maxmemory",
            fmt::format("{}mb", o.memory_mb),
            "--maxmemory-policy",
            "noeviction",
            "--io-threads",
            std::to_string(o.threads),
            "--dir",
            std::filesystem::temp_directory_path().string()};
  std::vector<std::string> words{"memcached",
                                 "-l",
                                 o.host,
                                 "-p",
                                 std::to_string(port),
                                 "-U",
                                 "0",
                                 "-M",
                                 "-m",
                                 std::to_string(o.memory_mb),
                                 "-t",
                                 std::to_string(o.threads)};
  // Names and item headers take up a part of an item; 1 MiB is the default.
  if (const uint64_t mib = o.longest_value / kMiB + 1; mib > 1 || o.longest_value > kMiB - 1024)
    words.insert(words.end(), {"-I", fmt::format("{}m", mib + 1)});
  if (::geteuid() == 0) words.insert(words.end(), {"-u", "root"});
  return words;
}

std::string read_all(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char part[4096];
  for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::" || host.empty(); }

}  // namespace

// In a session of its own: Ctrl-C is meant for the job, which still has to save.
struct OwnServer::Process {
  Process(const Options& options, uint16_t port, std::FILE* log)
      : server(kFindInPath, boost::process::args(command(options, port)),
               (boost::process::std_out & boost::process::std_err) > log, ends_with_this_process(::setsid)) {}
  ~Process() { end(server); }

  // Whether the server listens; false when it ended instead, or takes too long.
  bool came_up(const std::string& host, uint16_t port) {
    const auto deadline = std::chrono::steady_clock::now() + kComesUp;
    while (std::chrono::steady_clock::now() < deadline) {
      if (!server.running()) return false;
      if (is_listening(host, port)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  boost::process::child server;
};

OwnServer::OwnServer(std::unique_ptr<Process> process, std::string backend, std::string address)
    : process_(std::move(process)), backend_(std::move(backend)), address_(std::move(address)) {}

std::unique_ptr<OwnServer> OwnServer::start(const Options& options) {
  std::string said;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const FilePtr log(std::tmpfile(), &std::fclose);
    const uint16_t port = free_port(options.host);
    auto process = std::make_unique<Process>(options, port, log.get());
    if (process->came_up(options.host, port))
      return std::unique_ptr<OwnServer>(
          new OwnServer(std::move(process), options.backend,
                        fmt::format("{}:{}", is_any(options.host) ? host_name() : options.host, port)));
    said = read_all(log.get());
    if (was_not_found(process->server)) said += ": install it, or give storage.servers";
  }
  fail(ErrorCode::kInvalid, "the job's own {} server did not start on {}: {}", options.backend, options.host,
       said);
}

OwnServer::~OwnServer() = default;

std::string OwnServer::describe() const {
  return fmt::format("the job's own {} server (pid {}) at {}", backend_, process_->server.id(), address_);
}

}  // namespace embers
