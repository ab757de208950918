#pragma once

#include <string>
#include <vector>

#include "apps/launch/processes/host_starter.h"

namespace embers::launch {

struct SshOptions {
  std::vector<std::string> hosts;  // as ssh knows them
  Words ssh{"ssh"};                // and options for it
  std::string program;             // embers on these hosts
  std::string directory;           // that members start in, where there is one of this name
  std::string secret;              // of the job, or ""
  uint32_t shards = 0;             // of the job: workers go to the hosts after those of its shards
};

// The master runs on this host, shards and workers on others, one after the other in turn. A worker that
// cannot be started, or gets nothing done, moves on to the next host. With ssh's connection ends what runs at
// its other end: `embers member` sees to that there (see remote_member.h).
//
// The secret travels through ssh's standard input, so that it is no word of any process.
class SshStarter final : public HostStarter {
 public:
  SshStarter(const std::string& embers, SshOptions options)
      : HostStarter(embers), options_(std::move(options)) {}
  void ask_to_end(const Member& member) override;

 private:
  ProcessGroups::Child child(const Order& order) const override;
  void on_started(const Order& order) override;
  const std::string& host(const Member& member) const;

  const SshOptions options_;
};

}  // namespace embers::launch
