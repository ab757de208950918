#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace embers {

// Which partition holds which id, as tf.nn.embedding_lookup has it; P partitions, n rows in all.
enum class PartitionStrategy : uint8_t {
  kDiv,  // contiguous: the first n % P partitions hold n / P + 1 ids each, the others n / P
  kMod,  // id % P holds it, as its row id / P
};

// An embedding table in the memory of this process, as one or more partitions (`params` of TensorFlow). Only
// refers to the rows, which must outlive it. Constant after construction, so that any thread may use it.
class LocalTable {
 public:
  // partitions[p]: rows x dim floats, row after row. `blocknums`, if not empty, gives the number of rows of
  // each partition: kDiv then assigns ids by these counts instead of evenly, for partitions that differ in
  // size; kMod takes them as bounds. TensorFlow leaves open what happens when the sizes fit neither: here an
  // id whose place its partition does not have is out of range. kInvalid for no partition, dim < 1, a
  // partition that is not a multiple of dim, or blocknums of the wrong number or above what a partition
  // holds.
  LocalTable(std::vector<std::span<const float>> partitions, int64_t dim,
             PartitionStrategy strategy = PartitionStrategy::kDiv, std::span<const int64_t> blocknums = {});

  int64_t dim() const { return dim_; }
  size_t partitions() const { return parts_.size(); }
  int64_t rows() const { return parts_.back().first + parts_.back().rows; }

  // Rows of all partitions are numbered one partition after another; partition p begins at first_row(p).
  int64_t first_row(size_t partition) const { return parts_[partition].first; }
  // Where that row is, in floats from origin().
  int64_t first_offset(size_t partition) const { return parts_[partition].offset; }
  // Where rows are in memory, in floats from origin(): row number * dim() when there is one partition, else as
  // find() says, those of a partition one after another from first_offset() on.
  const float* origin() const { return origin_; }

  struct Place {
    int64_t row;     // its number, over all partitions
    int64_t offset;  // of its first float from origin()
  };
  // False when no row has this id.
  bool find(int64_t id, Place& place) const;

 private:
  struct Part {
    int64_t rows;    // that ids may name
    int64_t first;   // number of its first row
    int64_t offset;  // floats from origin()
  };
  bool assign(int64_t id, size_t& partition, int64_t& local) const;

  std::vector<Part> parts_;
  const float* origin_ = nullptr;  // the first partition that has rows
  int64_t dim_;
  PartitionStrategy strategy_;
  bool counted_;  // blocknums were given
};

}  // namespace embers
