// The tile of 16 weight rows and its kernel in 256-bit registers, for units of any size. A `Tile` has
//   kUnit, kBytes            values and bytes of a unit of a weight row
//   kStripBytes, kXBytes     bytes of a unit of a strip, and of one row of a panel of x
//   kFew, few<count>(job)    rows of x up to which weights are read row by row; the kernel for `count` of them
//   unpack(at, to)           the units at at(0) .. at(7) to their 8 lanes, every 64 bytes from `to` on
//   add<kRows>(strip, x, acc)   adds a unit of a strip and a panel to partial sums [kRows][16 weight rows]
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx2.h"
#include "backends/cpu/linear/linear.h"

namespace mote {
namespace {

// The fold of a tile of 16 weight rows (lanes) and kRows rows of x, whose partial sums come in the order of
// `partial_of_step`: those that wait for their partner, in the end the outputs without bias.
template <uint32_t kRows>
struct Waiting {
  __m256 sums[5][kRows][2];

  MOTE_INLINE void add(uint32_t step, __m256 partial[kRows][2]) {
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < 2; ++v) partial[m][v] = _mm256_add_ps(sums[level][m][v], partial[m][v]);
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < 2; ++v) sums[level][m][v] = partial[m][v];
  }
  // The outputs of weight rows from `row` on, up to end_row.
  MOTE_INLINE void store(const LinearJob& job, uint32_t x_first, uint32_t row) const {
    const uint32_t live = job.end_row - row < kStripRows ? job.end_row - row : kStripRows;
    for (uint32_t m = 0; m < kRows; ++m) {
      float* const y = job.y + (x_first + m) * job.y_columns + row;
      alignas(32) float outputs[kStripRows];
      _mm256_store_ps(outputs, sums[4][m][0]);
      _mm256_store_ps(outputs + 8, sums[4][m][1]);
      if (live < kStripRows || job.bias != nullptr) {
        for (uint32_t r = 0; r < live; ++r) y[r] = job.bias != nullptr ? outputs[r] + job.bias[row + r] : outputs[r];
      } else {
        __builtin_memcpy(y, outputs, sizeof outputs);
      }
    }
  }
};

template <class Tile>
uint64_t strip_bytes(uint32_t columns) {
  return uint64_t{columns / Tile::kUnit} * Tile::kStripBytes;
}

using RowsOfStrip = WeightRows<kStripRows>;

// Unit `u` of each.
template <class Tile>
void unpack_unit(const RowsOfStrip& rows, uint32_t u, uint8_t* to) {
  for (uint32_t half = 0; half < 2; ++half)
    Tile::unpack([&](int i) { return rows.at[half * 8 + static_cast<uint32_t>(i)] + size_t{u} * Tile::kBytes; },
                 to + half * 32);
}

// kRows rows of x, `x` their panel, with a strip, one partial sum after the other. For the only panel (`rows` given)
// each unit is unpacked when its turn comes, to where the one before was: in the nearest cache.
template <class Tile, uint32_t kRows>
void multiply_panel(const LinearJob& job, const RowsOfStrip* rows, uint8_t* strip, const uint8_t* x, uint32_t x_first,
                    uint32_t row, Ahead ahead) {
  const uint32_t units = job.columns / Tile::kUnit;
  Waiting<kRows> waiting;
  for (uint32_t step = 0; step < kLanes; ++step) {
    __m256 acc[kRows][2];
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m) acc[m][0] = acc[m][1] = _mm256_setzero_ps();
    for (uint32_t u = partial_of_step(step); u < units; u += kLanes) {
      if (rows != nullptr) unpack_unit<Tile>(*rows, u, strip);
      Tile::template add<kRows>(strip, x, acc);
      x += Tile::kXBytes * kRows;
      if (rows == nullptr) strip += Tile::kStripBytes;
      ahead.step();
    }
    waiting.add(step, acc);
  }
  waiting.store(job, x_first, row);
}

template <class Tile>
void many_rows(const LinearJob& job) {
  static constexpr decltype(&multiply_panel<Tile, 1>) kPanels[] = {multiply_panel<Tile, 1>, multiply_panel<Tile, 2>,
                                                                   multiply_panel<Tile, 3>, multiply_panel<Tile, 4>};
  const uint32_t units = job.columns / Tile::kUnit, panels = (job.x_rows + kTileXRows - 1) / kTileXRows;
  const size_t strip_size = kStripRows * job.weight_row_bytes;
  uint8_t* const strip = static_cast<uint8_t*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kStripRows) {
    const RowsOfStrip rows_of_strip(job, row);
    uint8_t* to = strip;
    if (panels > 1)
      visit_units(units, [&](uint32_t u) {
        unpack_unit<Tile>(rows_of_strip, u, to);
        to += Tile::kStripBytes;
      });
    const bool more = job.end_row - row > kStripRows;
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t x_first = panel * kTileXRows;
      const uint32_t rows = job.x_rows - x_first < kTileXRows ? job.x_rows - x_first : kTileXRows;
      const Ahead ahead =
          more ? ahead_of(job.weights + (row + kStripRows) * job.weight_row_bytes, strip_size, panel, panels, units)
               : Ahead{};
      kPanels[rows - 1](job, panels > 1 ? nullptr : &rows_of_strip, strip,
                        job.input + size_t{x_first} * units * Tile::kXBytes, x_first, row, ahead);
    }
  }
}

template <class Tile>
void run_tile(const LinearJob& job) {
  static_assert(kFewRows == 4 && (Tile::kFew == 2 || Tile::kFew == 4));
  if (job.x_rows == 1) return Tile::template few<1>(job);
  if (job.x_rows == 2) return Tile::template few<2>(job);
  if constexpr (Tile::kFew == 4) {
    if (job.x_rows == 3) return Tile::template few<3>(job);
    if (job.x_rows == 4) return Tile::template few<4>(job);
  }
  many_rows<Tile>(job);
}

template <class Tile, const InputForm& form>
constexpr LinearKernel kTileKernel = {run_tile<Tile>, &form, strip_bytes<Tile>, kStripRows};

}   // namespace
}   // namespace mote
