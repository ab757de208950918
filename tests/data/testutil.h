#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/dataset.h"
#include "job/job.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace embers::data {

using namespace job;
using testing_support::TempDir;

// Writes a file into the folder and returns its path.
inline std::string write_file(const TempDir& dir, const std::string& name, std::string_view text) {
  std::ofstream(dir / name, std::ios::binary) << text;
  return dir / name;
}

// The message of the Error of this code that `action` must throw.
inline std::string message_of(const std::function<void()>& action, ErrorCode code = ErrorCode::kInvalid) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(name(e.code()), name(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

#define EXPECT_MENTIONS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

// A job file with the least that is needed: [model], then a [data] section with `data` in it, then `rest`.
inline std::string job_text(const std::string& data, const std::string& rest = "") {
  return "[model]\nname = \"m\"\n[data]\ntrain = \"t.csv\"\n" + data + "\n" + rest;
}

inline Job parse(const std::string& text, std::vector<std::string> overrides = {}) {
  return parse_job({"job.toml", text, std::move(overrides)});
}

inline std::string parse_error(const std::string& text, std::vector<std::string> overrides = {}) {
  return message_of([&] { parse(text, std::move(overrides)); });
}

// A job over one file t.csv in `dir`, which gets the text.
inline Job job_over(const TempDir& dir, const std::string& csv, const std::string& data,
                    const std::string& rest = "", std::vector<std::string> overrides = {}) {
  write_file(dir, "t.csv", csv);
  Job job = parse(job_text(data, rest), std::move(overrides));
  job.data.dir = dir.path().string();
  return job;
}

// All of epoch 0 in one minibatch, in file order.
inline Minibatch read_all(const Job& job) {
  Job whole = job;
  whole.training.batch_size = 1 << 20;
  return MinibatchReader::make(Dataset::open(whole, Split::kTrain, ""), false)->read(0, 0);
}

inline std::string read_error(const Job& job) {
  return message_of([&] { read_all(job); });
}

// The keys of a feature as texts, examples divided by '|' and keys by ','.
inline std::string keys_of(const Ids& ids) {
  std::string out;
  for (int64_t e = 0; e < ids.examples(); ++e) {
    if (e > 0) out += '|';
    for (int64_t i = ids.offsets[e]; i < ids.offsets[e + 1]; ++i) {
      if (i > ids.offsets[e]) out += ',';
      out += to_string(ids.keys.view(), static_cast<size_t>(i));
    }
  }
  return out;
}

}  // namespace embers::data
