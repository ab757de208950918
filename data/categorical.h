#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace embers::data {

// How the values of a column become ids, as tf.feature_column's categorical columns make them: the same ids,
// bit for bit, so that tables trained there keep their meaning. Plain functions over the values of one
// example; the decoder calls them for features that the job file declares, derive() for those that a model
// declares.

// tf.strings.to_hash_bucket_fast: Fingerprint64 (FarmHash) modulo `buckets`. A number is hashed as its
// decimal text.
int64_t hash_bucket(std::string_view text, int64_t buckets);
int64_t hash_bucket(int64_t value, int64_t buckets);

// tf.feature_column.bucketized_column: how many of the ascending boundaries are <= x, that is i for x in
// [b[i-1], b[i]).
int64_t bucket_of(double x, std::span<const double> boundaries);

// Texts numbered from 0, each once. Immutable; shared by all readers.
class Vocabulary {
 public:
  // kInvalid for a text that stands there twice.
  explicit Vocabulary(std::vector<std::string> entries);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  // One entry a line, the first `size` lines (0: all). kInvalid with path:line for an entry that stands there
  // twice or, with `ints`, is no int64 number; and for a file that cannot be read, is empty or has fewer
  // lines.
  static std::shared_ptr<const Vocabulary> read(const std::string& path, int64_t size, bool ints);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  // The number of an entry, or -1.
  int64_t find(std::string_view text) const;
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::vector<std::string> entries_;  // constant: numbers_ views them
  std::unordered_map<std::string_view, int64_t> numbers_;
};

// kRaw: the values themselves are the keys, as categorical_column_with_embedding has it. The others give
// int64 ids.
enum class IdKind : uint8_t { kRaw, kIdentity, kHashBucket, kVocabulary, kBucketized, kCrossed };

// tf.feature_column.crossed_column's default hash_key.
inline constexpr uint64_t kCrossHashKey = 0xDECAFCAFFE;

// One such column's parameters, with TensorFlow's names and defaults. Only those of its kind are used.
struct Categorical {
  IdKind kind = IdKind::kRaw;
  int64_t num_buckets = 0;               // identity; hash_bucket_size of the hashed and the crossed
  std::optional<int64_t> default_value;  // identity: of values outside [0, num_buckets), which without one
                                         // are errors; vocabulary: of unknown values (default -1)
  std::string vocabulary_file;           // for messages once `vocabulary` is there
  int64_t vocabulary_size = 0;           // entries of the file that count; 0: all
  int64_t num_oov_buckets = 0;           // unknown values hash to ids behind the vocabulary's
  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<double> boundaries;     // bucketized: ascending
  uint64_t hash_key = kCrossHashKey;  // crossed

  // Ids are 0 .. buckets()-1; 0 where that is not known: raw keys, and a file not yet read.
  int64_t buckets() const;
};

// The id of a value that has none: unknown to a vocabulary whose default_value is -1. It takes part in
// crosses, as in TensorFlow; as an id it is dropped, as tf.nn.safe_embedding_lookup_sparse prunes it.
inline constexpr int64_t kNoId = -1;

// A value that a column cannot take; what() says which and why.
class BadValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What one example holds: whole numbers, texts, or numbers (at most one, for bucketized). Missing ones are
// not among them.
using Values =
    std::variant<std::span<const int64_t>, std::span<const std::string_view>, std::span<const double>>;

// Appends the id of each value, kNoId included. Not for raw and crossed columns. BadValue for a value that an
// identity column without default_value cannot take.
void append_ids(const Categorical& column, const Values& values, std::vector<int64_t>& ids);

// Appends what a cross takes of one of its inputs: of a raw text its Fingerprint64, of anything else the
// number or id. BadValue as above.
void append_cross_terms(const Categorical& input, const Values& values, std::vector<uint64_t>& terms);

// Appends an id for each element of the Cartesian product of the inputs' terms, the last input varying
// fastest: tf.feature_column.crossed_column, that is tf.raw_ops.SparseCross with hashed output. Starting with
// hash_key, the terms are folded in, in the order of the inputs, and the result is taken modulo num_buckets.
// With `M` = 0xc6a4a7935bd1e995 and mix(x) = x ^ (x >> 47), one step from hash h and term t is
//   mix(mix((h ^ M ^ mix(t * M) * M) * M) * M)
// An input without values leaves no id. BadValue when the product is larger than kMaxCrosses.
void append_crosses(const Categorical& column, std::span<const std::vector<uint64_t>> inputs,
                    std::vector<int64_t>& ids);
inline constexpr size_t kMaxCrosses = size_t{1} << 20;

}  // namespace embers::data
