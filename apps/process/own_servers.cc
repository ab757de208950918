#include "apps/process/own_servers.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "apps/process/child.h"
#include "apps/process/runtime.h"
#include "apps/process/sasl_passwords.h"
#include "base/errors.h"

namespace embers {
namespace {

constexpr int kAttempts = 5;  // another process may take the port before Redis does
constexpr auto kComesUp = std::chrono::seconds(10);
constexpr uint64_t kMiB = 1 << 20;
// With a realm, for SASL would otherwise take the name of the server's host for one.
constexpr char kUser[] = "embers@job";
constexpr size_t kPasswordBytes = 32;
constexpr size_t kLongestFile = 16;  // bytes of the longest name in the folder

using Words = std::vector<std::string>;
using FilePtr = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

struct Socket {
  explicit Socket(int family) : fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { ::close(fd); }
  const int fd;
};

// `port` if it is free, or any where that is 0.
std::optional<uint16_t> free_port(const std::string& host, unsigned wanted) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(wanted).c_str(), &hints, &found); error != 0)
    fail(ErrorCode::kInvalid, "a server cannot listen on '{}': {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  const Socket socket(address->ai_family);
  char port[NI_MAXSERV];
  if (::bind(socket.fd, address->ai_addr, address->ai_addrlen) != 0) {
    if (wanted != 0 && (errno == EADDRINUSE || errno == EACCES)) return std::nullopt;
    fail(ErrorCode::kInvalid, "a server cannot listen on '{}': {}", host, std::strerror(errno));
  }
  if (::getsockname(socket.fd, address->ai_addr, &address->ai_addrlen) != 0 ||
      ::getnameinfo(address->ai_addr, address->ai_addrlen, nullptr, 0, port, sizeof port, NI_NUMERICSERV) !=
          0)
    fail(ErrorCode::kInvalid, "a server cannot listen on '{}': {}", host, std::strerror(errno));
  return static_cast<uint16_t>(std::stoi(port));
}

// A free port of the place.
uint16_t free_port(const ServerPlace& place) {
  if (place.ports.any()) return *free_port(place.listen, 0);
  for (unsigned port = place.ports.first; port <= place.ports.last; ++port)
    if (const auto found = free_port(place.listen, port)) return *found;
  fail(ErrorCode::kInvalid,
       "no port of --port-range {} is free for a server of the job's own: give a wider one",
       place.ports.text());
}

std::string host_and_port(std::string host, const std::string& port) {
  return Endpoint{false, std::move(host), port}.text();
}

// As memcached wants it, which takes a colon for the begin of a port.
std::string in_brackets(const std::string& host) {
  return host.find(':') == host.npos ? host : "[" + host + "]";
}

