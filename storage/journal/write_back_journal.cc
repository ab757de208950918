#include "storage/journal/write_back_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "storage/journal/journal_file.h"

namespace embers::storage {
namespace {

// A record of each file (see journal_file.h for what surrounds it), little-endian:
//
//   .keys    a part without floats
//   .values  kind u64:
//              kApply    note bytes u64, first u64; the note; parts
//              kDone     nothing: the apply before it is written back
//              kVersions parts without keys and floats
//   .ledger  first u64, the note
//
// A part:
//   version u64, table u32, kind u32 (KeyKind), keys, key bytes, floats u64 each
//   int64 keys, or u32 ends and bytes;  then the floats
//
// The first record that cannot be read back ends its file: it was being written when the owner died, and
// nothing was done about it yet.
enum : uint64_t { kApply = 1, kDone = 2, kVersions = 3 };

constexpr uint32_t kMostTables = 1 << 20;

struct PartHeader {
  uint64_t version = 0;
  uint32_t table = 0, kind = 0;
  uint64_t keys = 0, key_bytes = 0, floats = 0;
};

void append_part(std::string& to, const WriteBackJournal::Part& part) {
  append_number(to, PartHeader{part.version, part.table, static_cast<uint32_t>(part.keys.kind),
                               part.keys.size(), part.keys.bytes.size(), part.floats.size()});
  if (part.keys.kind == KeyKind::kInt64)
    append_span(to, part.keys.ints);
  else
    append_span(to, part.keys.ends);
  to += part.keys.bytes;
  append_span(to, part.floats);
}

WriteBackJournal::OwnedPart split_part(RecordReader& from) {
  const auto header = from.number<PartHeader>();
  if (header.table >= kMostTables) from.fail();
  WriteBackJournal::OwnedPart part{header.table, header.version, Keys(), {}};
  if (header.kind == static_cast<uint32_t>(KeyKind::kInt64)) {
    part.keys = Keys(from.list<int64_t>(header.keys));
    from.bytes(header.key_bytes);
  } else {
    const auto ends = from.list<uint32_t>(header.keys);
    part.keys = Keys(KeysView{KeyKind::kBytes, {}, ends, from.bytes(header.key_bytes)});
  }
  part.floats = from.list<float>(header.floats);
  return part;
}

}  // namespace

WriteBackJournal::WriteBackJournal(const std::string& directory, const std::string& job, uint32_t owner,
                                   uint64_t run, bool takes_over, Disk& disk, uint64_t most_values)
    : path_(fmt::format("{}/shard-{}", directory, owner)),
      stamp_(journal_stamp(disk, run)),
      most_values_(most_values),
      disk_(disk) {
  disk_.create_directories(directory);
  lock_ = JournalLock::take(disk_, directory, job, owner, run);
  const uint64_t keys_bytes = read_keys();
  values_bytes_ = read_values();
  const uint64_t ledger_bytes = read_notes();
  if (takes_over && !found_) fail_without_journal(owner, directory);
  drop_after(disk_, path_ + ".keys", keys_bytes);
  drop_after(disk_, path_ + ".values", values_bytes_);
  drop_after(disk_, path_ + ".ledger", ledger_bytes);
  keys_ = disk_.append(path_ + ".keys");
  values_ = disk_.append(path_ + ".values");
  ledger_ = disk_.append(path_ + ".ledger");
  if (open_ && pending_.empty()) done();
}

uint64_t WriteBackJournal::read_keys() {
  return read_records(disk_, path_ + ".keys", stamp_, [&](RecordReader& record) {
    OwnedPart part = split_part(record);
    if (created_.size() <= part.table) created_.resize(part.table + 1);
    created_[part.table].push_back(std::move(part.keys));
    found_ = true;
  });
}

uint64_t WriteBackJournal::read_values() {
  return read_records(disk_, path_ + ".values", stamp_, [&](RecordReader& record) {
    const auto kind = record.number<uint64_t>();
    found_ = true;
    pending_.clear();
    begun_ = {};
    open_ = kind == kApply;
    if (kind == kApply) {
      const auto note_bytes = record.number<uint64_t>();
      begun_.first = record.number<uint64_t>() != 0;
      begun_.bytes = record.bytes(note_bytes);
    }
    while (!record.empty()) {
      OwnedPart part = split_part(record);
      version_at(part.table) = part.version;
      if (kind == kApply) pending_.push_back(std::move(part));
    }
  });
}

uint64_t WriteBackJournal::read_notes() {
  const uint64_t good = read_records(disk_, path_ + ".ledger", stamp_, [&](RecordReader& record) {
    if (record.number<uint64_t>() != 0) notes_.clear();
    notes_.emplace_back(record.rest());
    found_ = true;
  });
  if (begun_.bytes.empty()) return good;
  // The pending apply's note may not be in the ledger yet.
  if (begun_.first) notes_.clear();
  notes_.push_back(begun_.bytes);
  return good;
}

uint64_t& WriteBackJournal::version_at(TableId table) {
  if (versions_.size() <= table) versions_.resize(table + 1);
  return versions_[table];
}

std::vector<Keys> WriteBackJournal::take_created(TableId table) {
  return table < created_.size() ? std::move(created_[table]) : std::vector<Keys>();
}

void WriteBackJournal::created(TableId table, KeysView keys) {
  begin_record(record_);
  append_part(record_, {table, 0, keys, {}});
  write(*keys_);
}

void WriteBackJournal::begin(std::span<const Part> parts, const Note& note) {
  begin_record(record_);
  append_number(record_, uint64_t{kApply});
  append_number(record_, uint64_t{note.bytes.size()});
  append_number(record_, uint64_t{note.first});
  record_ += note.bytes;
  for (const Part& part : parts) {
    append_part(record_, part);
    version_at(part.table) = part.version;
  }
  write(*values_);
  values_bytes_ += record_.size();
  begun_ = note;
  open_ = true;
}

void WriteBackJournal::done() {
  if (!begun_.bytes.empty()) note(std::exchange(begun_, {}));
  open_ = false;
  if (values_bytes_ > most_values_) return restart_values();
  begin_record(record_);
  append_number(record_, uint64_t{kDone});
  write(*values_);
  values_bytes_ += record_.size();
}

void WriteBackJournal::note(const Note& note) {
  begin_record(record_);
  append_number(record_, uint64_t{note.first});
  record_ += note.bytes;
  if (note.first)
    ledger_ = started_over(".ledger");
  else
    write(*ledger_);
}

// Nothing is pending, so it only has to hold the versions.
void WriteBackJournal::restart_values() {
  begin_record(record_);
  append_number(record_, uint64_t{kVersions});
  for (TableId table = 0; table < versions_.size(); ++table)
    append_part(record_, {table, versions_[table], {}, {}});
  values_ = started_over(".values");
  values_bytes_ = record_.size();
}

// What a failed write has left of its record would hide all that comes after it from the owner's next
// process.
void WriteBackJournal::write(File& file) {
  if (!broken_.empty())
    fail(ErrorCode::kDisk,
         "the journal {}.* has a record that was not written to its end ({}): nothing more is written to it",
         path_, broken_);
  try {
    write_record(file, record_, stamp_);
  } catch (const Error& e) {
    broken_ = e.what();
    throw;
  }
}

std::unique_ptr<File> WriteBackJournal::started_over(const std::string& ending) {
  auto file = disk_.create(path_ + ending + ".new");
  write_record(*file, record_, stamp_);
  disk_.rename(file->path(), path_ + ending);
  return file;
}

void fail_without_journal(uint32_t owner, const std::string& directory) {
  fail(ErrorCode::kInvalid,
       "shard {} lost its process, and storage.journal '{}' on this host has no record of it: start the "
       "shard where it ran before, with the same directory; if that host was restarted, go on from the last "
       "checkpoint "
       "(--resume)",
       owner, directory);
}

}  // namespace embers::storage
