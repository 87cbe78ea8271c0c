// What the ARM kernels of `linear` on blocks share. They take blocks in quads: four consecutive units of one row (few
// rows of x) or one unit of four rows (tiles). The two shapes keep the canonical order of linear.h:
//   few rows of x    lane = unit: a quad of a weight row is a quarter of the 16 partial sums
//   many rows of x   a tile of 8 weight rows and 4 rows of x; units in the order of tile_order.h
// A tile has kW x kX accumulators of four outputs each. The dot product of four takes lane = weight row and one row of
// x; the matrix product of eights takes 2 weight rows and 2 rows of x. Internal linkage: see kernel_base.h.
#pragma once
#include <arm_neon.h>

#include "backends/cpu/linear/tile_order.h"

namespace mote {
namespace {

constexpr uint32_t kQuad = 4;
constexpr uint32_t kStripRows = 8;   // weight rows that a tile unpacks at a time: two quads
constexpr uint32_t kFewRows = 8;     // rows of x up to which weights are read row by row instead

// body(Index<0>), ..., body(Index<count - 1>): for lanes, which instructions want as constants.
template <int index>
struct Index {
  constexpr operator int() const { return index; }
};
template <int count, class Body>
MOTE_INLINE void times(const Body& body) {
  if constexpr (count > 0) {
    times<count - 1>(body);
    body(Index<count - 1>());
  }
}

MOTE_INLINE float32x4_t load_floats(const uint8_t* at) { return vreinterpretq_f32_u8(vld1q_u8(at)); }
MOTE_INLINE int32x4_t load_ints(const uint8_t* at) { return vreinterpretq_s32_u8(vld1q_u8(at)); }
MOTE_INLINE int8x16_t load_codes(const uint8_t* at) { return vreinterpretq_s8_u8(vld1q_u8(at)); }
MOTE_INLINE void store_floats(uint8_t* at, float32x4_t values) { vst1q_u8(at, vreinterpretq_u8_f32(values)); }
MOTE_INLINE void store_ints(uint8_t* at, int32x4_t values) { vst1q_u8(at, vreinterpretq_u8_s32(values)); }

// The halves at `offset` of four blocks, widened.
MOTE_INLINE float32x4_t load_halves(const uint8_t* const at[kQuad], size_t offset) {
  uint16x4_t halves = vdup_n_u16(load_at<uint16_t>(at[0] + offset));
  halves = vset_lane_u16(load_at<uint16_t>(at[1] + offset), halves, 1);
  halves = vset_lane_u16(load_at<uint16_t>(at[2] + offset), halves, 2);
  halves = vset_lane_u16(load_at<uint16_t>(at[3] + offset), halves, 3);
  return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

// Lane i: the sum of the lanes of sums[i].
MOTE_INLINE int32x4_t add_across(const int32x4_t sums[kQuad]) {
  return vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
}

// Integers that are 2^bits times what is meant.
template <int bits>
MOTE_INLINE float32x4_t to_floats(int32x4_t values) {
  if constexpr (bits == 0)
    return vcvtq_f32_s32(values);
  else
    return vcvtq_n_f32_s32(values, bits);
}

// ------------------------------------------------------------------------------------------ tiles

MOTE_INLINE float32x4_t zip_low(float32x4_t a, float32x4_t b) { return vzip1q_f32(a, b); }
MOTE_INLINE int32x4_t zip_low(int32x4_t a, int32x4_t b) { return vzip1q_s32(a, b); }
MOTE_INLINE float32x4_t zip_high(float32x4_t a, float32x4_t b) { return vzip2q_f32(a, b); }
MOTE_INLINE int32x4_t zip_high(int32x4_t a, int32x4_t b) { return vzip2q_s32(a, b); }

// What an instruction set does to a tile, the same names for both:
//   interleave(codes, to)   16 codes of each block of a quad to 64 bytes in the instruction's order
//   multiply(w, x, dot)     adds to dot[kW][kX] the products of 16 codes: w that of two quads, 128 bytes apart, x of
//   one spread_w(quad, to)      a number of each of four weight rows to kW / 2 vectors as the accumulators' lanes want
//   them spread_x(quad, to)      a number of each of four rows of x to kX vectors weight_row, x_row       which output
//   lane l of accumulator [a][b] is
#if defined(__ARM_FEATURE_MATMUL_INT8)

constexpr uint32_t kW = 4, kX = 2;

MOTE_INLINE int8x16_t join_low(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
MOTE_INLINE int8x16_t join_high(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
// [2 eights][2 pairs of blocks][2][8]
MOTE_INLINE void interleave(const int8x16_t codes[kQuad], uint8_t* to) {
  vst1q_u8(to, vreinterpretq_u8_s8(join_low(codes[0], codes[1])));
  vst1q_u8(to + 16, vreinterpretq_u8_s8(join_low(codes[2], codes[3])));
  vst1q_u8(to + 32, vreinterpretq_u8_s8(join_high(codes[0], codes[1])));
  vst1q_u8(to + 48, vreinterpretq_u8_s8(join_high(codes[2], codes[3])));
}
MOTE_INLINE void multiply(const uint8_t* w, const uint8_t* x, int32x4_t dot[kW][kX]) {
#pragma GCC unroll 2
  for (uint32_t eight = 0; eight < 2; ++eight, w += 32, x += 32) {
    const int8x16_t codes_x[kX] = {load_codes(x), load_codes(x + 16)};
#pragma GCC unroll 4
    for (uint32_t a = 0; a < kW; ++a) {
      const int8x16_t codes_w = load_codes(w + a / 2 * 128 + a % 2 * 16);
#pragma GCC unroll 2
      for (uint32_t b = 0; b < kX; ++b) dot[a][b] = vmmlaq_s32(dot[a][b], codes_w, codes_x[b]);
    }
  }
}
template <class Vector>
MOTE_INLINE void spread_w(Vector quad, Vector to[kW / 2]) {
  to[0] = zip_low(quad, quad);
  to[1] = zip_high(quad, quad);
}
MOTE_INLINE void spread_x(float32x4_t quad, float32x4_t to[kX]) {
  to[0] = vcombine_f32(vget_low_f32(quad), vget_low_f32(quad));
  to[1] = vcombine_f32(vget_high_f32(quad), vget_high_f32(quad));
}
MOTE_INLINE void spread_x(int32x4_t quad, int32x4_t to[kX]) {
  to[0] = vcombine_s32(vget_low_s32(quad), vget_low_s32(quad));
  to[1] = vcombine_s32(vget_high_s32(quad), vget_high_s32(quad));
}
constexpr uint32_t weight_row(uint32_t a, uint32_t lane) { return 2 * a + lane / 2; }
constexpr uint32_t x_row(uint32_t b, uint32_t lane) { return 2 * b + lane % 2; }

#else

constexpr uint32_t kW = 2, kX = 4;

// [4 words][4 blocks][4]
MOTE_INLINE void interleave(const int8x16_t codes[kQuad], uint8_t* to) {
  int32x4_t words[kQuad];
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kQuad; ++i) words[i] = vreinterpretq_s32_s8(codes[i]);
  const int32x4_t low02 = zip_low(words[0], words[2]), high02 = zip_high(words[0], words[2]);
  const int32x4_t low13 = zip_low(words[1], words[3]), high13 = zip_high(words[1], words[3]);
  store_ints(to, zip_low(low02, low13));
  store_ints(to + 16, zip_high(low02, low13));
  store_ints(to + 32, zip_low(high02, high13));
  store_ints(to + 48, zip_high(high02, high13));
}
MOTE_INLINE void multiply(const uint8_t* w, const uint8_t* x, int32x4_t dot[kW][kX]) {
#pragma GCC unroll 4
  for (uint32_t word = 0; word < 4; ++word, w += 16, x += 16) {
    const int8x16_t codes_x = load_codes(x);
#pragma GCC unroll 2
    for (uint32_t a = 0; a < kW; ++a) {
      const int8x16_t codes_w = load_codes(w + a * 128);
      times<kX>([&](auto b) __attribute__((always_inline)) {
        dot[a][b] = vdotq_laneq_s32(dot[a][b], codes_w, codes_x, decltype(b)());
      });
    }
  }
}
template <class Vector>
MOTE_INLINE void spread_w(Vector quad, Vector to[kW / 2]) {
  to[0] = quad;
}
MOTE_INLINE void spread_x(float32x4_t quad, float32x4_t to[kX]) {
  times<kX>([&](auto b) __attribute__((always_inline)) { to[b] = vdupq_laneq_f32(quad, decltype(b)()); });
}
MOTE_INLINE void spread_x(int32x4_t quad, int32x4_t to[kX]) {
  times<kX>([&](auto b) __attribute__((always_inline)) { to[b] = vdupq_laneq_s32(quad, decltype(b)()); });
}
constexpr uint32_t weight_row(uint32_t a, uint32_t lane) { return 4 * a + lane; }
constexpr uint32_t x_row(uint32_t b, uint32_t) { return b; }

#endif

}   // namespace
}   // namespace mote
