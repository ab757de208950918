#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace embers {

// A memcached or Redis server of a job's own, which ends with it, even when this process is killed.
class OwnServer {
 public:
  struct Options {
    std::string backend;  // memcached | redis
    std::string host;     // to listen on
    uint32_t memory_mb, threads;
    uint64_t longest_value;  // bytes
  };
  // Starts one on a free port. It answers writes that it has no memory for with an error instead of dropping
  // other rows. If it does not come up, or is not installed: kInvalid with what it said.
  static std::unique_ptr<OwnServer> start(const Options& options);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& address() const { return address_; }  // host:port as owners reach it
  std::string describe() const;                            // for people

 private:
  struct Process;
  OwnServer(std::unique_ptr<Process> process, std::string backend, std::string address);

  const std::unique_ptr<Process> process_;
  const std::string backend_, address_;
};

}  // namespace embers
