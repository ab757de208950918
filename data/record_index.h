#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/scanner.h"
#include "data/source_file.h"

namespace embers::data {

// Where the records of a split are. Records are numbered over all files, in order; every
// data.block_records-th one of a file begins a block, and blocks do not cross files. Immutable after
// construction.
struct RecordIndex {
  struct File {
    std::string path;
    FileStamp stamp;
    uint64_t size = 0;  // bytes after decompression
    uint64_t records = 0;
    uint64_t digest = 0;  // XXH3 of the bytes
    friend bool operator==(const File&, const File&) = default;
  };
  struct Block {
    uint32_t file = 0;
    uint32_t records = 0;
    uint64_t offset = 0, end = 0;  // bytes in the file
    uint64_t line = 0;             // of `offset`
    uint64_t first_record = 0;     // number of the block's first record within the split
    friend bool operator==(const Block&, const Block&) = default;
  };
  std::vector<File> files;
  std::vector<Block> blocks;

  uint64_t records() const { return blocks.empty() ? 0 : blocks.back().first_record + blocks.back().records; }
};

using SourceFiles = std::vector<std::unique_ptr<const SourceFile>>;

// One pass over the files. kInvalid with file:line of a quote that is not closed.
RecordIndex build_index(const SourceFiles& sources, const job::DataSection& data);

// The index saved at `path`, if it is whole and still fits the files and everything that decides where
// records begin.
std::optional<RecordIndex> load_index(const std::string& path, const SourceFiles& sources,
                                      const job::DataSection& data);

// Written under another name and renamed. False if the place cannot be written.
bool save_index(const std::string& path, const RecordIndex& index, const job::DataSection& data);

// Fields of a file's first record; empty for a file without records.
std::vector<std::string> first_record(const SourceFile& source, const job::DataSection& data, uint64_t* line);

}  // namespace embers::data
