#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "storage/external/external_tables.h"
#include "storage/external/server_reads.h"

namespace embers::storage {

// Notices when a server has lost something of an owner's, and says what. Servers forget without saying so, so
// three things are checked: a mark that is left at each server when the store begins (gone after a restart or
// a flush, different if another run took the job's name), the server's count of evicted items, and the
// versions of rows and slots (see UpdateSteps). Every loss is kLost naming server, reason and how many rows
// are gone. *Thread safety*: none.
class LossWatch {
 public:
  // All must outlive it.
  LossWatch(ServerReads& reads, ExternalTables& tables, const ExternalOptions& options);

  // Leaves the mark at every server. `recovered`: the owner's last process left it, and it must still be
  // there.
  void mark_servers(bool recovered);
  // Waits until all earlier writes have been carried out, and checks that nothing was lost.
  void barrier();

  // The i-th of `keys`, which the table's names belong to, has no row: kMissingKey if it never had one, else
  // kLost.
  [[noreturn]] void fail_missing(ExternalTable& table, KeysView keys, size_t i);
  // kLost: the row, or the slots, of the i-th of `keys` should be there, at the expected version, but are
  // not.
  enum class Part { kRow, kSlots };
  [[noreturn]] void fail_lost(ExternalTable& table, KeysView keys, size_t i, Part part);

  // Runs `body`; a server that cannot be reached counts as the loss of all that it holds, for good: after
  // that, no request waits for a server.
  template <class Body>
  auto guarded(Body&& body) -> decltype(body()) {
    if (unreachable_) throw Error(*unreachable_);
    try {
      return body();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnavailable) throw;
      unreachable_ = unreachable(e.what());
      throw Error(*unreachable_);
    }
  }

 private:
  struct Survey {
    uint64_t held = 0, gone = 0;  // rows
  };
  // Asks this server for every row and all slots that it should hold.
  Survey survey(size_t server);
  [[noreturn]] void report_loss(size_t server, const std::string& what);
  std::string why_unmarked(const std::string& mark) const;
  Error unreachable(const std::string& why);

  ServerReads& reads_;
  ExternalTables& tables_;
  const ExternalOptions& options_;
  const std::string mark_name_, mark_;
  std::vector<uint64_t> evictions_;   // of each server, when last checked
  std::optional<Error> unreachable_;  // what every call answers once a server could not be reached
};

}  // namespace embers::storage
