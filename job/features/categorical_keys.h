#pragma once

#include "job/document/section.h"
#include "job/features/data_section.h"
#include "job/features/feature.h"

namespace embers::job {

// What `as` says a feature is.
enum class As : uint8_t {
  kByColumn,
  kNumeric,
  kRaw,
  kIdentity,
  kHashBucket,
  kVocabulary,
  kBucketized,
  kCrossed
};

// Reads the keys of a categorical feature of kind `as` over `column`: its ids, its key_kind, and the key of a
// missing value.
void read_categorical(Section& section, const Column& column, As as, Feature& feature);
// Reads the required number of buckets of a hashed, crossed or identity feature, from the key that this kind
// of feature has it under.
void read_buckets(Section& section, const char* key, Categorical& ids);
// Refuses a column that does not hold exactly one number.
void check_number(const Section& section, const Column& column);

}  // namespace embers::job
