#include "master/sorted_runs.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"

namespace embers {
namespace {

constexpr size_t kBuffer = (64 << 10) / sizeof(uint32_t);  // numbers that are read or written at once

}  // namespace

void SortedRuns::close() {
  if (open_.empty()) return;
  std::sort(open_.begin(), open_.end());
  open_.shrink_to_fit();
  runs_.push_back(std::exchange(open_, {}));
}

size_t SortedRuns::memory() const {
  size_t numbers = 0;
  for (const auto& run : runs_) numbers += run.size();
  return numbers * sizeof(uint32_t);
}

void SortedRuns::spill() {
  if (runs_.empty()) return;
  try {
    if (!file_) file_.emplace(TemporaryFile::unnamed());
    std::vector<uint32_t> out;
    out.reserve(kBuffer);
    const auto flush = [&] {
      file_->write({reinterpret_cast<const char*>(out.data()), out.size() * sizeof(uint32_t)});
      out.clear();
    };
    FileRun run{file_bytes_, 0};
    for (Reader reader(*this, false); reader.next(); run.numbers += reader.count())
      for (uint64_t i = 0; i < reader.count(); ++i) {
        out.push_back(reader.number());
        if (out.size() == kBuffer) flush();
      }
    flush();
    file_runs_.push_back(run);
    file_bytes_ += run.numbers * sizeof(uint32_t);
  } catch (const Error& e) {
    fail(e.code(),
         "{}: scores of an evaluation that memory has no room for go there; make room, or set TMPDIR to "
         "another folder",
         e.what());
  }
  runs_.clear();
}

SortedRuns::Reader::Reader(SortedRuns& runs) : Reader((runs.close(), runs), true) {}

SortedRuns::Reader::Reader(const SortedRuns& runs, bool with_file) : runs_(runs) {
  for (const auto& run : runs.runs_) add({run.data(), run.data() + run.size()});
  if (with_file)
    for (const FileRun& run : runs.file_runs_) add({nullptr, nullptr, run.offset, run.numbers});
  for (size_t place = heap_.size() / 2; place-- > 0;) sink(place);
}

void SortedRuns::Reader::add(Cursor cursor) {
  if (cursor.at == cursor.end && !refill(cursor)) return;
  heap_.push_back({*cursor.at++, static_cast<uint32_t>(cursors_.size())});
  cursors_.push_back(std::move(cursor));
}

bool SortedRuns::Reader::refill(Cursor& cursor) {
  if (cursor.left == 0) return false;
  cursor.buffer.resize(std::min<uint64_t>(cursor.left, kBuffer));
  const size_t bytes = cursor.buffer.size() * sizeof(uint32_t);
  if (runs_.file_->read_at(cursor.offset, cursor.buffer.data(), bytes) != bytes)
    fail(ErrorCode::kCorrupt, "a temporary file of an evaluation's scores is cut off at byte {}",
         cursor.offset);
  cursor.offset += bytes;
  cursor.left -= cursor.buffer.size();
  cursor.at = cursor.buffer.data();
  cursor.end = cursor.at + cursor.buffer.size();
  return true;
}

// The head at `place` may be larger than those below it.
void SortedRuns::Reader::sink(size_t place) {
  const Head head = heap_[place];
  for (size_t child; (child = 2 * place + 1) < heap_.size(); place = child) {
    if (child + 1 < heap_.size() && heap_[child + 1].number < heap_[child].number) ++child;
    if (head.number <= heap_[child].number) break;
    heap_[place] = heap_[child];
  }
  heap_[place] = head;
}

bool SortedRuns::Reader::next() {
  if (heap_.empty()) return false;
  number_ = heap_[0].number;
  count_ = 0;
  while (!heap_.empty() && heap_[0].number == number_) {
    ++count_;
    Cursor& cursor = cursors_[heap_[0].cursor];
    if (cursor.at != cursor.end || refill(cursor)) {
      heap_[0].number = *cursor.at++;
    } else {
      cursor.buffer = {};
      heap_[0] = heap_.back();
      heap_.pop_back();
      if (heap_.empty()) break;
    }
    sink(0);
  }
  return true;
}

}  // namespace embers
