#include "data/categorical.h"

#include <farmhash.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "schema/errors.h"

namespace embers::data {
namespace {

uint64_t fingerprint(std::string_view text) { return util::Fingerprint64(text.data(), text.size()); }

// The decimal text of a number, in a buffer of its own.
struct Decimal {
  explicit Decimal(int64_t value)
      : size(static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits)) {}
  std::string_view text() const { return {digits, size}; }
  char digits[20];
  size_t size;
};

bool is_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && Decimal(value).text() == text;
}

int64_t identity(const Categorical& column, int64_t value) {
  if (value >= 0 && value < column.num_buckets) return value;
  if (column.default_value) return *column.default_value;
  throw BadValue(fmt::format("{} is outside [0, {}): give a larger num_buckets, or a default_value", value,
                             column.num_buckets));
}

int64_t vocabulary_id(const Categorical& column, std::string_view text) {
  const int64_t id = column.vocabulary->find(text);
  if (id >= 0) return id;
  if (column.num_oov_buckets > 0)
    return column.vocabulary->size() + hash_bucket(text, column.num_oov_buckets);
  return column.default_value.value_or(kNoId);
}

[[noreturn]] void wrong_kind() { fail(ErrorCode::kInternal, "values of another kind than the column takes"); }

int64_t id_of(const Categorical& column, int64_t value) {
  if (column.kind == IdKind::kIdentity) return identity(column, value);
  if (column.kind == IdKind::kHashBucket) return hash_bucket(value, column.num_buckets);
  if (column.kind == IdKind::kVocabulary) return vocabulary_id(column, Decimal(value).text());
  wrong_kind();
}

int64_t id_of(const Categorical& column, std::string_view value) {
  if (column.kind == IdKind::kHashBucket) return hash_bucket(value, column.num_buckets);
  if (column.kind == IdKind::kVocabulary) return vocabulary_id(column, value);
  wrong_kind();
}

int64_t id_of(const Categorical& column, double value) {
  if (column.kind != IdKind::kBucketized) wrong_kind();
  return bucket_of(value, column.boundaries);
}

uint64_t raw_term(int64_t value) { return static_cast<uint64_t>(value); }
uint64_t raw_term(std::string_view value) { return fingerprint(value); }
uint64_t raw_term(double) { wrong_kind(); }

uint64_t folded(uint64_t hash, uint64_t term) {
  constexpr uint64_t kM = 0xc6a4a7935bd1e995;
  const auto mix = [](uint64_t x) { return x ^ (x >> 47); };
  return mix(mix((hash ^ kM ^ mix(term * kM) * kM) * kM) * kM);
}

}  // namespace

int64_t hash_bucket(std::string_view text, int64_t buckets) {
  return static_cast<int64_t>(fingerprint(text) % static_cast<uint64_t>(buckets));
}

int64_t hash_bucket(int64_t value, int64_t buckets) { return hash_bucket(Decimal(value).text(), buckets); }

int64_t bucket_of(double x, std::span<const double> boundaries) {
  const auto below = [](float value, double boundary) { return value < static_cast<float>(boundary); };
  return std::upper_bound(boundaries.begin(), boundaries.end(), static_cast<float>(x), below) -
         boundaries.begin();
}

Vocabulary::Vocabulary(std::vector<std::string> entries) : entries_(std::move(entries)) {
  numbers_.reserve(entries_.size());
  for (const std::string& entry : entries_) {
    if (!numbers_.emplace(entry, static_cast<int64_t>(numbers_.size())).second)
      fail(ErrorCode::kInvalid, "the vocabulary has '{}' twice", entry);
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
      fail(ErrorCode::kInvalid, "{}:{}: '{}' is no int64 number as the column's values are", path,
           entries.size() + 1, line);
    entries.push_back(line);
  }
  if (file.bad()) fail(ErrorCode::kInvalid, "cannot read vocabulary file '{}'", path);
  if (entries.empty()) fail(ErrorCode::kInvalid, "vocabulary file '{}' is empty", path);
  if (static_cast<int64_t>(entries.size()) < size)
    fail(ErrorCode::kInvalid, "vocabulary file '{}' has {} lines, fewer than vocabulary_size, {}", path,
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

void append_ids(const Categorical& column, const Values& values, std::vector<int64_t>& ids) {
  std::visit(
      [&](const auto& all) {
        for (const auto& value : all) ids.push_back(id_of(column, value));
      },
      values);
}

void append_cross_terms(const Categorical& input, const Values& values, std::vector<uint64_t>& terms) {
  const bool raw = input.kind == IdKind::kRaw;
  std::visit(
      [&](const auto& all) {
        for (const auto& value : all)
          terms.push_back(raw ? raw_term(value) : static_cast<uint64_t>(id_of(input, value)));
      },
      values);
}

void append_crosses(const Categorical& column, std::span<const std::vector<uint64_t>> inputs,
                    std::vector<int64_t>& ids) {
  std::vector<uint64_t> hashes{column.hash_key}, longer;
  for (const std::vector<uint64_t>& terms : inputs) {
    if (hashes.size() * terms.size() > kMaxCrosses)
      throw BadValue(fmt::format("the values cross to more than {} ids", kMaxCrosses));
    longer.clear();
    for (const uint64_t hash : hashes)
      for (const uint64_t term : terms) longer.push_back(folded(hash, term));
    hashes.swap(longer);
  }
  for (const uint64_t hash : hashes)
    ids.push_back(static_cast<int64_t>(hash % static_cast<uint64_t>(column.num_buckets)));
}

}  // namespace embers::data
