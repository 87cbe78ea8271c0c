#include <arm_neon.h>
#define MOTE_PROBE_BYTES 16
#include "backends/cpu/probe/probe_kernels.h"

namespace mote {
namespace {

uint64_t int8_products(const uint8_t* block, size_t rounds) {
  const int8x16_t a = vld1q_s8(reinterpret_cast<const int8_t*>(block));
  const int8x16_t b = vld1q_s8(reinterpret_cast<const int8_t*>(block + 16));
  int32x4_t sum[12];
  for (int i = 0; i < 12; ++i) {
    sum[i] = vdupq_n_s32(0);
    __asm__("" : "+w"(sum[i]));   // or the sums would all be one
  }
  for (; rounds != 0; --rounds)
    for (int i = 0; i < 12; ++i) sum[i] = vmmlaq_s32(sum[i], a, b);
  for (int i = 1; i < 12; ++i) sum[0] = vaddq_s32(sum[0], sum[i]);
  return sum_of_lanes(sum[0]);
}

constexpr ProbeLoop kLoops[] = {{Limit::int8, "smmla of 16 bytes", int8_products, 12 * 32 * 2}};

}   // namespace

extern const ProbeTable probe_i8mm;
const ProbeTable probe_i8mm = {kLoops, sizeof kLoops / sizeof kLoops[0]};

}   // namespace mote
