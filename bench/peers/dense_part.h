#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace embers {

// The dense parts of published models, for `embers bench model`: what comes after the embeddings, forward,
// loss and backward, with layer sizes as in DeepRec's modelzoo (float32):
//
//   dlrm    bottom 13-512-256-64-16, dot interaction of 27 fields of dim 16, top 367-512-256-1
//   deepfm  deep 429-1024-256-32, first order sum and FM of 26 fields of dim 16, final 49-128-64-1
//   wdl     deep 2189-1024-512-256-1 over 18 fields of dim 64 and 8 of dim 128, plus the wide part's sum
//
// ReLU after every hidden layer; batch normalization after it where the modelzoo has it (dlrm's bottom,
// deepfm). Loss: mean binary cross entropy of the logits.
class DensePart {
 public:
  static constexpr int64_t kNumeric = 13;

  struct Shape {
    std::string name;
    std::vector<int64_t> dims;  // of each categorical column, equal ones together
    bool wide = false;          // one more table of dim 1 per column, summed over the columns
  };
  static const std::vector<Shape>& shapes();

  // The same parameters for the same name. kInvalid for an unknown one.
  static std::unique_ptr<DensePart> make(const std::string& name);
  virtual ~DensePart() = default;

  // Outputs of embeddings, examples x width. Blocks are side by side in the order of Shape::dims, however
  // many columns each holds; those of the wide part are added up.
  struct Block {
    std::span<const float> values;
    int64_t width;
  };
  // The loss. All spans must stay as they are until the next call.
  virtual double run(std::span<const float> numeric, std::span<const float> labels,
                     std::span<const Block> deep, std::span<const Block> wide) = 0;
  // Of the last run: d loss / d block, examples x width.
  virtual std::span<const float> deep_gradient(size_t block) const = 0;
  virtual std::span<const float> wide_gradient(size_t block) const = 0;

  struct Parameter {
    std::span<float> values;
    std::span<const float> gradient;  // of the last run
  };
  virtual std::vector<Parameter> parameters() = 0;
};

}  // namespace embers
