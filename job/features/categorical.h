#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace embers::job {

// The id of a value that has none: unknown to a vocabulary whose default_value is -1. It takes part in
// crosses, as in TensorFlow; as an id it is dropped, as tf.nn.safe_embedding_lookup_sparse prunes it.
inline constexpr int64_t kNoId = -1;

// Distinct strings, numbered from 0. Immutable; shared by all readers.
class Vocabulary {
 public:
  // kInvalid for a string that occurs twice.
  explicit Vocabulary(std::vector<std::string> entries);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  // Reads one entry per line, from the first `size` lines (0: all). kInvalid with path:line for an entry that
  // occurs twice or, with `ints`, is not an int64; and for a file that cannot be read, is empty or has fewer
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

// kRaw: the values themselves are the keys, as in categorical_column_with_embedding. The others give
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
  std::string vocabulary_file;           // for messages only, once `vocabulary` is loaded
  int64_t vocabulary_size = 0;           // entries of the file that are used; 0: all
  int64_t num_oov_buckets = 0;           // unknown values hash to ids after the vocabulary's
  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<double> boundaries;     // bucketized: ascending
  uint64_t hash_key = kCrossHashKey;  // crossed

  // Ids are 0 .. buckets()-1; 0 where that is not known: raw keys, and a file not yet read.
  int64_t buckets() const;
};

}  // namespace embers::job
