#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/document/job_text.h"
#include "job/features/data_section.h"
#include "job/features/feature.h"
#include "job/features/feature_schema.h"
#include "job/features/input_column.h"
#include "job/sections/job_section.h"
#include "job/sections/model_section.h"
#include "job/sections/storage_section.h"
#include "job/sections/training_section.h"

namespace embers::job {

struct Job {
  JobText source;
  bool from_worker = false;  // its file has neither [model] nor [data]: they come with its first worker
  JobSection job;
  ModelSection model;
  DataSection data;
  std::vector<Feature> features;     // in order of the file
  std::vector<InputColumn> columns;  // [columns], in order of the file; empty: the model takes all features
  UpdateRuleSpec optimizer;
  TrainingSection training;
  StorageSection storage;

  // Whether a worker says what the model is: a program that joins a job without [model], or one that runs the
  // Python model that [model] names. Nobody else knows its tables and parameters.
  bool model_from_worker() const { return from_worker || !model.python.empty(); }
  // Whether it gives this section, in the file or by --set. Parses the text again.
  bool gives(const std::string& section) const;
  FeatureSchema feature_schema() const;
  // Where the value at this path of keys is, for messages: "job.toml:12", or "--set a.b=c"; if there is no
  // such value, the place of its section or of the file. Parses the text again: for errors only.
  std::string place(const std::vector<std::string>& keys) const;
  // Applies the job's optimizer and [storage.tables] to the spec of an embedding table. `dim` is only
  // checked: a model asks dim_for() first.
  void apply_overrides(TableSpec& table) const { apply_overrides(table, optimizer); }
  // The same with another update rule in the place of the job's.
  void apply_overrides(TableSpec& table, const UpdateRuleSpec& update_rule) const;
  // Dim that [storage.tables] gives a table, else `otherwise`.
  uint32_t dim_for(const std::string& table, uint32_t otherwise) const;
};

// Reads the file; kInvalid naming it if it cannot be read.
JobText read_job(const std::string& path, std::vector<std::string> overrides);

// Every value that the job gives, as "section.key = value", except what may differ between processes of one
// job: where files are, and how a worker uses its host.
std::vector<std::string> settings(const JobText& text);

// Parses and validates everything that needs no data: syntax, unknown keys (nearest known one suggested),
// types, ranges, references between columns and features. Errors are kInvalid with "file:line: ...". Values
// of [model] other than name and library are left for the model to check.
Job parse_job(JobText text);

// For a job that only evaluates: its rows stay in memory, whatever its backend, since a job that is training
// may be using the servers and the journal.
void keep_rows_in_memory(Job& job);

// Every key that parse_job() knows, from the readers themselves. Besides these, there are the parameters of
// models, update rules, initializers, constraints and schedules.
KnownKeys known_keys();

}  // namespace embers::job
