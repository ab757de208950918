#include "data/record_index.h"

#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "base/errors.h"
#include "base/files/temporary_file.h"

namespace embers::data {
namespace {

constexpr size_t kChunk = 1 << 20;
constexpr size_t kMaxRecord = 16 << 20;  // bytes; a longer one is taken for a quote that is not closed

// Records of a whole file, of which only a chunk is in memory.
class FileScanner {
 public:
  FileScanner(const SourceFile& source, const Dialect& dialect)
      : source_(source), dialect_(dialect), scanner_(dialect_, {}, 1, false) {
    XXH3_64bits_reset(hash_.get());
    refill(kChunk);
    if (std::string_view(buffer_.data(), buffer_.size()).starts_with("\xef\xbb\xbf")) {
      buffer_.erase(buffer_.begin(), buffer_.begin() + 3);
      base_ = 3;
      rescan(1);
    }
  }

  struct Found {
    uint64_t offset, line;
    std::string_view bytes;  // until the next call
  };
  // False at the end of the file.
  bool next(Found& found) {
    Record record;
    while (true) {
      switch (scanner_.next(record)) {
        case RecordScanner::Step::kRecord:
          found = {base_ + record.begin, record.line,
                   std::string_view(buffer_.data(), buffer_.size())
                       .substr(record.begin, record.end - record.begin)};
          return true;
        case RecordScanner::Step::kUnterminated:
          fail_open_quote(record.line);
        case RecordScanner::Step::kEnd:
        case RecordScanner::Step::kMore: {
          if (at_end()) return false;
          drop(scanner_.resume_at());
          if (buffer_.size() >= kMaxRecord) fail_open_quote(scanner_.line());
          refill(std::max(kChunk, buffer_.size()));
        }
      }
    }
  }

  // XXH3 of all bytes read so far.
  uint64_t digest() const { return XXH3_64bits_digest(hash_.get()); }

 private:
  struct FreeHash {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  bool at_end() const { return base_ + buffer_.size() == source_.size(); }

  [[noreturn]] void fail_open_quote(uint64_t line) const {
    fail(ErrorCode::kInvalid,
         "{}:{}: a quote is opened in this row and not closed (or the row is longer than {} MiB)",
         source_.path(), line, kMaxRecord >> 20);
  }

  void drop(size_t bytes) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
    base_ += bytes;
  }

  void refill(size_t bytes) {
    const uint64_t line = scanner_.line();
    const size_t kept = buffer_.size();
    buffer_.resize(kept + std::min<uint64_t>(bytes, source_.size() - base_ - kept));
    const std::span<char> fresh = std::span(buffer_).subspan(kept);
    source_.read(base_ + kept, fresh);
    XXH3_64bits_update(hash_.get(), fresh.data(), fresh.size());
    rescan(line);
  }

  void rescan(uint64_t line) {
    scanner_ = RecordScanner(dialect_, {buffer_.data(), buffer_.size()}, line, at_end());
  }

