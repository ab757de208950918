#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/door/secret.h"
#include "actors/transport/addresses/endpoint.h"
#include "base/files/directory_lock.h"

namespace embers {

// The directory of a job (--job-dir), of mode 700, in which its processes find each other:
//
//   address   where the master listens, one endpoint a line; there as long as it listens
//   secret    what only the processes of the job know, in one line, of mode 600; made at first use, and kept
//
// This is the master's view of it. One master at a time uses a directory.
class JobDir {
 public:
  // Makes the directory if need be. kInvalid when it cannot be used, is open to other users, or has a master.
  explicit JobDir(const std::string& path);
  ~JobDir();  // withdraw()
  JobDir(const JobDir&) = delete;
  JobDir& operator=(const JobDir&) = delete;

  // Makes the secret if there is none yet.
  Secret secret() const;
  // Writes `address`, all of it at once: where others find the master (advertise.h).
  void announce(const std::vector<Endpoint>& endpoints);
  // Removes `address` if this process wrote it.
  void withdraw();

 private:
  const std::string path_;
  const std::unique_ptr<const DirectoryLock> lock_;
  bool announced_ = false;
};

// What a member finds there. kInvalid for a directory that is open to other users, and for files that cannot
// be read or hold something else.
//
// Where the master listens; nothing while no master does.
std::optional<std::vector<Endpoint>> find_address(const std::string& job_dir);
// The secret, if the directory holds one.
std::optional<Secret> find_secret(const std::string& job_dir);

// The secret in a file, whose last line may have an end. kInvalid when other users may read or change it, or
// when it is no secret.
Secret read_secret(const std::string& file);

}  // namespace embers
