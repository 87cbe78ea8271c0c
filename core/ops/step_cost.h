// What a step has to read and to compute for a batch, whatever backend runs it: what its time is compared with.
#pragma once
#include "core/ops/backend.h"

namespace mote {

struct StepCost {
  // Of the matrix (of a table of rows those that are taken) and the vectors, each once.
  uint64_t weight_bytes = 0;
  // Keys and values that any row of the batch sees, each once, or those that are written; a recurrent vector.
  uint64_t state_bytes = 0;
  uint64_t value_bytes = 0;   // inputs and output, f32
  // Products and sums, two for a pair, of matrices of blocks, which are products of int8.
  uint64_t int8_operations = 0;
  // Of matrices of single elements; of attention's scores and sums over what each row sees. Nothing else is counted.
  uint64_t f32_operations = 0;
};

StepCost cost_of(const Step& step, const Plan& plan, const Batch& batch, KvType kv_type);

}   // namespace mote
