#pragma once

#include <map>
#include <string>
#include <vector>

namespace embers::job {

// A job file as it travels: the master sends it to workers and owners, who parse it again.
struct JobText {
  std::string path;                    // for messages (file:line)
  std::string text;                    // TOML
  std::vector<std::string> overrides;  // "a.b=c", applied in order; c is TOML, or a bare string
};

// Keys by section, in the order in which they are read. Entries of [features], of [columns], of data.columns
// and of [storage.tables] have a section in common each: "features", "columns", "data.columns" and
// "storage.tables".
using KnownKeys = std::map<std::string, std::vector<std::string>>;
}  // namespace embers::job
