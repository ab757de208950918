#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/record_index.h"

namespace embers::data {

// The one kind of Dataset. Immutable after construction; shared by readers on any thread.
class FileDataset : public Dataset {
 public:
  FileDataset(const job::Job& job, Split split, const std::string& index_dir,
              const std::vector<std::string>& files);

  uint64_t records() const override { return index_.records(); }
  uint64_t minibatches() const override;
  const job::Job& job() const override { return job_; }
  std::vector<std::string> signature() const override;

  const RecordIndex& index() const { return index_; }
  // Bytes of a block: whole rows, with blank lines and comments between them.
  std::string read_block(const RecordIndex::Block& block) const;
  // The header_order() of a block's file.
  const std::vector<uint32_t>& field_order(const RecordIndex::Block& block) const {
    return orders_[block.file];
  }
  const std::string& path(const RecordIndex::Block& block) const { return sources_[block.file]->path(); }

 private:
  const job::Job job_;
  const Split split_;
  SourceFiles sources_;
  std::vector<std::vector<uint32_t>> orders_;  // of each file
  RecordIndex index_;
};

}  // namespace embers::data
