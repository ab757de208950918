#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/transport/addresses/advertise.h"
#include "apps/process/private_folder.h"
#include "storage/external/key_value_server.h"

namespace embers {

// Where servers listen that members on other hosts reach.
struct ServerPlace {
  std::string listen;     // host
  std::string advertise;  // host by which members find them
  PortRange ports = {};   // of which each gets one
};

// The memcached or Redis servers of a job's own, which end with it, even when this process is killed. Only
// the job gets into them: they listen on Unix sockets in a folder of this user alone; or, for members on
// other hosts, on a port where they ask for a random password of their own. Redis takes no commands but those
// that embers uses. The password is in files of this user alone and in memory, never among the words or in
// the environment of a process. Nothing that is sent is encrypted.
class OwnServers {
 public:
  struct Options {
    std::string backend;  // memcached | redis
    uint32_t count = 1;
    std::optional<ServerPlace> place;  // none: all members are on this host
    uint32_t memory_mb, threads;       // of each
    uint64_t longest_value;            // bytes
  };
  // Starts them, on free ports. They answer writes that they have no memory for with an error instead of
  // dropping other rows. If one does not come up, or is not installed: kInvalid with what it said.
  explicit OwnServers(const Options& options);
  ~OwnServers();
  OwnServers(const OwnServers&) = delete;
  OwnServers& operator=(const OwnServers&) = delete;

  // As owners and workers reach them: "host:port" or "unix:/path".
  const std::vector<std::string>& addresses() const { return addresses_; }
  const storage::ServerLogin& login() const { return login_; }  // empty with Unix sockets
  std::vector<std::string> describe() const;                    // a line each, for people

 private:
  struct Process;

  const std::string backend_;
  const PrivateFolder folder_;  // gone after the servers
  const storage::ServerLogin login_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::string> addresses_;
};

}  // namespace embers
