#pragma once

#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "schema/table_spec.h"

namespace embers {

struct MasterConfig;

// What a job file and a model must be like before anything is made of them. Everything is kInvalid, naming
// the place in the job file, or the table.

// The job's own update rule and servers.
void check_job(const job::Job& job);
// Besides, every initializer, update rule and constraint of the model's tables; and each entry of
// [storage.tables] must match one of them.
void check_model(const job::Job& job, const ModelSpec& model);
// Of a job that trains: clipping must be possible there.
void check_clipping(const job::Job& job, const ModelSpec& model);

// A model that a worker told (schema/messages/told_model.h) as the job has it: with the job's update rule and
// [storage.tables], and checked. `batch_size`, and what is returned: see settle_partitions().
std::vector<std::string> settle_model(const job::Job& job, ModelSpec& model, uint64_t batch_size = 0);

// Evaluation changes no row, so owners need no slots.
void without_slots(ModelSpec& model);

// The master of a job without [model] and [data]; files and callbacks are still to be set.
std::shared_ptr<MasterConfig> config_without_model(const job::Job& job);

}  // namespace embers