  const SourceFile& source_;
  const Dialect& dialect_;
  std::vector<char> buffer_;
  uint64_t base_ = 0;  // offset of the buffer's first byte in the file
  RecordScanner scanner_;
  const std::unique_ptr<XXH3_state_t, FreeHash> hash_{XXH3_createState()};
};

void index_file(const SourceFile& source, const job::DataSection& data, RecordIndex& index) {
  const Dialect dialect(data);
  FileScanner scanner(source, dialect);
  FileScanner::Found found;
  const auto file = static_cast<uint32_t>(index.files.size());
  const uint64_t before = index.records();
  const size_t first_block = index.blocks.size();
  uint64_t records = 0;
  if (data.header) scanner.next(found);
  while (scanner.next(found)) {
    if (records % data.block_records == 0) {
      if (index.blocks.size() > first_block) index.blocks.back().end = found.offset;
      index.blocks.push_back({.file = file,
                              .offset = found.offset,
                              .end = source.size(),
                              .line = found.line,
                              .first_record = before + records});
    }
    ++index.blocks.back().records;
    ++records;
  }
  index.files.push_back({source.path(), source.stamp(), source.size(), records, scanner.digest()});
}

// Everything that decides where records begin.
uint64_t fingerprint(const job::DataSection& data) {
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{}", data.separator, data.header, data.trim,
                                       data.block_records, data.comment);
  return XXH3_64bits(text.data(), text.size());
}

// index file  := magic u64 · checksum u64 (XXH3 of the rest) · fingerprint u64
//                · files u64 · { path · size u64 · mtime u64 · bytes u64 · records u64 · digest u64 }
//                · blocks u64 · { file u64 · records u64 · offset u64 · end u64 · line u64 }
// path        := length u64 · bytes
// All numbers little-endian, as in memory. The last digit of the magic is the version.
constexpr char kMagic[] = "embidx\0\2";
constexpr size_t kPreamble = 16;

class Writer {
 public:
  void number(uint64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void bytes(std::string_view value) { number(value.size()), text_.append(value); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  uint64_t number() {
    uint64_t value = 0;
    const std::string_view raw = take(sizeof value);
    if (ok_) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string bytes() { return std::string(take(number())); }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && text_.empty(); }

 private:
  std::string_view take(uint64_t size) {
    ok_ = ok_ && size <= text_.size();
    if (!ok_) return {};
    const std::string_view taken = text_.substr(0, size);
    text_.remove_prefix(size);
    return taken;
  }
  std::string_view text_;
  bool ok_ = true;
};

std::string encode(const RecordIndex& index, const job::DataSection& data) {
  Writer out;
  out.number(fingerprint(data));
  out.number(index.files.size());
  for (const auto& file : index.files) {
    out.bytes(file.path);
    for (const uint64_t n : {file.stamp.size, static_cast<uint64_t>(file.stamp.modified_ns), file.size,
                             file.records, file.digest}) {
      out.number(n);
    }
  }
  out.number(index.blocks.size());
  for (const auto& block : index.blocks) {
    for (const uint64_t n :
         {uint64_t{block.file}, uint64_t{block.records}, block.offset, block.end, block.line}) {
      out.number(n);
    }
  }
  Writer whole;
  whole.number(XXH3_64bits(out.text().data(), out.text().size()));
  return std::string(kMagic, 8) + whole.text() + out.text();
}

// False when the bytes are not an index that embers wrote.
bool decode(std::string_view payload, const job::DataSection& data, RecordIndex& index) {
  Reader in(payload);
  if (in.number() != fingerprint(data)) return false;
  for (uint64_t n = in.number(); n > 0 && in.ok(); --n) {
    RecordIndex::File file;
    file.path = in.bytes();
    file.stamp.size = in.number();
    file.stamp.modified_ns = static_cast<int64_t>(in.number());
    file.size = in.number();
    file.records = in.number();
    file.digest = in.number();
    index.files.push_back(std::move(file));
  }
  for (uint64_t n = in.number(); n > 0 && in.ok(); --n) {
    RecordIndex::Block block;
    block.first_record = index.records();
    block.file = static_cast<uint32_t>(in.number());
    block.records = static_cast<uint32_t>(in.number());
    block.offset = in.number();
    block.end = in.number();
    block.line = in.number();
    index.blocks.push_back(block);
  }
  return in.at_end();
}

bool fits(const RecordIndex& index, const SourceFiles& sources) {
  if (index.files.size() != sources.size()) return false;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto& file = index.files[i];
    if (file.path != sources[i]->path() || file.stamp != sources[i]->stamp() ||
        file.size != sources[i]->size()) {
      return false;
    }
  }
  return true;
}

}  // namespace

RecordIndex build_index(const SourceFiles& sources, const job::DataSection& data) {
  RecordIndex index;
  for (const auto& source : sources) index_file(*source, data, index);
  return index;
}

std::optional<RecordIndex> load_index(const std::string& path, const SourceFiles& sources,
                                      const job::DataSection& data) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  const std::string bytes = text.str();
  if (bytes.size() < kPreamble || std::memcmp(bytes.data(), kMagic, 8) != 0) return std::nullopt;
  const std::string_view payload = std::string_view(bytes).substr(kPreamble);
  Reader checksum(std::string_view(bytes).substr(8, 8));
  if (checksum.number() != XXH3_64bits(payload.data(), payload.size())) return std::nullopt;
  RecordIndex index;
  if (!decode(payload, data, index) || !fits(index, sources)) return std::nullopt;
  return index;
}

bool save_index(const std::string& path, const RecordIndex& index, const job::DataSection& data) {
  auto file = TemporaryFile::beside(path);
  if (!file) return false;
  try {
    file->write(encode(index, data));
  } catch (const Error&) {
    return false;  // with a full disk, the next start must make this pass again, but this one goes on
  }
  return file->publish(path);
}

std::vector<std::string> first_record(const SourceFile& source, const job::DataSection& data,
                                      uint64_t* line) {
  const Dialect dialect(data);
  FileScanner scanner(source, dialect);
  FileScanner::Found found;
  if (!scanner.next(found)) return {};
  *line = found.line;
  FieldSplitter splitter(dialect);
  if (splitter.split(found.bytes) != FieldError::kNone) {
    fail(ErrorCode::kInvalid, "{}:{}: text after a closing quote in the header line", source.path(),
         found.line);
  }
  return {splitter.fields().begin(), splitter.fields().end()};
}

}  // namespace embers::data
