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

// The keys of a categorical feature over `column` that is `as`: its ids, its key_kind, and the key of a
// missing value.
void read_categorical(Section& section, const Column& column, As as, Feature& feature);
// The required number of buckets of hashed, crossed and identity features, under the name it has there.
void read_buckets(Section& section, const char* key, Categorical& ids);
// Refuses a column that does not hold exactly one number.
void check_number(const Section& section, const Column& column);

}  // namespace embers::job
