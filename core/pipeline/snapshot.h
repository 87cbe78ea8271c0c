// What a sequence writes into a snapshot and how it is read back: little-endian, packed, at any address.
//
//   SequenceHeader::kBytes                numbers, below
//   n_states x kStateBytes                u32 layer, n_kv_heads, key_dim, value_dim, window, phase
//   n_input x 4                           tokens of the encoder's input, which is encoded again
//   n_history x 4                         tokens
//   for each state: rows x row_bytes      its positions in canonical row form (core/ops/backend.h), rising: all up to
//                                         n_run, with a window those that the next query sees; of a recurrent vector
//                                         the last; of one that holds an encoder's input none
//   n_vocab x 4, when there are logits    f32, of the last token
//
// Whatever changes here, in the header before it (core/api_snapshot.cpp) or in the row form raises the layout version.
#pragma once
#include <span>

#include "core/base/sha256.h"
#include "core/ops/plan.h"
#include "core/pipeline/placement.h"

namespace mote {

// Which arithmetic runs which steps; bits of results depend on it and on nothing else of the backends.
struct PlacedArithmetic {
  char names[48] = {};     // "canonical 1, reference 1", each once, cut to fit, padded with zeros
  Sha256Digest places{};   // which steps run under which of them
};
PlacedArithmetic placed_arithmetic(std::span<const PlacedPart> parts);

struct SequenceHeader {
  static constexpr size_t kBytes = 120, kStateBytes = 24;

  PlacedArithmetic arithmetic;            // at 0 and 48
  uint32_t kv_type = 0, n_vocab = 0;      // at 80
  uint32_t n_states = 0, n_history = 0;   // at 88
  uint32_t n_run = 0, has_logits = 0;     // at 96
  uint64_t n_dropped = 0;                 // at 104
  uint32_t n_input = 0;                   // at 112; then 0

  void write(uint8_t* to) const;   // kBytes
  static SequenceHeader read(const uint8_t* from);
};

// Positions of a state that a sequence of n_run positions has in a snapshot: [first, n_run).
inline uint32_t first_kept_row(const StateInfo& state, uint32_t n_run) {
  if (state.phase == Phase::encode) return n_run;
  if (state.recurrent()) return n_run == 0 ? 0 : n_run - 1;
  return state.window == 0 || n_run < state.window ? 0 : n_run + 1 - state.window;
}

}   // namespace mote
