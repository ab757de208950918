#pragma once

#include <caf/all.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/routing/route.h"
#include "schema/table_spec.h"
#include "storage/external/external_reader.h"

namespace embers {

// One read of the latest rows straight from the servers of a job, whichever owners they belong to.
struct DirectRead {
  std::vector<TableKeyList> lists;       // the keys to read
  std::vector<std::span<float>> places;  // of each list's rows: keys x dim

  std::vector<std::vector<uint8_t>> found;  // of each list: which keys' rows are in their places now
  // For each owner, a version: the rows read are of this one or a later one. If any owner's version is not
  // known, nothing is found.
  std::vector<std::optional<uint64_t>> versions;
  std::shared_ptr<const void> keepalive;  // owner of keys and places
};
using DirectReadPtr = std::shared_ptr<DirectRead>;

// Reads the versions first and then the rows, so that no row is taken for newer than it is. Returns how many
// keys were found.
uint64_t read_directly(storage::ExternalReader& reader, DirectRead& read);

// Answers how many keys were found; kUnavailable or kUnreachable naming a server that did not answer; from
// then on every read gets that error.
using DirectReader = caf::typed_actor<caf::replies_to<DirectReadPtr>::with<uint64_t>>;

struct DirectReaderConfig {
  std::string backend;  // memcached | redis
  std::vector<std::string> servers;
  storage::ServerTimeouts timeouts;
  storage::ServerLogin login;
  storage::ReaderOptions rows;  // whose rows
  std::vector<TableSpec> tables;
};

// Spawns the reader of a worker, with a thread of its own, since it waits for servers. It connects to each of
// them once, when it is first asked.
DirectReader spawn_direct_reader(caf::actor_system& system, const DirectReaderConfig& config);

}  // namespace embers

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::DirectReadPtr)
