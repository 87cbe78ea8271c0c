// The cases of the conformance suite: for each op the shapes, formats and data on which every backend is compared
// with the oracle, and how far it may be from it.
#pragma once
#include <vector>

#include "tests/conformance/plan_maker.h"

namespace mote::test {

std::vector<Case> conformance_cases(Op op);

// The cases of each op of ops.inc, in cases_<family>.cpp; the linker names those of an op that has none.
#define MOTE_OP(name, inputs, state, in_place) std::vector<Case> name##_cases();
#include "core/ops/ops.inc"
#undef MOTE_OP

// Half the distance of neighbouring f32 numbers, relative: the greatest error of one rounding.
inline constexpr double kRounding = 0x1p-24;
inline constexpr double u = kRounding;   // as error bounds are written

// A sequence of `positions` tokens below `n_vocab`.
std::vector<int32_t> random_tokens(uint32_t positions, uint32_t n_vocab, CaseRandom& random);

// An attention case over the sequence of `tokens`; used by the suite and by the tests of the state.
struct AttentionShape {
  uint32_t n_heads, n_kv_heads, key_dim, value_dim;
  uint32_t window;
  uint32_t positions;
  KvType kv_type;
  float softcap;
  double size;   // of q and k: 1 gives even weights, 10 peaked ones
  // What the queries see: the sequence up to themselves; all of an input of their own; all of another one's.
  enum Sees : uint8_t { past, input, across } sees = past;
  uint32_t n_encoded = 0;      // across: the length of the input; (input: positions)
  uint32_t max_distance = 0;   // 0: no bias by distance
};
Case attention_case(const AttentionShape& shape, uint64_t seed);
// The same with `attention_weights` in its place.
Case weights_case(const AttentionShape& shape, uint64_t seed);
// Likewise of rnn, from position 0 on.
Case rnn_case(Format format, uint32_t width, uint32_t positions, Phase phase, uint64_t seed);

}   // namespace mote::test
