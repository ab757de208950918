#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/disk.h"
#include "schema/ids.h"
#include "schema/table_spec.h"
#include "storage/journal/journal_lock.h"

namespace embers::storage {

// What the caller wants to know about one apply after a restart: bytes that only the caller understands.
struct Note {
  std::string bytes;   // "": nothing
  bool first = false;  // those before it are no longer of interest
};

// What an owner writes down about an external store's tables, so that after it was killed in the middle of a
// write-back, its next process finishes that, knows the keys, and knows what was applied. Three files in its
// directory:
//
//   shard-<n>.keys    the keys it created; only appended to
//   shard-<n>.values  each apply, whole, before the first of its values is written; started over when it has
//                     grown, with nothing but the tables' versions
//   shard-<n>.ledger  the notes of the applies that are written back; started over by a note that is `first`
//
// Data counts as written when the operating system has it: it outlives the process, but not the host. A call
// takes effect as a whole or, if the process dies in it, not at all. See write_back_journal.cc for the bytes.
// *Thread safety*: none.
class WriteBackJournal {
 public:
  // New values of one table.
  struct Part {
    TableId table = 0;
    uint64_t version = 0;  // the version that they make
    KeysView keys;
    std::span<const float> floats;
  };
  struct OwnedPart {
    TableId table = 0;
    uint64_t version = 0;
    Keys keys;
    std::vector<float> floats;
  };

  // Opens the files of an owner, which no other process may hold (see JournalLock); those of another run,
  // and those from before the host was started, are started over. kInvalid naming the path when they cannot
  // be. `takes_over`: from a lost process, so that kInvalid if there is nothing of this run; then nothing is
  // started over, as the files may be those of another host. `most_values`: bytes of the file of values,
  // beyond which it is started over.
  WriteBackJournal(const std::string& directory, const std::string& job, uint32_t owner, uint64_t run,
                   bool takes_over = false, Disk& disk = host_disk(), uint64_t most_values = kMostValues);
  static constexpr uint64_t kMostValues = 64 << 20;

  // --- what the owner's last process left; each may be taken once --------------------------------

  bool found() const { return found_; }  // files of this run
  std::vector<Keys> take_created(TableId table);
  uint64_t version(TableId table) const { return table < versions_.size() ? versions_[table] : 0; }
  // The apply that may not have been written back; done() must follow.
  std::vector<OwnedPart> take_pending() { return std::move(pending_); }
  // In order; each may come again, right after itself.
  std::vector<std::string> take_notes() { return std::move(notes_); }

  // --- what happens --------------------------------------------------------------------------------

  void created(TableId table, KeysView keys);
  // Before the first value of an apply is written, and after the last.
  void begin(std::span<const Part> parts, const Note& note);
  void done();
  // A note without an apply.
  void note(const Note& note);

 private:
  // Each returns the bytes that can be read back.
  uint64_t read_keys();
  uint64_t read_values();
  uint64_t read_notes();
  void write(File& file);
  void restart_values();
  // A new file with nothing but record_, which it holds before it takes the old one's name.
  std::unique_ptr<File> started_over(const std::string& ending);
  uint64_t& version_at(TableId table);

  const std::string path_;  // of all files, without the ending
  const uint64_t stamp_, most_values_;
  Disk& disk_;
  std::unique_ptr<const JournalLock> lock_;
  bool found_ = false;
  std::vector<std::vector<Keys>> created_;  // by table
  std::vector<uint64_t> versions_;          // by table, the last one that began
  std::vector<OwnedPart> pending_;
  std::vector<std::string> notes_;
  bool open_ = false;  // an apply has begun and is not done
  Note begun_;         // its note
  std::unique_ptr<File> keys_, values_, ledger_;
  uint64_t values_bytes_ = 0;
  std::string record_;  // scratch
  std::string broken_;  // why a record was cut off
};

// The lost process of an owner has left nothing that its next one could go on from.
[[noreturn]] void fail_without_journal(uint32_t owner, const std::string& directory);

}  // namespace embers::storage
