#pragma once

#include <chrono>
#include <functional>
#include <span>

#include "client/pipeline/work.h"

// Tables as a whole, between owners and a program that exports or imports them. These functions wait, in a
// thread of the caller's. An owner's error is thrown as owner_failure() says it; one that has not answered by
// then is a kTimeout.
namespace embers {

// Calls visit(keys, rows without slots) for all rows of the table, part by part, owner by owner. `timeout` is
// for each part, `job` the number of the job's run.
void scan_table(caf::scoped_actor& self, const Owners& owners, uint64_t job, TableId table,
                caf::duration timeout,
                const std::function<void(KeysView keys, std::span<const float> rows)>& visit);

// Sets rows of an embedding table, keys x dim; their slots begin anew. `number`: of this import among those
// of the session. An owner takes each once.
void import_rows(caf::scoped_actor& self, const Owners& owners, uint64_t number, TableId table, KeysView keys,
                 std::span<const float> rows, caf::duration timeout);

}  // namespace embers
