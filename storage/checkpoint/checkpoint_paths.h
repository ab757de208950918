#pragma once

#include <filesystem>
#include <string>

#include "base/files/disk.h"

namespace embers::storage {

// How one checkpoint replaces another in the same directory, which may hold other things and keeps them:
//
//   manifest.json      names the rows files that count; replacing it, by one rename, replaces all
//   rows-N/NNNN.rows   written as .rows.embers-new/, renamed before the manifest that names them is
//   rows-M/...         of the previous checkpoint: removed afterwards
//
// So at any moment the manifest names complete files; what a crash left is removed by the next writer.
struct CheckpointPaths {
  std::filesystem::path directory, fresh_rows, manifest;
};

inline constexpr char kManifestFile[] = "manifest.json";

// Links of the host are resolved first. kInvalid for "" and "/".
CheckpointPaths checkpoint_paths(const std::string& directory);

// Checks now, leaving nothing behind, that a checkpoint can be written there later. kInvalid if not.
void check_checkpoint(const CheckpointPaths& paths);

// Creates the directory, and in it fresh_rows, an empty one. kInvalid naming what cannot be written, or a
// manifest.json that does not belong to a checkpoint.
void prepare_checkpoint(Disk& disk, const CheckpointPaths& paths);

// The name that the next rows will have: "rows-N".
std::string next_rows(Disk& disk, const CheckpointPaths& paths);

// Puts a checkpoint in place, durably: fresh_rows becomes `rows`, then the file at fresh_path(manifest),
// which names them, becomes the manifest. All files must have been synced. Removes all other rows.
void replace_checkpoint(Disk& disk, const CheckpointPaths& paths, const std::string& rows);

}  // namespace embers::storage
