#include "storage/external/server_reads.h"

#include <algorithm>
#include <exception>

namespace embers::storage {
namespace {

// Of a request to one server, which fits into the buffers of sockets as they come: a server may take no more
// of it before its answers are read, and they are read when all of it was sent.
constexpr size_t kMostBytes = 32 << 10;
constexpr size_t kBytesBesideName = 24;  // memcached's header

}  // namespace

ServerReads::ServerReads(KeyValueServers servers) : servers_(std::move(servers)) {
  for (Parts& parts : parts_) parts.resize(servers_.all.size());
  for (const auto& server : servers_.all) most_requests_ = std::min(most_requests_, server->most_requests());
}

// All servers are asked before the first answer is read, and again meanwhile if they take that. After a
// failure, what is under way is read nevertheless: it would be taken for the next answer.
void ServerReads::fetch(const std::vector<std::string_view>& names, const Visit& visit) {
  size_t begin = 0, asked = 0, received = 0;
  std::exception_ptr first;
  const auto more = [&] { return begin < names.size() && !first; };
  while (more() || received < asked) {
    while (more() && asked - received < most_requests_) {
      Parts& parts = parts_[asked++ % kMostRequests];
      begin = spread(names, begin, parts);
      for (size_t s = 0; s < parts.size(); ++s) servers_.all[s]->request(parts[s].names);
    }
    try {
      receive(parts_[received++ % kMostRequests], first ? Visit([](auto&&...) {}) : visit);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Deals names [begin, end) out to the servers, until one of them has a request's worth. Returns the end.
size_t ServerReads::spread(const std::vector<std::string_view>& names, size_t begin, Parts& parts) {
  for (Part& part : parts) {
    part.names.clear();
    part.places.clear();
    part.bytes = 0;
  }
  for (size_t i = begin; i < names.size(); ++i) {
    Part& part = parts[server_of(names[i])];
    part.names.push_back(names[i]);
    part.places.push_back(i);
    part.bytes += kBytesBesideName + names[i].size();
    if (part.bytes >= kMostBytes) return i + 1;
  }
  return names.size();
}

// Of every server, even after a failure.
void ServerReads::receive(const Parts& parts, const Visit& visit) {
  std::exception_ptr first;
  for (size_t s = 0; s < parts.size(); ++s) {
    try {
      servers_.all[s]->receive([&, &part = parts[s]](size_t i, std::string_view value) {
        visit(part.places[i], part.names[i], value);
      });
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

size_t ServerReads::gather(uint64_t run, std::span<const TableRead> tables, const Each& each) {
  names_.clear();
  ends_.clear();
  for (const TableRead& table : tables) {
    std::fill(table.found.begin(), table.found.end(), 0);
    table.names->assign(table.keys, false);
    names_.insert(names_.end(), table.names->names().begin(), table.names->names().end());
    ends_.push_back(names_.size());
  }
  size_t count = 0;
  fetch(names_, [&](size_t place, std::string_view name, std::string_view value) {
    const auto t = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin());
    const TableRead& table = tables[t];
    const size_t i = place - (t == 0 ? 0 : ends_[t - 1]);
    ValueTag tag;
    if (!read_value(value, name, run, table.names->rest(table.keys, i), tag,
                    table.out.subspan(i * table.dim, table.dim)))
      return;
    table.found[i] = 1;
    ++count;
    each(t, i, tag);
  });
  return count;
}

}  // namespace embers::storage