// Whether a server listens at a Unix socket.
bool is_listening(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const Socket socket(AF_UNIX);
  return ::connect(socket.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::string random_password() {
  unsigned char bytes[kPasswordBytes];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    fail(ErrorCode::kInternal, "the system has no random numbers: {}", std::strerror(errno));
  std::string text;
  for (const unsigned char byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::string read_all(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char part[4096];
  for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// A file in memory, which has no name.
FilePtr file_of(const std::string& text) {
  FilePtr file(::fdopen(::memfd_create("embers", MFD_CLOEXEC), "w+"), &std::fclose);
  if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fflush(file.get()) != 0)
    fail(ErrorCode::kInternal, "cannot make a file in memory: {}", std::strerror(errno));
  std::rewind(file.get());
  return file;
}

// How one server is started, and how it shows that it is up. It does so in the private folder: at its port,
// another process might answer.
struct Plan {
  Words words;
  std::string input;  // what it reads from its standard input
  std::string ready;  // a file or socket that is there once it listens
  std::function<std::string()> address;
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

Plan redis(const OwnServers::Options& o, const storage::ServerLogin& login, const std::string& folder,
           uint32_t number) {
  const std::string socket = fmt::format("{}/{}.socket", folder, number);
  const uint16_t port = o.place ? free_port(*o.place) : 0;
  std::string config = fmt::format(
      "port {}\nunixsocket {}\nunixsocketperm 700\ndir {}\nsave \"\"\nappendonly no\nmaxmemory {}mb\n"
      "maxmemory-policy noeviction\nio-threads {}\n",
      port, quoted(socket), quoted(folder), o.memory_mb, o.threads);
  if (o.place) config += fmt::format("bind {}\n", quoted(o.place->listen));
  // What storage/external/redis_server.cc sends.
  constexpr char kRights[] = "~* resetchannels -@all +get +mget +set +mset +info +ping";
  config += o.place
                ? fmt::format("user default off\nuser {} on >{} {}\n", login.user, login.password, kRights)
                : fmt::format("user default on nopass {}\n", kRights);
  const std::string address =
      o.place ? host_and_port(o.place->advertise, std::to_string(port)) : "unix:" + socket;
  return {{"redis-server", "-"}, config, socket, [address] { return address; }};
}

Plan memcached(const OwnServers::Options& o, const std::string& folder, uint32_t number) {
  const std::string socket = fmt::format("{}/{}.socket", folder, number);
  const std::string port_file = fmt::format("{}/{}.port", folder, number);
  Words words;
  const auto add = [&](const Words& more) { words.insert(words.end(), more.begin(), more.end()); };
  if (o.place) {
    const std::string port = o.place->ports.any() ? "-1" : std::to_string(free_port(*o.place));
    add({"SASL_CONF_PATH=" + folder, "MEMCACHED_PORT_FILENAME=" + port_file});  // for `env`, which starts it
    add({"memcached", "-S", "-l", in_brackets(o.place->listen), "-p", port, "-U",
         "0"});  // -1: at any free port
  } else {
    add({"memcached", "-s", socket, "-a", "700"});
  }
  add({"-M", "-m", std::to_string(o.memory_mb), "-t", std::to_string(o.threads)});
  // Names and item headers take up a part of an item; 1 MiB is the default.
  if (const uint64_t mib = o.longest_value / kMiB + 1; mib > 1 || o.longest_value > kMiB - 1024)
    add({"-I", fmt::format("{}m", mib + 1)});
  if (::geteuid() == 0) add({"-u", "root"});
  if (!o.place) return {words, "", socket, [socket] { return "unix:" + socket; }};
  return {words, "", port_file, [host = o.place->advertise, port_file] {
            std::string line;  // "TCP INET: 12345"
            std::getline(std::ifstream(port_file), line);
            return host_and_port(host, line.substr(line.rfind(' ') + 1));
          }};
}

bool is_up(const std::string& ready) {
  struct stat file {};
  if (::stat(ready.c_str(), &file) != 0) return false;
  return !S_ISSOCK(file.st_mode) || is_listening(ready);
}

}  // namespace

// In a session of its own: Ctrl-C is meant for the job, which still has to save.
struct OwnServers::Process {
  Process(const Words& words, std::FILE* input, std::FILE* log)
      : server(kFindInPath, boost::process::args(words),
               (boost::process::std_out & boost::process::std_err) > log, boost::process::std_in < input,
               ends_with_this_process([] {
                 ::setsid();
                 ::umask(S_IRWXG | S_IRWXO);
               })) {}
  ~Process() { end(server); }

  // Whether the server listens; false when it ended instead, or takes too long.
  bool came_up(const std::string& ready) {
    const auto deadline = std::chrono::steady_clock::now() + kComesUp;
    while (std::chrono::steady_clock::now() < deadline) {
      if (!server.running()) return false;
      if (is_up(ready)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  boost::process::child server;
};

OwnServers::OwnServers(const Options& options)
    : backend_(options.backend),
      folder_(kLongestFile),
      login_(options.place ? storage::ServerLogin{kUser, random_password()} : storage::ServerLogin{}) {
  const bool is_redis = backend_ == "redis";
  if (!is_redis && options.place) write_sasl_passwords(folder_.path(), login_);
  for (uint32_t i = 0; i < options.count; ++i) {
    std::string said;
    for (int attempt = 0; attempt < kAttempts && addresses_.size() == i; ++attempt) {
      const FilePtr log(std::tmpfile(), &std::fclose);
      const Plan plan =
          is_redis ? redis(options, login_, folder_.path(), i) : memcached(options, folder_.path(), i);
      std::filesystem::remove(plan.ready);  // an attempt before this one may have left it
      auto process = std::make_unique<Process>(plan.words, file_of(plan.input).get(), log.get());
      if (process->came_up(plan.ready)) {
        addresses_.push_back(plan.address());
        processes_.push_back(std::move(process));
      } else {
        said = read_all(log.get());
        if (was_not_found(process->server)) said += ": install it, or give storage.servers";
      }
    }
    if (addresses_.size() == i)
      fail(ErrorCode::kInvalid, "the job's own {} server did not start{}: {}", backend_,
           options.place ? " on " + options.place->listen : "", said);
  }
}

OwnServers::~OwnServers() = default;

std::vector<std::string> OwnServers::describe() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < processes_.size(); ++i)
    lines.push_back(fmt::format("the job's own {} server (pid {}) at {}", backend_,
                                processes_[i]->server.id(), addresses_[i]));
  return lines;
}

}  // namespace embers
