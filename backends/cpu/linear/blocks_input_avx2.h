// The form of x that blocks_avx2.h reads: quantised as linear.h says and laid out for its two shapes of kernel.
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx2.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

// Up to kFewRows rows: row by row groups of 16 blocks, kGroupBytes each: codes [8][16 blocks][4], scales [16],
// extras [16]. The blocks behind the last whole group are one group more, in which block i stands in lanes i, i + rest,
// i + 2 rest ...: several weight rows share it.
// More rows: panels of kTileXRows (the last one has what is left), in a panel blocks in visiting order: codes
// [8][rows][4], scales [rows], extras [rows].
// The extra is the integer -zero * sum, or, in a format with mins, the float sum.
constexpr uint32_t kGroupBytes = 512 + 64 + 64, kTileBlockBytes = 32 + 4 + 4;

inline uint64_t few_rows_bytes(uint32_t rows, uint32_t columns) {
  return uint64_t{rows} * ((columns / 32 + kLanes - 1) / kLanes) * kGroupBytes;
}
inline uint64_t blocks_form_bytes(uint32_t rows, uint32_t columns) {
  const uint64_t few = few_rows_bytes(rows < kFewRows ? rows : kFewRows, columns);
  const uint64_t tiles = (uint64_t{rows} * (columns / 32) * kTileBlockBytes + 63) / 64 * 64;
  return rows <= kFewRows || few > tiles ? few : tiles;
}

struct BlockOfX {
  alignas(32) uint8_t codes[32];
  float scale;
  int32_t sum;
};
MOTE_INLINE BlockOfX quantize_block(const float* x) {
  BlockOfX made = {};
  __m256 inverse;
  if (!scales_of_block(largest_magnitude<1>(x), &made.scale, &inverse)) return made;
  const __m256i codes = codes_of(x, inverse);
  store_vector(made.codes, codes);
  made.sum = add_lanes(sum_fours(codes));
  return made;
}

template <uint32_t zero, bool mins>
MOTE_INLINE uint32_t extra_of(int32_t sum) {
  if constexpr (mins)
    return bits_as<uint32_t>(static_cast<float>(sum));
  else
    return static_cast<uint32_t>(-static_cast<int32_t>(zero) * sum);
}

MOTE_INLINE void store_word(uint8_t* to, const void* word) { __builtin_memcpy(to, word, 4); }

template <uint32_t zero, bool mins>
void make_few_rows(const InputJob& job) {
  const uint32_t blocks = job.columns / 32, rest = blocks % kLanes, full = blocks / kLanes;
  const size_t row_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  for (uint32_t row = job.first_row; row < job.end_row; ++row) {
    const float* x = job.x + size_t{row} * job.columns;
    for (uint32_t b = 0; b < blocks; ++b, x += 32) {
      const BlockOfX block = quantize_block(x);
      const uint32_t extra = extra_of<zero, mins>(block.sum);
      uint8_t* group = job.input + row * row_size + size_t{b / kLanes} * kGroupBytes;
      const uint32_t apart = b / kLanes < full ? kLanes : rest;
      for (uint32_t lane = b % kLanes; lane < kLanes; lane += apart) {
        for (uint32_t j = 0; j < 8; ++j) store_word(group + j * 64 + lane * 4, block.codes + j * 4);
        store_word(group + 512 + lane * 4, &block.scale);
        store_word(group + 576 + lane * 4, &extra);
      }
    }
  }
}

template <uint32_t zero, bool mins>
void make_panels(const InputJob& job) {
  const uint32_t blocks = job.columns / 32;
  for (uint32_t first = job.first_row; first < job.end_row; first += kTileXRows) {
    const uint32_t rows = job.rows - first < kTileXRows ? job.rows - first : kTileXRows;
    uint8_t* to = job.input + size_t{first} * blocks * kTileBlockBytes;
    visit_units(blocks, [&](uint32_t b) {
      for (uint32_t row = 0; row < rows; ++row) {
        const BlockOfX block = quantize_block(job.x + size_t{first + row} * job.columns + size_t{b} * 32);
        const uint32_t extra = extra_of<zero, mins>(block.sum);
        for (uint32_t j = 0; j < 8; ++j) store_word(to + (j * rows + row) * 4, block.codes + j * 4);
        store_word(to + (8 * rows + row) * 4, &block.scale);
        store_word(to + (9 * rows + row) * 4, &extra);
      }
      to += rows * kTileBlockBytes;
    });
  }
}

template <uint32_t zero, bool mins>
void make_blocks(const InputJob& job) {
  if (job.rows <= kFewRows)
    make_few_rows<zero, mins>(job);
  else
    make_panels<zero, mins>(job);
}

template <uint32_t zero, bool mins>
constexpr InputForm kBlocksForm = {make_blocks<zero, mins>, blocks_form_bytes, kTileXRows};

}   // namespace
}   // namespace mote
