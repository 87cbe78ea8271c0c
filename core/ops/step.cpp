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

// While only a quote is made there may be no data to point into.
Matrix Matrix::part(uint32_t first, uint32_t count) const {
  if (first > rows || count > rows - first) return {};
  const uint64_t skipped_bytes = first * row_bytes(format, columns);
  return {data == nullptr ? nullptr : data + static_cast<size_t>(skipped_bytes), count, columns, format, name};
}

Vector Vector::part(uint32_t first, uint32_t n) const {
  if (first > count || n > count - first) return {};
  return {data == nullptr ? nullptr : data + first, n};
}

}   // namespace mote
