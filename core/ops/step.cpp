#include "core/ops/step.h"

namespace mote {
namespace {

constexpr OpInfo kOps[] = {
#define MOTE_OP(name, inputs, state, in_place) {#name, inputs, StateUse::state, in_place != 0},
#include "core/ops/ops.inc"
#undef MOTE_OP
};

}   // namespace

const OpInfo& op_info(Op op) { return kOps[static_cast<uint8_t>(op)]; }

}   // namespace mote
