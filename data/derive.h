#pragma once

#include <string>
#include <vector>

#include "data/minibatch.h"
#include "job/job.h"

namespace embers::data {

// A categorical feature that a model makes from the data's features, as features of the job file are made
// from columns. In its Feature
//   column   is a categorical feature of the data, or a numeric one for a bucketized feature (its value as
//            the job file's transform left it); likewise for the inputs in `crossed`
//   weights  is a numeric feature, the weight of the example's one id; or "". An id keeps the weight that it
//            has in the feature it is made from; a cross cannot take such features.
//   key_kind is derived; `missing` is not used, since the data's feature has already filled in what is
//            missing.
// Constant after construction; any thread.
class Derivation {
 public:
  // kInvalid naming the feature for one that the schema does not have (nearest suggested), or that is not of
  // the kind needed.
  Derivation(job::Feature feature, const FeatureSchema& schema);

  const job::Feature& feature() const { return feature_; }
  // What it adds to the features of a minibatch. Its name is the feature's description, so that features that
  // are made in the same way are one; the feature's own name is for messages.
  CategoricalFeature schema() const;
  // N examples of ids. kInvalid naming record and feature for a value that the feature cannot take, and for a
  // weight that comes with more than one id.
  Ids derive(const Minibatch& minibatch) const;

 private:
  struct Source {
    bool numeric;
    size_t index;  // into Minibatch::ids, or of a column of Minibatch::numeric
    KeyKind kind;  // unless numeric
    bool weighted;
  };
  class Pass;
  static Source source_of(const std::string& name, const job::Feature& feature, const FeatureSchema& schema);

  job::Feature feature_;
  size_t numerics_;              // columns of Minibatch::numeric
  std::vector<Source> sources_;  // one, or the inputs of a cross
  int weights_ = -1;             // column of Minibatch::numeric, or -1
};

// A string with everything that makes up a categorical feature, so that features with one description
// have the same ids: "crossed(hash_bucket_size=100, ..., identity(age, ...))".
std::string describe(const job::Feature& feature);

}  // namespace embers::data
