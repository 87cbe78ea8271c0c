// What `compile` makes: the packed weights of a part, shared by the sessions of a model.
//
// XNNPACK packs a matrix when an operator is created, into memory that a weights cache hands out, and takes what a
// cache already has. Here the cache is the model's arena: `compile` creates each operator once and lets go of it, what
// stays are the packed bytes; each session creates its own operators over them. How many bytes a matrix takes is asked
// of XNNPACK itself: an operator created with a cache that notes how much is wanted and gives nothing.
#pragma once
#include <span>

#include "backends/xnnpack/library.h"
#include "core/base/arena.h"
#include "core/ops/backend.h"

namespace mote {

// A cache over packed weights that are there: it finds a matrix by the address of its packed bytes and takes nothing
// in.
class PackedWeights {
 public:
  PackedWeights() = default;
  void set(std::span<uint8_t> bytes);
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  xnn_weights_cache_t cache() { return &provider_; }

 private:
  xnn_weights_cache_provider provider_{};
  std::span<uint8_t> bytes_;
};

// A step of the part; only `linear` has more than the step itself.
struct XnnStep {
  const Step* step = nullptr;
  bool quantized = false;         // linear: int8 weights per channel, x as int8 per row
  bool input_quantized = false;   // linear: an earlier step has left the codes of this input
  uint8_t* packed = nullptr;      // linear: where its packed weights lie
  double weight_error = 0;        // linear: see Program::weight_error
};

class XnnProgram final : public Program {
 public:
  double weight_error(uint32_t index) const override { return index < steps.size() ? steps[index].weight_error : 0; }

  std::span<XnnStep> steps;
  PackedWeights weights;
};

// Whether weights of this format run as int8 per channel.
bool runs_quantized(Format format);

// Creates the operator of a `linear` step over weights that lie packed in the program.
Status create_linear(const XnnStep& prepared, PackedWeights& weights, xnn_operator_t* made);

// Measures and fills a program. `program` and `steps` are null and empty while the arena only measures.
Result<Program*> compile_part(const PlanPart& part, Arena& model_arena);

}   // namespace mote
