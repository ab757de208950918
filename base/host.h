#pragma once

#include <string>

// Which host this process runs on.
namespace embers {

std::string host_name();
// Tells whether two processes share a host: "" where it cannot be known.
std::string boot_id();

}  // namespace embers
