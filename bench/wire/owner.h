#pragma once

#include <caf/all.hpp>

#include <string>

#include "actors/message_types.h"
#include "schema/messages/codec.h"
#include "schema/table_spec.h"

// An owner process, which works like a shard process: embers' side of `embers bench wire` and `embers bench
// storage`.
namespace embers {

inline constexpr uint64_t kBenchRun = 1;

// Its one table "rows", of dim kBenchDim: for "sgd", with a learning rate of 1, rows begin with zeros; for
// "adam" with 0.5.
TableSpec bench_table(const std::string& optimizer);

Origin bench_origin(uint64_t minibatch);

// An owner of the table, with rows of keys 0 .. rows-1.
OwnerHandles make_bench_owner(caf::actor_system& system, const std::string& optimizer, int64_t rows);

// The part "owner ADDRESS OPTIMIZER ROWS": serves one until its input ends; ready with its address.
void serve_bench_owner(const std::string& address, const std::string& optimizer, int64_t rows);

}  // namespace embers
