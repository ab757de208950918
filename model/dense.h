#pragma once

#include <span>
#include <vector>

#include "base/floats/float_buffer.h"
#include "model/layers/model.h"
#include "schema/table_spec.h"

namespace embers {

// Dense parameters and buffers as rows of the reserved tables: the elements of one tensor are consecutive,
// because only its last chunk is padded.

// Parameters, then buffers, each in the model's own order. kInvalid naming one that is not float32 (buffers:
// or int64, which travel as floats).
std::vector<DenseParam> dense_params(const Model& model);

// The tensors themselves, in the same order.
std::vector<torch::Tensor> dense_tensors(const Model& model);

// tensors[i] (those of spec.dense[i].buffer == buffer) -> [chunks x kDenseChunk]. An undefined tensor gives
// zeros.
FloatBuffer to_chunks(std::span<const torch::Tensor> tensors, const ModelSpec& spec, bool buffer);

// The reverse, in place. kInternal unless the size fits.
void from_chunks(std::span<const float> chunks, const ModelSpec& spec, bool buffer,
                 std::span<torch::Tensor> tensors);

}  // namespace embers
