#include "job/features/categorical.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/errors.h"

namespace embers::job {
namespace {

// Whether a string is an int64 number as std::to_chars writes it.
bool is_int(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::to_string(value) == text;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> entries) : entries_(std::move(entries)) {
  numbers_.reserve(entries_.size());
  for (const std::string& entry : entries_) {
    if (!numbers_.emplace(entry, static_cast<int64_t>(numbers_.size())).second)
      fail(ErrorCode::kInvalid, "the vocabulary contains '{}' twice", entry);
  }
}

std::shared_ptr<const Vocabulary> Vocabulary::read(const std::string& path, int64_t size, bool ints) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kInvalid, "cannot read vocabulary file '{}'", path);
  std::vector<std::string> entries;
  for (std::string line;
       (size == 0 || static_cast<int64_t>(entries.size()) < size) && std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (ints && !is_int(line))
      fail(ErrorCode::kInvalid, "{}:{}: '{}' is not an int64 number, but the column's values are", path,
           entries.size() + 1, line);
    entries.push_back(line);
  }
  if (file.bad()) fail(ErrorCode::kInvalid, "cannot read vocabulary file '{}'", path);
  if (entries.empty()) fail(ErrorCode::kInvalid, "vocabulary file '{}' is empty", path);
  if (static_cast<int64_t>(entries.size()) < size)
    fail(ErrorCode::kInvalid, "vocabulary file '{}' has {} lines, fewer than the vocabulary_size of {}", path,
         entries.size(), size);
  try {
    return std::make_shared<const Vocabulary>(std::move(entries));
  } catch (const Error& e) {
    fail(ErrorCode::kInvalid, "vocabulary file '{}': {}", path, e.what());
  }
}

int64_t Vocabulary::find(std::string_view text) const {
  const auto at = numbers_.find(text);
  return at == numbers_.end() ? kNoId : at->second;
}

int64_t Categorical::buckets() const {
  switch (kind) {
    case IdKind::kRaw:
      return 0;
    case IdKind::kBucketized:
      return static_cast<int64_t>(boundaries.size()) + 1;
    case IdKind::kVocabulary: {
      const int64_t size = vocabulary ? vocabulary->size() : vocabulary_size;
      if (size == 0) return 0;
      return std::max(size + num_oov_buckets, default_value.value_or(kNoId) + 1);
    }
    default:
      return num_buckets;
  }
}

}  // namespace embers::job
