// Calls of a session for rows and parameters, in their callers' threads.
#include <algorithm>

#include "client/arguments.h"
#include "client/pipeline/pull.h"
#include "client/pipeline/whole_tables.h"
#include "client/session_impl.h"

namespace embers::client {

using namespace detail;

namespace {

// Rows travel in parts of this many bytes at most, so that no message is too large.
constexpr size_t kPartBytes = size_t{32} << 20;
constexpr auto kFirstValues = std::chrono::milliseconds(20);  // between two looks for them

Versions versions_of(const embers::Work& work) {
  Versions versions{UINT64_MAX, 0};
  for (const auto& version : work.versions) {
    if (!version) continue;
    versions.oldest = std::min(versions.oldest, *version);
    versions.newest = std::max(versions.newest, *version);
  }
  return versions.oldest == UINT64_MAX ? Versions{} : versions;
}

}  // namespace

void Session::Impl::throw_failed(const std::string& table, const Error& why) {
  if (why.code() == ErrorCode::kUnavailable || why.code() == ErrorCode::kUnreachable)
    core->throw_end_within(kVerdict);
  fail(why.code(), "table '{}' of job '{}': {}", table, job, why.what());
}

void Session::Impl::only_reads(embers::Work& work, const Owners& owners) const {
  work.evaluate = true;  // creates no rows
  work.origin.job = run;
  work.origin.incarnation = owners.incarnation;
  work.origin.map_version = owners.map.version;
  work.versions.assign(owners.handles.size(), std::nullopt);
}

template <class Ask>
auto Session::Impl::ask_owners(const std::string& table, Clock::time_point deadline, const Ask& ask) {
  std::shared_ptr<const Owners> owners = core->owners(deadline);
  for (;;) {
    try {
      return ask(*owners);
    } catch (const Error& e) {
      if (!has_moved(*owners, e)) throw_failed(table, e);
      core->look(owners->map.version);
      auto moved = core->owners(deadline, owners.get());
      if (!moved)
        fail(ErrorCode::kTimeout,
             "table '{}' of job '{}': {}, and is not back within {:g} s (Options::timeout)", table, job,
             e.what(), options.timeout.count());
      owners = std::move(moved);
    }
  }
}

Versions Session::Impl::read(caf::actor_system& system, const std::string& table,
                             const std::vector<TableKeyList>& lists,
                             const std::vector<std::span<float>>& places, Clock::time_point deadline) {
  return ask_owners(table, deadline, [&](const Owners& owners) {
    embers::Work work;
    only_reads(work, owners);
    caf::scoped_actor self{system};
    pull_now(self, owners, work, lists, places, until(deadline));
    return versions_of(work);
  });
}

template <class Bytes, class Part>
Versions Session::Impl::look_up(std::string_view name, KeyKind kind, size_t keys, std::span<float> rows,
                                const Bytes& bytes, const Part& part) {
  core->check_process();
  const SystemUse use(*core);
  const Clock::time_point deadline = after(options.timeout);
  const auto owners = core->owners(deadline);
  const TableId id = find_table(owners->tables, name);
  const embers::TableSpec& table = owners->tables[id];
  check_kind(table, kind);
  check_size(fmt::format("the place for {} rows of table '{}'", keys, table.name), rows.size(),
             keys * table.dim);
  Versions all{UINT64_MAX, 0};
  for (size_t begin = 0, n; begin < keys; begin += n) {
    size_t size = 0;
    for (n = 0; begin + n < keys && (n == 0 || size < kPartBytes); ++n)
      size += std::max(bytes(begin + n), table.dim * sizeof(float));
    const auto list = part(begin, n);
    const Versions v = read(use.system(), table.name, {{id, list}},
                            {rows.subspan(begin * table.dim, n * table.dim)}, deadline);
    all = {std::min(all.oldest, v.oldest), std::max(all.newest, v.newest)};
  }
  return keys == 0 ? Versions{} : all;
}

Versions Session::Impl::lookup(std::string_view name, std::span<const int64_t> keys, std::span<float> rows) {
  return look_up(
      name, KeyKind::kInt64, keys.size(), rows, [](size_t) { return sizeof(int64_t); },
      [&](size_t begin, size_t n) {
        return KeysView{KeyKind::kInt64, keys.subspan(begin, n), {}, {}};
      });
}

Versions Session::Impl::lookup(std::string_view name, std::span<const std::string_view> keys,
                               std::span<float> rows) {
  return look_up(
      name, KeyKind::kBytes, keys.size(), rows, [&](size_t i) { return keys[i].size() + sizeof(uint32_t); },
      [&](size_t begin, size_t n) {
        Keys list(KeyKind::kBytes);
        for (const std::string_view key : keys.subspan(begin, n)) list.push_back(key);
        return list;
      });
}

std::optional<Versions> Session::Impl::lookup_for(std::chrono::duration<double> time, std::string_view name,
                                                  KeysView keys, std::span<float> rows) {
  core->check_process();
  const SystemUse use(*core);
  const auto owners = core->known_owners();
  if (!owners || owners->direct) return std::nullopt;
  const TableId id = find_table(owners->tables, name);
  const embers::TableSpec& table = owners->tables[id];
  check_kind(table, keys.kind);
  check_size(fmt::format("the place for {} rows of table '{}'", keys.size(), table.name), rows.size(),
             keys.size() * table.dim);
  if (keys.size() == 0) return Versions{};
  if (rows.size_bytes() > kPartBytes || keys.bytes.size() > kPartBytes) return std::nullopt;
  embers::Work work;
  only_reads(work, *owners);
  try {
    caf::scoped_actor self{use.system()};
    pull_now(self, *owners, work, {{id, keys}}, {rows}, until(after(time)));
    return versions_of(work);
  } catch (const Error&) {
    return std::nullopt;  // lookup() knows where the rows have gone, or says what is wrong
  }
}

std::vector<std::vector<float>> Session::Impl::parameters() {
  core->check_process();
  const SystemUse use(*core);
  const Clock::time_point deadline = after(options.timeout);
  const DenseKeys keys(core->model);
  FloatBuffer dense(keys.dense.size() * kDenseChunk), buffers(keys.buffers.size() * kDenseChunk);
  std::vector<TableKeyList> lists;
  std::vector<std::span<float>> places;
  const auto ask_for = [&](const char* table, const Keys& chunks, FloatBuffer& place) {
    if (chunks.empty()) return;
    lists.push_back({core->model.table_id(table), chunks});
    places.push_back(place.span());
  };
  ask_for(kDenseTable, keys.dense, dense);
  ask_for(kBufferTable, keys.buffers, buffers);
  for (bool there = lists.empty(); !there;) {
    try {
      read(use.system(), kDenseTable, lists, places, deadline);
      there = true;
    } catch (const Error& e) {
      // Who has joined may be quicker than the master, which sets their first values.
      if (e.code() != ErrorCode::kMissingKey || Clock::now() + kFirstValues > deadline) throw;
      core->throw_end_within(kFirstValues);
    }
  }
  std::vector<std::vector<float>> values;
  for (const ParameterPlace& place : core->places) {
    const auto from = (place.buffer ? buffers : dense).span().subspan(place.begin, place.size);
    values.emplace_back(from.begin(), from.end());
  }
  return values;
}

void Session::Impl::scan(std::string_view name, const Visitor& visit) {
  core->check_process();
  const SystemUse use(*core);
  const auto owners = core->owners(after(options.timeout));
  const TableId id = find_table(owners->tables, name);
  try {
    caf::scoped_actor self{use.system()};
    scan_table(self, *owners, run, id, until(after(options.timeout)),
               [&](KeysView keys, std::span<const float> rows) {
                 std::vector<std::string_view> bytes;
                 if (keys.kind == KeyKind::kBytes)
                   for (size_t i = 0; i < keys.size(); ++i) bytes.push_back(keys.bytes_at(i));
                 visit({name, keys.ints, bytes}, rows);
               });
  } catch (const Error& e) {
    throw_failed(owners->tables[id].name, e);
  }
}

// In parts, so that no message is too large.
void Session::Impl::import_rows(const TableKeys& given, std::span<const float> rows) {
  core->check_process();
  const SystemUse use(*core);
  const Clock::time_point deadline = after(options.timeout);
  const auto owners = core->owners(deadline);
  const TableId id = find_table(owners->tables, given.table);
  const uint32_t dim = owners->tables[id].dim;
  const bool is_bytes = !given.bytes.empty();
  const size_t size = is_bytes ? given.bytes.size() : given.ints.size();
  if (size > 0) check_kind(owners->tables[id], is_bytes ? KeyKind::kBytes : KeyKind::kInt64);
  check_size(fmt::format("{} rows of table '{}'", size, given.table), rows.size(), size * dim);
  for (size_t begin = 0, n; begin < size; begin += n) {
    Keys keys(is_bytes ? KeyKind::kBytes : KeyKind::kInt64);
    size_t bytes = 0;
    for (n = 0; begin + n < size && (n == 0 || bytes < kPartBytes); ++n) {
      bytes += dim * sizeof(float) + (is_bytes ? given.bytes[begin + n].size() : sizeof(int64_t));
      is_bytes ? keys.push_back(given.bytes[begin + n]) : keys.push_back(given.ints[begin + n]);
    }
    const uint64_t number = ++imports_;
    ask_owners(owners->tables[id].name, deadline, [&](const Owners& now) {
      caf::scoped_actor self{use.system()};
      embers::import_rows(self, now, number, id, keys, rows.subspan(begin * dim, n * dim), until(deadline));
    });
  }
}

}  // namespace embers::client
