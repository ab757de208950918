#include <algorithm>
#include <list>
#include <optional>

#include "base/errors.h"
#include "base/floats/prefetch.h"
#include "data/file_dataset.h"
#include "data/permutation.h"
#include "data/row_decoder.h"

namespace embers::data {
namespace {

// Minibatches follow each other in the permutation, so most need the block of the one before; keeping a few
// more helps a second reader of the same epoch, or a lease that goes back.
constexpr size_t kBlocksKept = 4;

constexpr uint64_t kRecordsAhead = 2;  // those of a block come in a random order
constexpr size_t kMostAhead = 1024;    // bytes of a record that are asked for

struct LoadedBlock {
  uint32_t number;
  std::string bytes;
  std::vector<Record> records;  // in file order
  uint64_t epoch;               // of `order`
  std::vector<uint32_t> order;  // of `records`; empty when just loaded
};

class FileReader : public MinibatchReader {
 public:
  FileReader(std::shared_ptr<const FileDataset> dataset, bool shuffle)
      : dataset_(std::move(dataset)),
        shuffle_(shuffle),
        dialect_(dataset_->job().data),
        decoder_(dataset_->job()) {
    for (const auto& block : dataset_->index().blocks) block_records_.push_back(block.records);
  }

  Minibatch read(uint64_t epoch, uint64_t index) override {
    if (index >= dataset_->minibatches()) {
      fail(ErrorCode::kInvalid, "there is no minibatch {} in epoch {}: an epoch has {}", index, epoch,
           dataset_->minibatches());
    }
    const Permutation& permutation = permutation_of(epoch);
    const uint64_t size = dataset_->job().training.batch_size;
    const uint64_t end = std::min((index + 1) * size, dataset_->records());
    Minibatch out = decoder_.start(epoch, index, end - index * size);
    for (uint64_t at = index * size; at < end;) at += decode_slice(permutation, at, end, out);
    decoder_.finish(out);
    return out;
  }

 private:
  const Permutation& permutation_of(uint64_t epoch) {
    if (!permutation_ || epoch_ != epoch) {
      permutation_.emplace(dataset_->job().job.seed, epoch, block_records_, shuffle_);
      epoch_ = epoch;
    }
    return *permutation_;
  }

  // Decodes those of the places [at, end) that lie in the block of `at`; returns how many there are.
  uint64_t decode_slice(const Permutation& permutation, uint64_t at, uint64_t end, Minibatch& out) {
    const Permutation::Place place = permutation.at(at);
    const LoadedBlock& block = loaded(permutation, place.block);
    const uint64_t count = std::min<uint64_t>(end - at, block.order.size() - place.at);
    for (uint64_t i = 0; i < count; ++i) {
      if (i + kRecordsAhead < count) prefetch(block, block.order[place.at + i + kRecordsAhead]);
      decode_row(block, block.order[place.at + i], out);
    }
    return count;
  }

  EMBERS_PREFETCHES static void prefetch(const LoadedBlock& block, uint32_t row) {
    constexpr size_t kLine = 64;
    const Record& record = block.records[row];
    for (size_t at = record.begin; at < std::min(record.end, record.begin + kMostAhead); at += kLine)
      __builtin_prefetch(block.bytes.data() + at);
  }

  void decode_row(const LoadedBlock& loaded, uint32_t row, Minibatch& out) {
    const RecordIndex::Block& block = dataset_->index().blocks[loaded.number];
    const Record& record = loaded.records[row];
    const std::string_view text(loaded.bytes.data() + record.begin, record.end - record.begin);
    try {
      decoder_.decode(text, dataset_->field_order(block), out);
      out.records.push_back(block.first_record + row);
    } catch (const BadRow& problem) {
      if (!dataset_->job().data.skip_bad_rows) {
        fail(ErrorCode::kInvalid, "{}:{}: {}", dataset_->path(block), record.line, problem.what());
      }
      ++out.skipped;
    }
  }

  const LoadedBlock& loaded(const Permutation& permutation, uint32_t number) {
    auto it =
        std::find_if(kept_.begin(), kept_.end(), [&](const LoadedBlock& b) { return b.number == number; });
    if (it == kept_.end()) {
      if (kept_.size() == kBlocksKept) kept_.pop_back();
      kept_.push_front(load(number));
    } else {
      kept_.splice(kept_.begin(), kept_, it);
    }
    LoadedBlock& block = kept_.front();
    if (block.order.empty() || block.epoch != epoch_) {
      block.order = permutation.records_of(number);
      block.epoch = epoch_;
    }
    return block;
  }

  LoadedBlock load(uint32_t number) const {
    const RecordIndex::Block& block = dataset_->index().blocks[number];
    LoadedBlock loaded{number, dataset_->read_block(block), {}, 0, {}};
    loaded.records.reserve(block.records);
    RecordScanner scanner(dialect_, loaded.bytes, block.line, true);
    for (Record record; scanner.next(record) == RecordScanner::Step::kRecord;)
      loaded.records.push_back(record);
    if (loaded.records.size() != block.records) {
      fail(ErrorCode::kInvalid,
           "'{}' is not what the record index describes; remove the index and start again",
           dataset_->path(block));
    }
    return loaded;
  }

  const std::shared_ptr<const FileDataset> dataset_;
  const bool shuffle_;
  const Dialect dialect_;
  RowDecoder decoder_;
  std::vector<uint32_t> block_records_;
  uint64_t epoch_ = 0;  // of permutation_
  std::optional<Permutation> permutation_;
  std::list<LoadedBlock> kept_;  // the most recently used first
};

}  // namespace

std::unique_ptr<MinibatchReader> MinibatchReader::make(std::shared_ptr<const Dataset> dataset, bool shuffle) {
  auto files = std::dynamic_pointer_cast<const FileDataset>(std::move(dataset));
  if (files == nullptr)
    fail(ErrorCode::kInternal, "a minibatch reader needs a dataset that Dataset::open made");
  return std::make_unique<FileReader>(std::move(files), shuffle);
}

}  // namespace embers::data
