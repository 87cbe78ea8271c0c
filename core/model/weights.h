// Binds tensors by name while a plan is built. Matrices stay where they lie in the file; vectors are widened into the
// model's arena. The first missing or misshapen tensor is kept as a status and everything after it is ignored, so that
// a `build` function needs no checks of its own.
#pragma once
#include <string_view>

#include "core/base/arena.h"
#include "core/gguf/tensor_index.h"
#include "core/model/config.h"
#include "core/ops/plan_builder.h"

namespace mote {

class Weights {
 public:
  // With a measuring arena vectors have a length but no data.
  Weights(gguf::TensorIndex& index, Arena& arena) : index_(index), arena_(arena) {}

  // Tensors by their whole names: "output.weight"; those of layers by layer.h. [rows, columns]
  bool has(std::string_view name) const { return index_.find(name) != nullptr; }
  Matrix matrix(std::string_view name, uint32_t rows, uint32_t columns);
  Vector vector(std::string_view name, uint32_t count);

  // The first row of a tensor [rows, columns], as a vector.
  Vector first_row(std::string_view name, uint32_t columns);
  // A bias by distance for attention (core/ops/step.h), from a tensor [n_buckets, n_heads] with a row for each bucket
  // of distances: `bucket` of the distances -max_distance .. max_distance from a query to a key.
  Vector distance_bias(std::string_view name, uint32_t n_buckets, uint32_t n_heads, std::span<const uint16_t> bucket);
  // A tensor that files have and the architecture does without.
  void leave_out(std::string_view name) { index_.take(name); }

  // Frequencies of sinusoidal positions for rows of `columns` values: 10000^(-2i / columns), in radians per position.
  const double* sinusoids(uint32_t columns);

  // Rotary settings of the model: frequencies from base, scaling and, where there is one, the factor tensor
  // `factors_name` ("rope_freqs.weight").
  RopeSettings rope(const RopeConfig& config, RopePairing pairing, std::string_view factors_name);

  const Status& status() const { return status_; }

  // For the end of a `build`: unsupported names the first tensor of the file that was not asked for. What a file has
  // for a variant of the architecture that is not run here (a norm of the queries, experts, one more layer) would
  // otherwise be left out without a word, and every result would be wrong.
  Status check_all_used(std::string_view architecture) const;

 private:
  const gguf::Tensor* require(std::string_view name);
  void fail(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  std::span<float> widen(const gguf::Tensor& tensor, uint32_t count);

  gguf::TensorIndex& index_;
  Arena& arena_;
  uint32_t n_rope_settings_ = 0;
  Status status_;
};

// Rows of the token embedding: the size of the vocabulary that the model's matrices are made for.
Result<uint32_t> read_vocabulary_rows(const gguf::TensorIndex& index);

}   // namespace mote
