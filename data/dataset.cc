#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "data/file_dataset.h"
#include "data/row_decoder.h"
#include "schema/ids.h"

namespace embers::data {
namespace {

// The files that a pattern matches, sorted; kInvalid for a pattern that matches none.
void expand(const std::string& pattern, std::vector<std::string>& paths) {
  if (pattern.find_first_of("*?[") == std::string::npos || std::filesystem::exists(pattern)) {
    paths.push_back(pattern);
    return;
  }
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, globfree);
  if (glob(pattern.c_str(), 0, nullptr, &found) != 0 || found.gl_pathc == 0) {
    fail(ErrorCode::kInvalid, "no data file matches '{}'", pattern);
  }
  paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
}

std::vector<std::string> paths_of(const job::Job& job, Split split, const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files) expand(file, paths);
  if (!files.empty()) return paths;
  for (const std::string& file : split == Split::kTrain ? job.data.train : job.data.test) {
    expand((std::filesystem::path(job.data.dir) / file).string(), paths);
  }
  return paths;
}

std::vector<uint32_t> read_header(const SourceFile& source, const job::DataSection& data) {
  uint64_t line = 0;
  const std::vector<std::string> names = first_record(source, data, &line);
  if (names.empty()) return {};
  return header_order(names, data.columns, fmt::format("{}:{}", source.path(), line));
}

void read_vocabularies(const job::Job& job, job::Feature& feature) {
  for (job::Feature& input : feature.crossed) read_vocabularies(job, input);
  if (feature.ids.vocabulary_file.empty()) return;
  const auto path = std::filesystem::path(job.data.dir) / feature.ids.vocabulary_file;
  const auto column = std::find_if(job.data.columns.begin(), job.data.columns.end(),
                                   [&](const job::Column& c) { return c.name == feature.column; });
  const std::string place = job.place({"features", feature.name, "vocabulary_file"});
  feature.ids.vocabulary = at_place(fmt::format("{}: [features] '{}'", place, feature.name), [&] {
    return job::Vocabulary::read(path.string(), feature.ids.vocabulary_size,
                                 column->type == job::ColumnType::kInt);
  });
}

void describe_vocabularies(const job::Feature& feature, std::vector<std::string>& lines) {
  for (const job::Feature& input : feature.crossed) describe_vocabularies(input, lines);
  if (feature.ids.vocabulary_file.empty()) return;
  const std::vector<std::string>& entries = feature.ids.vocabulary->entries();
  lines.push_back(fmt::format("vocabulary of feature '{}' with {} entries and digest {:016x}", feature.name,
                              entries.size(), hash_key(fmt::format("{}", fmt::join(entries, "\n")))));
}

// The job with the vocabularies that features and the inputs of crossed ones name; their paths are relative
// to data.dir.
job::Job with_vocabularies(job::Job job) {
  for (job::Feature& feature : job.features) read_vocabularies(job, feature);
  return job;
}

}  // namespace

FileDataset::FileDataset(const job::Job& job, Split split, const std::string& index_dir,
                         const std::vector<std::string>& files)
    : job_(with_vocabularies(job)), split_(split) {
  for (const std::string& path : paths_of(job_, split, files))
    sources_.push_back(SourceFile::open(path, index_dir));
  for (const auto& source : sources_) {
    orders_.push_back(job_.data.header ? read_header(*source, job_.data) : std::vector<uint32_t>());
  }
  const auto saved =
      std::filesystem::path(index_dir) / (split == Split::kTrain ? "train.index" : "test.index");
  if (!index_dir.empty()) {
    if (auto loaded = load_index(saved.string(), sources_, job_.data)) {
      index_ = std::move(*loaded);
      return;
    }
  }
  index_ = build_index(sources_, job_.data);
  if (!index_dir.empty()) save_index(saved.string(), index_, job_.data);
}

uint64_t FileDataset::minibatches() const {
  const uint64_t size = job_.training.batch_size;
  return (records() + size - 1) / size;
}

std::vector<std::string> FileDataset::signature() const {
  const bool train = split_ == Split::kTrain;
  std::vector<std::string> lines{
      fmt::format("training.batch_size = {}", job_.training.batch_size),
      fmt::format("data.on_bad_row = {}", job_.data.skip_bad_rows ? "skip" : "error")};
  if (train) {
    lines.push_back(fmt::format("job.seed = {}", job_.job.seed));
    lines.push_back(fmt::format("data.shuffle = {}", job_.data.shuffle));
    lines.push_back(fmt::format("data.block_records = {}", job_.data.block_records));
  }
  for (const job::Feature& feature : job_.features) describe_vocabularies(feature, lines);
  for (const RecordIndex::File& file : index_.files)
    lines.push_back(fmt::format("{} file {} with {} records and digest {:016x}", train ? "training" : "test",
                                std::filesystem::path(file.path).filename().string(), file.records,
                                file.digest));
  return lines;
}

std::string FileDataset::read_block(const RecordIndex::Block& block) const {
  std::string bytes(block.end - block.offset, '\0');
  sources_[block.file]->read(block.offset, bytes);
  return bytes;
}

std::shared_ptr<const Dataset> Dataset::open(const job::Job& job, Split split, const std::string& index_dir,
                                             const std::vector<std::string>& files) {
  return std::make_shared<const FileDataset>(job, split, index_dir, files);
}

}  // namespace embers::data
