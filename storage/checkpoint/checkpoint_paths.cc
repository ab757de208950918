#include "storage/checkpoint/checkpoint_paths.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/errors.h"
#include "base/files/file.h"
#include "base/files/output_file.h"

namespace embers::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kRowsPrefix = "rows-";

// N of "rows-N", or 0 for another name.
uint64_t rows_number(const std::string& name) {
  uint64_t number = 0;
  if (!name.starts_with(kRowsPrefix)) return 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kRowsPrefix.size(), end, number);
  return parsed.ptr == end ? number : 0;
}

std::vector<std::string> rows_names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (rows_number(entry.path().filename().string()) > 0) names.push_back(entry.path().filename().string());
  return names;
}

// A file of this name that another program wrote must survive. A damaged manifest need not.
void check_manifest_is_ours(const fs::path& manifest) {
  std::ifstream in(manifest);
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (in && !json.is_discarded() && !(json.is_object() && json.contains("tables")))
    fail(ErrorCode::kInvalid, "'{}' is not the manifest of a checkpoint: choose another directory",
         manifest.string());
}

void check(const CheckpointPaths& paths) {
  fs::path existing = paths.directory;
  while (!fs::exists(existing)) existing = existing.parent_path();
  check_writable(existing, paths.directory.string());
  check_manifest_is_ours(paths.manifest);
}

void prepare(const CheckpointPaths& paths) {
  if (fs::create_directories(paths.directory)) sync_directory(paths.directory.parent_path());
  check_manifest_is_ours(paths.manifest);
  fs::remove_all(paths.fresh_rows);
  fs::create_directory(paths.fresh_rows);
}

std::string next(const CheckpointPaths& paths) {
  uint64_t last = 0;
  for (const std::string& name : rows_names(paths.directory)) last = std::max(last, rows_number(name));
  return fmt::format("{}{}", kRowsPrefix, last + 1);
}

void replace(const CheckpointPaths& paths, const std::string& rows) {
  sync_directory(paths.fresh_rows);
  fs::rename(paths.fresh_rows, paths.directory / rows);
  sync_directory(paths.directory);
  fs::rename(fresh_path(paths.manifest), paths.manifest);
  sync_directory(paths.directory);
  for (const std::string& name : rows_names(paths.directory))
    if (name != rows) fs::remove_all(paths.directory / name);
}

// Errors of std::filesystem name the paths and what the system said.
template <class Action>
auto naming(const std::string& directory, const Action& action) {
  try {
    return action();
  } catch (const fs::filesystem_error& error) {
    fail(file_error_code(error.code().value()), "checkpoint '{}': {}", directory, error.what());
  }
}

}  // namespace

CheckpointPaths checkpoint_paths(const std::string& directory) {
  return naming(directory, [&]() -> CheckpointPaths {
    fs::path path = directory.empty() ? fs::path() : fs::weakly_canonical(fs::absolute(directory));
    if (!path.has_filename()) path = path.parent_path();  // "dir/"
    if (!path.has_filename())
      fail(ErrorCode::kInvalid, "'{}' cannot be the directory of a checkpoint", directory);
    return {path, fresh_path(path / "rows"), path / kManifestFile};
  });
}

void check_checkpoint(const CheckpointPaths& paths) {
  naming(paths.directory.string(), [&] { check(paths); });
}

void prepare_checkpoint(const CheckpointPaths& paths) {
  naming(paths.directory.string(), [&] { prepare(paths); });
}

std::string next_rows(const CheckpointPaths& paths) {
  return naming(paths.directory.string(), [&] { return next(paths); });
}

void replace_checkpoint(const CheckpointPaths& paths, const std::string& rows) {
  naming(paths.directory.string(), [&] { replace(paths, rows); });
}

}  // namespace embers::storage
