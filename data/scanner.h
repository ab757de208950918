#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"

namespace embers::data {

// How bytes are divided into records and fields: RFC 4180, with any one-byte separator and with CRLF or LF.
// In addition,
//   - blank lines and lines that begin with `comment` are not records;
//   - with `trim`, blanks around unquoted fields and around quotes are dropped;
//   - a quote inside an unquoted field is an ordinary character.
struct Dialect {
  char separator = ',';
  bool trim = true;
  std::string comment;  // "" for none

  explicit Dialect(const job::DataSection& data)
      : separator(data.separator), trim(data.trim), comment(data.comment) {}
};

struct Record {
  size_t begin = 0, end = 0;  // in the scanned bytes, without the line break
  uint64_t line = 0;          // 1-based line of its first byte
};

// Finds records one after another in bytes that the caller owns. A buffer that ends inside a record is
// scanned again from resume_at() once more bytes are there.
class RecordScanner {
 public:
  enum class Step : uint8_t {
    kRecord,        // `record` holds the next one
    kEnd,           // no further record begins in these bytes
    kMore,          // a record begins and does not end in these bytes
    kUnterminated,  // as kMore, where no more bytes will come: a quote is not closed
  };

  // `line` is that of the first byte; `last`: no bytes follow these.
  RecordScanner(const Dialect& dialect, std::string_view bytes, uint64_t line, bool last);
  Step next(Record& record);
  // First byte not yet passed, and its line.
  size_t resume_at() const { return position_; }
  uint64_t line() const { return line_; }

 private:
  bool skippable(std::string_view line) const;
  size_t end_of_quoted_record(size_t begin, bool& unterminated) const;

  const Dialect* dialect_;  // not owned
  std::string_view bytes_;
  size_t position_ = 0;
  uint64_t line_;
  bool last_;
};

// Why fields could not be told apart.
enum class FieldError : uint8_t { kNone, kTextAfterQuote };

// Divides records into fields. Fields view the record, or memory of the splitter where doubled quotes were
// undone; both stay valid until the next split. Not thread safe.
class FieldSplitter {
 public:
  explicit FieldSplitter(const Dialect& dialect) : dialect_(dialect) {}
  FieldError split(std::string_view record);
  const std::vector<std::string_view>& fields() const { return fields_; }

 private:
  bool split_unquoted(std::string_view record);
  void add_field(std::string_view record, size_t begin, size_t end);
  size_t quoted_field(std::string_view record, size_t begin, FieldError& error);
  size_t plain_field(std::string_view record, size_t begin);
  std::string_view undouble(std::string_view text);

  const Dialect& dialect_;
  std::vector<std::string_view> fields_;
  std::string unescaped_;  // reserved to the record's size, so that views into it stay valid
};

}  // namespace embers::data
