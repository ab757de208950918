#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/integration/jobs.h"

namespace embers::testing_support {

// Slurm's commands as scripts, first in PATH.
class PretendedSlurm {
 public:
  explicit PretendedSlurm(const JobFolder& folder) : folder_(folder) {
    std::filesystem::create_directory(folder.path("bin"));
    setenv("PATH", (folder.path("bin") + ":" + path_).c_str(), 1);
  }
  ~PretendedSlurm() { setenv("PATH", path_.c_str(), 1); }
  void command(const std::string& name, const std::string& script) const {
    folder_.write("bin/" + name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_.path("bin/" + name), std::filesystem::perms::owner_all);
  }

 private:
  const JobFolder& folder_;
  const std::string path_ = std::getenv("PATH");
};

}  // namespace embers::testing_support
