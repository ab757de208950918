// What is left of a journal when its process dies at any call, and in the middle of any write, or when its
// host does.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "storage/journal/write_back_journal.h"
#include "tests/storage/store_testing.h"
#include "tests/support/simulated_disk.h"

namespace embers::storage {
namespace {

using testing_support::Died;
using testing_support::SimulatedHost;
using Notes = std::vector<std::string>;

constexpr uint64_t kJournalSeeds = 2000, kJournalLives = 6;
constexpr TableId kJournalTables = 3;
constexpr uint64_t kFewValues = 1500;  // small, so that the file of values begins anew often

// What a journal holds, by table: keys in the order of their creation.
struct Journaled {
  std::map<TableId, std::vector<int64_t>> created;
  std::map<TableId, uint64_t> versions;
  std::map<TableId, std::vector<float>> pending;
  Notes notes;

  bool operator==(const Journaled&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Journaled& content) {
  for (const auto& [table, keys] : content.created)
    out << "table " << table << ": " << keys.size() << " keys, ";
  for (const auto& [table, version] : content.versions)
    out << "table " << table << ": version " << version << ", ";
  for (const auto& [table, floats] : content.pending) out << "pending " << table << ", ";
  for (const std::string& note : content.notes) out << note << " ";
  return out;
}

// An owner's process, with all that it does with its journal.
class OwnerAtWork {
 public:
  OwnerAtWork(SimulatedHost& host, std::mt19937_64& random) : process_(host.start()), random_(random) {}

  SimulatedHost::Process& process() { return *process_; }

  // Opens the journal and takes everything.
  Journaled open() {
    journal_.emplace("/var/journal", "job", 0, 7, false, *process_, kFewValues);
    Journaled found;
    for (TableId table = 0; table < kJournalTables; ++table) {
      for (const Keys& keys : journal_->take_created(table))
        found.created[table].insert(found.created[table].end(), keys.view().ints.begin(),
                                    keys.view().ints.end());
      if (journal_->version(table) > 0) found.versions[table] = journal_->version(table);
    }
    for (auto& part : journal_->take_pending()) {
      EXPECT_EQ(part.keys.size(), part.floats.size());
      EXPECT_EQ(part.version, found.versions[part.table]);
      found.pending[part.table] = std::move(part.floats);
    }
    found.notes = journal_->take_notes();
    // One may come again, right after itself.
    found.notes.erase(std::unique(found.notes.begin(), found.notes.end()), found.notes.end());
    EXPECT_TRUE(journal_->found() || found == Journaled());
    return found;
  }

  // Does something. Returns what the journal holds then.
  Journaled step(Journaled content) {
    if (open_) {
      content.pending.clear();
      journal_->done();
      open_ = false;
    } else {
      switch (random_() % 5) {
        case 0:
          create(content);
          break;
        case 1:
          keep(content);
          break;
        default:
          begin(content);
      }
    }
    return content;
  }
  Journaled finish_pending(const Journaled& content) {
    open_ = !content.pending.empty();
    return open_ ? step(content) : content;
  }

 private:
  void create(Journaled& content) {
    std::vector<int64_t> keys(random_() % 4 + 1);
    for (int64_t& key : keys) key = static_cast<int64_t>(random_());
    const auto table = static_cast<TableId>(random_() % kJournalTables);
    content.created[table].insert(content.created[table].end(), keys.begin(), keys.end());
    journal_->created(table, Keys(keys));
  }
  Note note(Journaled& content) {
    if (random_() % 6 == 0) return {};
    const Note made{"note" + std::to_string(++notes_), random_() % 8 == 0};
    if (made.first) content.notes.clear();
    content.notes.push_back(made.bytes);
    return made;
  }
  void keep(Journaled& content) {
    const Note made = note(content);
    if (!made.bytes.empty()) journal_->note(made);
  }
  void begin(Journaled& content) {
    std::vector<WriteBackJournal::Part> parts;
    std::vector<Keys> keys;
    std::vector<std::vector<float>> floats;
    keys.reserve(kJournalTables);
    floats.reserve(kJournalTables);
    for (TableId table = 0; table < kJournalTables; ++table) {
      if (random_() % 2 == 0) continue;
      std::vector<int64_t> ints(random_() % 5);
      for (int64_t& key : ints) key = static_cast<int64_t>(random_());
      keys.emplace_back(ints);
      floats.emplace_back(ints.size());
      for (float& x : floats.back()) x = static_cast<float>(random_() % 1000);
      parts.push_back({table, ++content.versions[table], keys.back(), floats.back()});
      content.pending[table] = floats.back();
    }
    const Note made = note(content);
    open_ = true;
    journal_->begin(parts, made);
  }

  const SimulatedHost::ProcessPtr process_;
  std::mt19937_64& random_;
  std::optional<WriteBackJournal> journal_;
  bool open_ = false;
  static inline uint64_t notes_ = 0;
};

TEST(JournalCuts, AProcessThatDiesAnywhereLeavesWhatItsCallsHaveDone) {
  uint64_t deaths = 0, pending = 0;
  for (uint64_t seed = 1; seed <= kJournalSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SimulatedHost host(seed);
    Journaled content;
    for (uint64_t life = 0; life < kJournalLives; ++life) {
      OwnerAtWork owner(host, random);
      if (life + 1 < kJournalLives) owner.process().kill_after(random() % 60);
      try {
        ASSERT_EQ(owner.open(), content);
        pending += !content.pending.empty();
        content = owner.finish_pending(content);
        for (uint64_t step = random() % 40; step > 0; --step) content = owner.step(content);
      } catch (const Died&) {
        ++deaths;
      }
      owner.process().kill();
    }
  }
  EXPECT_GT(deaths, kJournalSeeds * kJournalLives / 3);
  EXPECT_GT(pending, kJournalSeeds / 2);
}

// Some of it is lost, and nobody knows how much.
TEST(JournalCuts, NothingIsTakenUpOnceItsHostHasDied) {
  for (uint64_t seed = 1; seed <= kJournalSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SimulatedHost host(seed);
    {
      OwnerAtWork owner(host, random);
      Journaled content = owner.open();
      if (seed % 4 > 0)  // its names were old
        for (const char* directory : {"/", "/var", "/var/journal"}) owner.process().sync_directory(directory);
      for (uint64_t step = random() % 40; step > 0; --step) content = owner.step(content);
    }
    host.die();
    for (int again = 0; again < 2; ++again) ASSERT_EQ(OwnerAtWork(host, random).open(), Journaled());
  }
}

}  // namespace
}  // namespace embers::storage
