#include "data/scanner.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

namespace embers::data {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool is_blank(const Dialect& dialect, char c) { return (c == ' ' || c == '\t') && c != dialect.separator; }

// Position of the quote that opens a field which begins at `begin`; kNone for an unquoted field.
size_t opening_quote(const Dialect& dialect, std::string_view bytes, size_t begin) {
  size_t at = begin;
  if (dialect.trim) {
    while (at < bytes.size() && is_blank(dialect, bytes[at])) ++at;
  }
  return at < bytes.size() && bytes[at] == '"' ? at : kNone;
}

// Position of the quote that closes the one at `open`; kNone if the bytes end before it. A quote that is the
// last byte counts as closing.
size_t closing_quote(std::string_view bytes, size_t open) {
  size_t at = open + 1;
  while (true) {
    at = bytes.find('"', at);
    if (at == kNone || at + 1 == bytes.size() || bytes[at + 1] != '"') return at;
    at += 2;
  }
}

std::string_view without_carriage_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

RecordScanner::RecordScanner(const Dialect& dialect, std::string_view bytes, uint64_t line, bool last)
    : dialect_(&dialect), bytes_(bytes), line_(line), last_(last) {}

bool RecordScanner::skippable(std::string_view line) const {
  if (line.empty()) return true;
  if (!dialect_->comment.empty() && line.starts_with(dialect_->comment)) return true;
  return dialect_->trim && is_blank(*dialect_, line[0]) &&
         std::all_of(line.begin(), line.end(), [&](char c) { return is_blank(*dialect_, c); });
}

// The line break that ends a record with quotes in its first line; kNone if the bytes end before it.
size_t RecordScanner::end_of_quoted_record(size_t begin, bool& unterminated) const {
  size_t field = begin;
  while (true) {
    size_t from = field;
    if (const size_t open = opening_quote(*dialect_, bytes_, field); open != kNone) {
      const size_t close = closing_quote(bytes_, open);
      unterminated = close == kNone;
      if (unterminated) return kNone;
      from = close + 1;
    }
    const char stops[] = {dialect_->separator, '\n'};
    const size_t stop = bytes_.find_first_of(std::string_view(stops, 2), from);
    if (stop == kNone || bytes_[stop] == '\n') return stop;
    field = stop + 1;
  }
}

RecordScanner::Step RecordScanner::next(Record& record) {
  while (position_ < bytes_.size()) {
    const size_t begin = position_;
    size_t end = bytes_.find('\n', begin);
    if (end == kNone && !last_) return Step::kMore;
    const std::string_view line = bytes_.substr(begin, (end == kNone ? bytes_.size() : end) - begin);
    const bool skip = skippable(without_carriage_return(line));
    uint64_t lines = 1;
    if (!skip && std::memchr(line.data(), '"', line.size()) != nullptr) {
      bool unterminated = false;
      end = end_of_quoted_record(begin, unterminated);
      if (end == kNone && !last_) return Step::kMore;
      if (unterminated) {
        record.line = line_;
        return Step::kUnterminated;
      }
      const size_t stop = end == kNone ? bytes_.size() : end;
      lines += static_cast<uint64_t>(std::count(bytes_.begin() + begin, bytes_.begin() + stop, '\n'));
    }
    const size_t stop = end == kNone ? bytes_.size() : end;
    position_ = end == kNone ? stop : stop + 1;
    const uint64_t first_line = line_;
    line_ += lines;
    if (skip) continue;
    record = {begin, begin + without_carriage_return(bytes_.substr(begin, stop - begin)).size(), first_line};
    return Step::kRecord;
  }
  return Step::kEnd;
}

FieldError FieldSplitter::split(std::string_view record) {
  if (split_unquoted(record)) return FieldError::kNone;
  fields_.clear();
  unescaped_.clear();
  unescaped_.reserve(record.size());
  FieldError error = FieldError::kNone;
  size_t at = 0;
  while (at != kNone) {
    const size_t open = opening_quote(dialect_, record, at);
    const size_t separator = open == kNone ? plain_field(record, at) : quoted_field(record, open, error);
    if (error != FieldError::kNone) return error;
    at = separator == kNone ? kNone : separator + 1;
  }
  return error;
}

// One pass over a record without quotes, as nearly all are; false if there is one.
bool FieldSplitter::split_unquoted(std::string_view record) {
  fields_.clear();
  size_t begin = 0, at = 0;
  const auto end_field = [&](size_t end) {
    add_field(record, begin, end);
    begin = end + 1;
  };
#if defined(__SSE2__)
  const __m128i separators = _mm_set1_epi8(dialect_.separator), quotes = _mm_set1_epi8('"');
  for (; at + sizeof separators <= record.size(); at += sizeof separators) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(record.data() + at));
    if (_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quotes)) != 0) return false;
    auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, separators)));
    for (; found != 0; found &= found - 1) end_field(at + static_cast<size_t>(std::countr_zero(found)));
  }
#endif
  for (; at < record.size(); ++at) {
    if (record[at] == '"') return false;
    if (record[at] == dialect_.separator) end_field(at);
  }
  end_field(record.size());
  return true;
}

void FieldSplitter::add_field(std::string_view record, size_t begin, size_t end) {
  if (dialect_.trim) {
    while (begin < end && is_blank(dialect_, record[begin])) ++begin;
    while (end > begin && is_blank(dialect_, record[end - 1])) --end;
  }
  fields_.push_back(record.substr(begin, end - begin));
}

// Appends the field that begins at `begin`; returns the position of its separator, kNone at the end of the
// record.
size_t FieldSplitter::plain_field(std::string_view record, size_t begin) {
  const size_t separator = record.find(dialect_.separator, begin);
  add_field(record, begin, separator == kNone ? record.size() : separator);
  return separator;
}

size_t FieldSplitter::quoted_field(std::string_view record, size_t open, FieldError& error) {
  // A record's quotes are closed: the scanner saw to that.
  const size_t close = closing_quote(record, open);
  const std::string_view text = record.substr(open + 1, close - open - 1);
  fields_.push_back(text.find('"') == kNone ? text : undouble(text));
  size_t at = close + 1;
  if (dialect_.trim) {
    while (at < record.size() && is_blank(dialect_, record[at])) ++at;
  }
  if (at >= record.size()) return kNone;
  if (record[at] != dialect_.separator) error = FieldError::kTextAfterQuote;
  return at;
}

std::string_view FieldSplitter::undouble(std::string_view text) {
  const size_t begin = unescaped_.size();
  for (size_t i = 0; i < text.size(); ++i) {
    unescaped_ += text[i];
    if (text[i] == '"') ++i;
  }
  return std::string_view(unescaped_).substr(begin);
}

}  // namespace embers::data
