#include "actors/routing/direct_reads.h"

#include <algorithm>
#include <optional>

#include "actors/errors.h"
#include "actors/spawn.h"

namespace embers {
namespace {

struct ReaderState {
  ReaderState() = default;                             // no aggregate: see actors/README.md
  std::unique_ptr<storage::ExternalReader> connected;  // null before the first read
  std::optional<Error> failed;  // set once a server did not answer: the answer to every later read
  static inline const char* name = "direct_reader";

  uint64_t read(const DirectReaderConfig& c, DirectRead& asked) {
    if (failed) throw Error(*failed);
    try {
      if (!connected)
        connected = std::make_unique<storage::ExternalReader>(
            storage::connect_servers(c.backend, c.servers, c.timeouts, c.login), c.rows, c.tables);
      return read_directly(*connected, asked);
    } catch (const Error& e) {
      failed = e;
      throw;
    }
  }
};

}  // namespace

uint64_t read_directly(storage::ExternalReader& reader, DirectRead& read) {
  read.found.clear();
  for (const TableKeyList& list : read.lists) read.found.emplace_back(list.keys.size());
  read.versions = reader.versions();
  const auto known = [](const auto& version) { return version.has_value(); };
  if (!std::all_of(read.versions.begin(), read.versions.end(), known)) return 0;
  std::vector<storage::ExternalReader::TableRead> tables;
  for (size_t i = 0; i < read.lists.size(); ++i)
    tables.push_back({read.lists[i].table, read.lists[i].keys, read.places[i], read.found[i]});
  return reader.gather(tables);
}

DirectReader spawn_direct_reader(caf::actor_system& system, const DirectReaderConfig& config) {
  const auto behavior = [](DirectReader::stateful_pointer<ReaderState> self,
                           const DirectReaderConfig& config) -> DirectReader::behavior_type {
    return {[self, config](const DirectReadPtr& read) {
      return guarded(Kind::kPullRequest, [&] { return self->state.read(config, *read); });
    }};
  };
  return spawn_with_thread(system, behavior, config);
}

}  // namespace embers
