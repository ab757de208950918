#pragma once

#include <memory>

#include "client/leased_work.h"
#include "client/session.h"

// What a worker's program says of its model and its work, as its master wants it.
namespace embers::client::detail {

inline KeyKind kind_of(KeyType type) { return type == KeyType::kInt64 ? KeyKind::kInt64 : KeyKind::kBytes; }
inline KeyType type_of(KeyKind kind) { return kind == KeyKind::kInt64 ? KeyType::kInt64 : KeyType::kBytes; }

// The model as the program describes it; the master adds the rest, for which names are "".
ModelSpec model_of(const WorkerOptions& options);

// Adds to `config` what a job needs whose model comes with its first worker. kInvalid where the program says
// more, or less, than the job wants: whether it has a model of its own is known only when the master is
// reached.
void tell_model(SessionConfig& config, const Core& core, const WorkerOptions& options, bool wants_values);

}  // namespace embers::client::detail
