#include "storage/external/loss_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/external/stored_name.h"
#include "storage/external/stored_value.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {
namespace {

constexpr uint32_t kSurveyRows = 1 << 14;

}  // namespace

LossWatch::LossWatch(ServerReads& reads, ExternalTables& tables, const ExternalOptions& options)
    : reads_(reads),
      tables_(tables),
      options_(options),
      mark_name_(StoredNames::mark(options.job, options.owner)),
      mark_(fmt::format("{:016x}", options.run)),
      evictions_(reads.servers().size()) {}

void LossWatch::mark_servers(bool recovered) {
  for (size_t s = 0; s < reads_.servers().size(); ++s) {
    const auto& server = reads_.servers()[s];
    const auto health = server->barrier(mark_name_);
    evictions_[s] = health.evictions;
    if (health.mark != mark_ && recovered)
      fail(ErrorCode::kLost,
           "server {} was restarted or flushed while shard {} of job '{}' was away: go on from the last "
           "checkpoint (--resume)",
           server->address(), options_.owner, options_.job);
    server->set(mark_name_, mark_);
  }
  barrier();
}

void LossWatch::barrier() {
  for (size_t s = 0; s < reads_.servers().size(); ++s) {
    const auto health = reads_.servers()[s]->barrier(mark_name_);
    if (!health.refused_writes.empty()) report_loss(s, "refused a write: " + health.refused_writes);
    if (health.mark != mark_) report_loss(s, why_unmarked(health.mark));
    if (health.evictions == std::exchange(evictions_[s], health.evictions)) continue;
    // On a server that others also use, the evicted items may have been theirs.
    if (survey(s).gone > 0) report_loss(s, "evicted items because it ran out of memory");
  }
}

std::string LossWatch::why_unmarked(const std::string& mark) const {
  return mark.empty() ? "was restarted or flushed"
                      : fmt::format("is used by another run of a job '{}' (job.name)", options_.job);
}

void LossWatch::fail_missing(ExternalTable& table, KeysView keys, size_t i) {
  if (table.created.contains(keys, i)) fail_lost(table, keys, i, Part::kRow);
  fail_missing_key(table.name, keys, i);
}

void LossWatch::fail_lost(ExternalTable& table, KeysView keys, size_t i, Part part) {
  const bool slots = part == Part::kSlots;
  const size_t s = reads_.server_of(table.names.names()[slots ? keys.size() + i : i]);
  const std::string key = to_string(keys, i);
  barrier();  // finds out more
  report_loss(s,
              fmt::format("lost the {} of key {} of table '{}'", slots ? "slots" : "row", key, table.name));
}

void LossWatch::report_loss(size_t server, const std::string& what) {
  const Survey found = survey(server);
  fail(ErrorCode::kLost,
       "server {} {}: {} of the {} rows of job '{}' that it held for shard {} are gone; go on from the last "
       "checkpoint (--resume), and give the servers more memory if they ran out of it",
       reads_.servers()[server]->address(), what, found.gone, found.held, options_.job, options_.owner);
}

LossWatch::Survey LossWatch::survey(size_t server) {
  Survey result;
  for (ExternalTable& table : tables_)
    for (uint32_t begin = 0; begin < table.created.size(); begin += kSurveyRows) {
      const KeysView keys = table.created.view(begin, std::min(kSurveyRows, table.created.size() - begin));
      StoredNames names = table.names;
      names.assign(keys, table.has_slots());
      const size_t n = keys.size();
      std::vector<uint8_t> there(names.names().size());
      std::vector<uint64_t> version(n);
      reads_.fetch(names.names(), [&](size_t i, std::string_view, std::string_view value) {
        const ValueTag tag = tag_of(value);
        there[i] = tag.run == options_.run;
        if (i < n) version[i] = tag.version;
      });
      for (size_t i = 0; i < n; ++i) {
        const bool row_here = reads_.server_of(names.names()[i]) == server;
        const bool slots_here = table.has_slots() && reads_.server_of(names.names()[n + i]) == server;
        result.held += row_here || slots_here;
        result.gone +=
            (row_here && !there[i]) || (slots_here && !there[n + i] && there[i] && version[i] != 0);
      }
    }
  return result;
}

Error LossWatch::unreachable(const std::string& why) {
  try {
    for (const auto& server : reads_.servers()) server->reconnect();
    barrier();  // a server that was restarted shows it here
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnavailable) return e;
  }
  return Error(ErrorCode::kLost,
               fmt::format("{}; shard {} of job '{}' kept {} rows on {} servers: go on from the last "
                           "checkpoint (--resume)",
                           why, options_.owner, options_.job, tables_.rows(), reads_.servers().size()));
}

}  // namespace embers::storage
