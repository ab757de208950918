#include "storage/write_back_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "schema/errors.h"

namespace embers::storage {

struct WriteBackJournal::Record {
  uint64_t check = 0, version = 0;
  uint32_t table = 0, kind = 0;
  uint64_t keys = 0, key_bytes = 0, floats = 0;

  uint64_t payload() const {
    return keys * (is_int64() ? sizeof(int64_t) : sizeof(uint32_t)) + key_bytes + floats * sizeof(float);
  }
  bool is_int64() const { return kind == static_cast<uint32_t>(KeyKind::kInt64); }
};

namespace {

constexpr uint64_t kMostValues = 64 << 20;  // bytes of the file of values before it begins anew
constexpr uint32_t kMostTables = 1 << 20;

template <class T>
void append(std::string& to, std::span<const T> from) {
  to.append(reinterpret_cast<const char*>(from.data()), from.size_bytes());
}

template <class T>
std::vector<T> split_off(std::string_view& from, size_t n) {
  std::vector<T> out(n);
  std::memcpy(out.data(), from.data(), n * sizeof(T));
  from.remove_prefix(n * sizeof(T));
  return out;
}

std::string read_all(const std::string& path) {
  if (!std::filesystem::exists(path)) return "";
  const File file = File::open(path);
  std::string text(file.size(), 0);
  text.resize(file.read_at(0, text.data(), text.size()));
  return text;
}

}  // namespace

WriteBackJournal::WriteBackJournal(const std::string& directory, uint32_t shard, uint64_t run)
    : keys_path_(fmt::format("{}/shard-{}.keys", directory, shard)),
      values_path_(fmt::format("{}/shard-{}.values", directory, shard)),
      run_(run) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail(ErrorCode::kInvalid, "cannot make directory '{}': {}", directory, error.message());
  read_back(keys_path_, false);
  read_back(values_path_, true);
  keys_.emplace(File::append(keys_path_));
  values_.emplace(File::append(values_path_));
}

// Leaves the file with what of it reads back.
void WriteBackJournal::read_back(const std::string& path, bool values) {
  const std::string text = read_all(path);
  std::string_view rest = text;
  size_t good = 0;
  while (rest.size() >= sizeof(Record)) {
    Record record;
    std::memcpy(&record, rest.data(), sizeof record);
    const uint64_t room = rest.size() - sizeof record;
    if (record.keys > room || record.key_bytes > room || record.floats > room || record.payload() > room ||
        record.table >= kMostTables)
      break;
    const std::string_view all = rest.substr(0, sizeof record + record.payload());
    if (record.check != (hash_key(all.substr(sizeof record.check)) ^ run_)) break;
    rest.remove_prefix(all.size());
    good += all.size();
    found_ = true;
    if (left_.size() <= record.table) left_.resize(record.table + 1);
    Left& left = left_[record.table];
    left.version = std::max(left.version, record.version);
    left.pending.reset();
    if (record.keys == 0) continue;
    std::string_view payload = all.substr(sizeof record);
    Keys keys;
    if (record.is_int64()) {
      keys = Keys(split_off<int64_t>(payload, record.keys));
    } else {
      const auto ends = split_off<uint32_t>(payload, record.keys);
      keys = Keys(KeysView{KeyKind::kBytes, {}, ends, payload.substr(0, record.key_bytes)});
      payload.remove_prefix(record.key_bytes);
    }
    if (values)
      left.pending = Values{std::move(keys), split_off<float>(payload, record.floats)};
    else
      left.created.push_back(std::move(keys));
  }
  if (good < text.size()) std::filesystem::resize_file(path, good);
  if (values) values_bytes_ = good;
}

WriteBackJournal::Left WriteBackJournal::take(TableId table) {
  if (versions_.size() <= table) versions_.resize(table + 1);
  if (table >= left_.size()) return {};
  versions_[table] = left_[table].version;
  return std::exchange(left_[table], {});
}

void WriteBackJournal::created(TableId table, KeysView keys) { write(*keys_, table, 0, keys, {}); }

void WriteBackJournal::begin(TableId table, uint64_t version, KeysView keys, std::span<const float> floats) {
  write(*values_, table, version, keys, floats);
}

void WriteBackJournal::done(TableId table, uint64_t version) {
  versions_[table] = version;
  if (values_bytes_ > kMostValues) return restart_values();
  write(*values_, table, version, {}, {});
}

// The new file is whole before it takes the old one's name: nothing is pending, so versions are all it must
// say.
void WriteBackJournal::restart_values() {
  const std::string fresh = values_path_ + ".new";
  values_.emplace(File::create(fresh));
  values_bytes_ = 0;
  for (TableId table = 0; table < versions_.size(); ++table) write(*values_, table, versions_[table], {}, {});
  std::filesystem::rename(fresh, values_path_);
}

void WriteBackJournal::write(File& file, TableId table, uint64_t version, KeysView keys,
                             std::span<const float> floats) {
  Record record{0,           version,           table,        static_cast<uint32_t>(keys.kind),
                keys.size(), keys.bytes.size(), floats.size()};
  record_.assign(sizeof record, 0);
  if (keys.kind == KeyKind::kInt64)
    append(record_, keys.ints);
  else
    append(record_, keys.ends);
  record_ += keys.bytes;
  append(record_, floats);
  std::memcpy(record_.data(), &record, sizeof record);
  record.check = hash_key(std::string_view(record_).substr(sizeof record.check)) ^ run_;
  std::memcpy(record_.data(), &record.check, sizeof record.check);
  file.write(record_);
  if (&file == &*values_) values_bytes_ += record_.size();
}

}  // namespace embers::storage
