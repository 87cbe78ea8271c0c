// What is kept of a batch to be looked at: mote_attention of mote.h.
#include "core/session.h"

namespace mote {
namespace {

static_assert(MOTE_TAP_DECODER_ATTENTION == 1 << static_cast<int>(Attending::decoder) &&
              MOTE_TAP_ENCODER_ATTENTION == 1 << static_cast<int>(Attending::encoder) &&
              MOTE_TAP_CROSS_ATTENTION == 1 << static_cast<int>(Attending::across));

Result<Attending> attending_of(int32_t tap) {
  for (uint32_t i = 0; i < kAttendings; ++i)
    if (tap == 1 << i) return static_cast<Attending>(i);
  return Status::error(Code::invalid_argument, "tap is {}; it must be one mote_tap, {} or {} or {}", tap,
                       static_cast<int>(MOTE_TAP_DECODER_ATTENTION), static_cast<int>(MOTE_TAP_ENCODER_ATTENTION),
                       static_cast<int>(MOTE_TAP_CROSS_ATTENTION));
}

}   // namespace
}   // namespace mote

extern "C" {

mote_status mote_attention(mote_session* session, int32_t tap, uint32_t layer, const float** weights, size_t* n_rows,
                           size_t* n_heads, size_t* n_positions, mote_error* error) {
  using namespace mote;
  const SessionCall call(session);
  if (!call.status().ok()) return report(call.status(), error);
  if (weights == nullptr || n_rows == nullptr || n_heads == nullptr || n_positions == nullptr)
    return report(Status::error(Code::invalid_argument, "weights, n_rows, n_heads or n_positions is NULL"), error);
  const Result<Attending> attending = attending_of(tap);
  if (!attending.ok()) return report(attending.status(), error);
  const Result<Sequence::Attention> found = session->sequence->attention(attending.value(), layer);
  if (!found.ok()) return report(found.status(), error);
  *weights = found.value().weights;
  *n_rows = found.value().rows;
  *n_heads = found.value().heads;
  *n_positions = found.value().positions;
  return MOTE_OK;
}

}   // extern "C"
