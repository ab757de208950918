#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/minibatch.h"
#include "data/scanner.h"
#include "job/job.h"

namespace embers::data {

// A row that does not fit the job's declarations; what() names the column, not the place.
class BadRow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Decodes rows into a minibatch. A row is read whole before any of it is added, so that a bad one leaves no
// trace. Each column is parsed once, however many features it feeds. Not thread safe.
class RowDecoder {
 public:
  // The job outlives the decoder.
  explicit RowDecoder(const job::Job& job);
  ~RowDecoder();

  // `order[i]` is the declared column that a row's i-th field holds; empty when they are in the declared
  // order. Throws BadRow.
  void decode(std::string_view row, const std::vector<uint32_t>& order, Minibatch& out);

  // An empty minibatch with a list for each categorical feature, and room for `examples`.
  Minibatch start(uint64_t epoch, uint64_t index, uint64_t examples) const;
  // Sets the widths once the last row is in.
  void finish(Minibatch& minibatch) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
  Dialect dialect_;
  FieldSplitter splitter_;
};

// How a file's header line orders the declared columns: empty when the fields are in the declared order.
// kInvalid at file:line unless the header names each declared column once.
std::vector<uint32_t> header_order(const std::vector<std::string>& names,
                                   const std::vector<job::Column>& columns, const std::string& place);

}  // namespace embers::data
