#pragma once

#include <memory>
#include <string>

#include "schema/messages/codec.h"
#include "schema/table_spec.h"

namespace embers {

// What a worker says of a job that has no model and data of its own: the first one decides, later ones must
// agree.
struct ToldModel {
  // As it came, a name "" stands for the job's update rule, or the default initializer; once the master has
  // settled it, it is the job's model.
  ModelSpec model;
  uint64_t records = 0;  // in an epoch
  uint32_t batch_size = 0, epochs = 0;
  bool drop_last = false;  // an epoch's last minibatch is left out if it is short

  uint64_t minibatches() const;  // in an epoch
  // What decides which records a minibatch has, as lines of a checkpoint's cursor.
  std::vector<std::string> amount() const;
};

// First values of parameters and of buffers, in chunks (dense_chunks()); empty: zeros.
struct FirstValues {
  std::span<const float> dense, buffers;
};

// kInvalid saying what cannot be: a name twice, no dim, a negative shape, no work.
void check(const ToldModel& told);

void write(wire::ToldModel::Builder out, const ToldModel& told, const FirstValues& values);
// Checked.
ToldModel read(wire::ToldModel::Reader in);
// kBadFrame unless they are for that model.
FirstValues read_values(wire::ToldModel::Reader in);

// "" when equal, else the first difference: "table 'user': optimizer adam { learning_rate = 0.001 } at the
// master, ... at the worker".
std::string difference(const ToldModel& mine, const ToldModel& theirs);

// For messages: "adam { learning_rate = 0.001 }".
std::string describe(const UpdateRuleSpec& rule);

}  // namespace embers
