#include "storage/external/stored_name.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "storage/external/key_value_server.h"

namespace embers::storage {
namespace {

constexpr std::string_view kSlots = "#slots";
constexpr size_t kHashed = 1 + 32;

bool is_plain(char c) { return c > ' ' && c < 0x7f && c != '%' && c != '#'; }

size_t escaped_size(std::string_view text) {
  size_t size = 0;
  for (const char c : text) size += is_plain(c) && c != '/' ? 1 : 3;
  return size;
}

void append_escaped(std::string& to, std::string_view text, bool slashes) {
  for (const char c : text) {
    if (is_plain(c) && (slashes || c != '/'))
      to += c;
    else
      fmt::format_to(std::back_inserter(to), "%{:02X}", static_cast<uint8_t>(c));
  }
}

// Never the name of a row: those have no "#" before the table.
std::string name_of_owner(std::string_view job, std::string_view what, uint32_t owner) {
  std::string name;
  append_escaped(name, job, false);
  if (name.size() > KeyValueServer::kLongestName / 2)
    fail(ErrorCode::kInvalid, "job name '{}' is too long for keys of an external store", job);
  return fmt::format("{}#{}/{}", name, what, owner);
}

}  // namespace

StoredNames::StoredNames(std::string_view job, const TableSpec& table) {
  append_escaped(prefix_, job, false);
  prefix_ += '/';
  append_escaped(prefix_, table.name, true);
  if (table.is_part()) prefix_ += fmt::format("#{}", table.first_column);
  prefix_ += '/';
  if (prefix_.size() + kHashed + kSlots.size() > KeyValueServer::kLongestName)
    fail(
        ErrorCode::kInvalid,
        "the names of job '{}' and table '{}' are too long for keys of an external store ({} bytes): shorten "
        "them to {} bytes together",
        job, table.name, prefix_.size(), KeyValueServer::kLongestName - kHashed - kSlots.size() - 2);
}

bool StoredNames::is_long(std::string_view key) const {
  const size_t room = KeyValueServer::kLongestName - prefix_.size() - kSlots.size();
  return key.size() * 3 > room && escaped_size(key) > room;
}

void StoredNames::assign(KeysView keys, bool slots) {
  bytes_.clear();
  ends_.clear();
  names_.clear();
  for (size_t i = 0; i < keys.size(); ++i) append(keys, i, "");
  if (slots)
    for (size_t i = 0; i < keys.size(); ++i) append(keys, i, kSlots);
  size_t begin = 0;
  for (const size_t end : ends_) {
    names_.push_back(std::string_view(bytes_).substr(begin, end - begin));
    begin = end;
  }
}

void StoredNames::append(KeysView keys, size_t i, std::string_view suffix) {
  bytes_ += prefix_;
  if (keys.kind == KeyKind::kInt64) {
    const fmt::format_int text(keys.ints[i]);
    bytes_.append(text.data(), text.size());
  } else if (const std::string_view key = keys.bytes_at(i); is_long(key)) {
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    fmt::format_to(std::back_inserter(bytes_), "#{:016x}{:016x}", hash.high64, hash.low64);
  } else {
    append_escaped(bytes_, key, false);
  }
  bytes_ += suffix;
  ends_.push_back(bytes_.size());
}

std::string_view StoredNames::rest(KeysView keys, size_t i) const {
  if (keys.kind == KeyKind::kInt64 || !is_long(keys.bytes_at(i))) return {};
  return keys.bytes_at(i);
}

std::string StoredNames::mark(std::string_view job, uint32_t owner) {
  return name_of_owner(job, "shard", owner);
}

std::string StoredNames::version(std::string_view job, uint32_t owner) {
  return name_of_owner(job, "version", owner);
}

}  // namespace embers::storage
