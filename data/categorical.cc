#include "data/categorical.h"

#include <farmhash.h>

#include <algorithm>
#include <charconv>

#include "base/errors.h"

namespace embers::data {
namespace {

uint64_t fingerprint(std::string_view text) { return util::Fingerprint64(text.data(), text.size()); }

// A number as a decimal string, in a buffer of its own.
struct Decimal {
  explicit Decimal(int64_t value)
      : size(static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, value).ptr - digits)) {}
  std::string_view text() const { return {digits, size}; }
  char digits[20];
  size_t size;
};

int64_t identity(const job::Categorical& column, int64_t value) {
  if (value >= 0 && value < column.num_buckets) return value;
  if (column.default_value) return *column.default_value;
  throw BadValue(fmt::format("{} is outside [0, {}): give a larger num_buckets, or a default_value", value,
                             column.num_buckets));
}

int64_t vocabulary_id(const job::Categorical& column, std::string_view text) {
  const int64_t id = column.vocabulary->find(text);
  if (id >= 0) return id;
  if (column.num_oov_buckets > 0)
    return column.vocabulary->size() + hash_bucket(text, column.num_oov_buckets);
  return column.default_value.value_or(job::kNoId);
}

[[noreturn]] void wrong_kind() {
  fail(ErrorCode::kInternal, "the values are not of the kind that the column takes");
}

int64_t id_of(const job::Categorical& column, int64_t value) {
  if (column.kind == job::IdKind::kIdentity) return identity(column, value);
  if (column.kind == job::IdKind::kHashBucket) return hash_bucket(value, column.num_buckets);
  if (column.kind == job::IdKind::kVocabulary) return vocabulary_id(column, Decimal(value).text());
  wrong_kind();
}

int64_t id_of(const job::Categorical& column, std::string_view value) {
  if (column.kind == job::IdKind::kHashBucket) return hash_bucket(value, column.num_buckets);
  if (column.kind == job::IdKind::kVocabulary) return vocabulary_id(column, value);
  wrong_kind();
}

int64_t id_of(const job::Categorical& column, double value) {
  if (column.kind != job::IdKind::kBucketized) wrong_kind();
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

void append_ids(const job::Categorical& column, const Values& values, std::vector<int64_t>& ids) {
  std::visit(
      [&](const auto& all) {
        for (const auto& value : all) ids.push_back(id_of(column, value));
      },
      values);
}

void append_cross_terms(const job::Categorical& input, const Values& values, std::vector<uint64_t>& terms) {
  const bool raw = input.kind == job::IdKind::kRaw;
  std::visit(
      [&](const auto& all) {
        for (const auto& value : all)
          terms.push_back(raw ? raw_term(value) : static_cast<uint64_t>(id_of(input, value)));
      },
      values);
}

void append_crosses(const job::Categorical& column, std::span<const std::vector<uint64_t>> inputs,
                    std::vector<int64_t>& ids) {
  std::vector<uint64_t> hashes{column.hash_key}, longer;
  for (const std::vector<uint64_t>& terms : inputs) {
    if (hashes.size() * terms.size() > kMaxCrosses)
      throw BadValue(fmt::format("crossing the values gives more than {} ids", kMaxCrosses));
    longer.clear();
    for (const uint64_t hash : hashes)
      for (const uint64_t term : terms) longer.push_back(folded(hash, term));
    hashes.swap(longer);
  }
  for (const uint64_t hash : hashes)
    ids.push_back(static_cast<int64_t>(hash % static_cast<uint64_t>(column.num_buckets)));
}

}  // namespace embers::data
