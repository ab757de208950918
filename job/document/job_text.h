#pragma once

#include <map>
#include <string>
#include <vector>

namespace embers::job {

// A job file as it travels: the master sends it to workers and owners, which parse it again.
struct JobText {
  std::string path;                    // for messages (file:line)
  std::string text;                    // TOML
  std::vector<std::string> overrides;  // "a.b=c", applied in order; c is TOML, or a bare string
};

// Keys by section, in the order in which they are read. All entries of [features] share one section, as do
// those of [columns], of data.columns and of [storage.tables]: "features", "columns", "data.columns" and
// "storage.tables".
using KnownKeys = std::map<std::string, std::vector<std::string>>;
}  // namespace embers::job
