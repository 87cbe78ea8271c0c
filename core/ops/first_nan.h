// The first NaN that the `append` steps of a run were given, or that an `rnn` came to. A cache holds finite numbers
// only: what a query does not see must be an exact no-op, and 0 * NaN is none. So a NaN cannot stay in it, and it must
// not get lost either, or broken weights would give text that looks right. `append` stores 0, notes the position here,
// and the run fails.
//
// The lowest position counts, and at that the earliest step. A later position changes nothing at an earlier one (an
// encoder's input is one batch always), so
// this is what a run of one row at a time would have met: the same sentence for any cut into batches and any lanes.
#pragma once
#include <cstdint>

#include "core/base/status.h"
#include "core/ops/step.h"

namespace mote {

class FirstNan {
 public:
  // In the order of the steps.
  void note(uint32_t position, const Step& step) { note(position, step.layer, attending_of(step), step.op == Op::rnn); }
  void note(uint32_t position, uint32_t layer, Attending whose = Attending::decoder, bool recurrent = false) {
    if (found_ && position >= position_) return;
    found_ = true;
    position_ = position;
    layer_ = layer;
    whose_ = whose;
    recurrent_ = recurrent;
  }
  // After the last step: ok, or not_finite with the layer and the position.
  Status status() const {
    if (!found_) return {};
    constexpr std::string_view kOf[kAttendings] = {"", "the encoder's ", "cross-attention in "};   // by Attending
    return Status::error(Code::not_finite,
                         recurrent_ ? "the recurrent vector of {}layer {} at position {} holds a NaN"
                                    : "the keys or values of {}layer {} at position {} hold a NaN",
                         kOf[static_cast<size_t>(whose_)], layer_, position_);
  }

 private:
  bool found_ = false, recurrent_ = false;
  uint32_t position_ = 0, layer_ = 0;
  Attending whose_ = Attending::decoder;
};

}   // namespace mote
