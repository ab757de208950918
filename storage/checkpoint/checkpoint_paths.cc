#include "storage/checkpoint/checkpoint_paths.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/errors.h"
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

std::vector<std::string> rows_names(Disk& disk, const fs::path& directory) {
  std::vector<std::string> names = disk.names_in(directory);
  std::erase_if(names, [](const std::string& name) { return rows_number(name) == 0; });
  return names;
}

// A file of this name that another program wrote must survive. A damaged manifest need not.
void check_manifest_is_ours(Disk& disk, const fs::path& manifest) {
  if (!disk.exists(manifest)) return;
  const nlohmann::json json = nlohmann::json::parse(disk.open(manifest)->read_all(), nullptr, false);
  if (!json.is_discarded() && !(json.is_object() && json.contains("tables")))
    fail(ErrorCode::kInvalid, "'{}' is not the manifest of a checkpoint: choose another directory",
         manifest.string());
}

void check(const CheckpointPaths& paths) {
  fs::path existing = paths.directory;
  while (!fs::exists(existing)) existing = existing.parent_path();
  check_writable(existing, paths.directory.string());
  check_manifest_is_ours(host_disk(), paths.manifest);
}

// Durably, with those above it.
void make_directory(Disk& disk, const fs::path& path) {
  if (disk.exists(path)) return;
  make_directory(disk, path.parent_path());
  disk.create_directories(path);
  disk.sync_directory(path.parent_path());
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

void prepare_checkpoint(Disk& disk, const CheckpointPaths& paths) {
  make_directory(disk, paths.directory);
  check_manifest_is_ours(disk, paths.manifest);
  disk.remove_all(paths.fresh_rows);
  disk.create_directories(paths.fresh_rows);
}

std::string next_rows(Disk& disk, const CheckpointPaths& paths) {
  uint64_t last = 0;
  for (const std::string& name : rows_names(disk, paths.directory)) last = std::max(last, rows_number(name));
  return fmt::format("{}{}", kRowsPrefix, last + 1);
}

void replace_checkpoint(Disk& disk, const CheckpointPaths& paths, const std::string& rows) {
  disk.sync_directory(paths.fresh_rows);
  disk.rename(paths.fresh_rows, paths.directory / rows);
  disk.sync_directory(paths.directory);
  disk.rename(fresh_path(paths.manifest), paths.manifest);
  disk.sync_directory(paths.directory);
  for (const std::string& name : rows_names(disk, paths.directory))
    if (name != rows) disk.remove_all(paths.directory / name);
}

}  // namespace embers::storage
