// Rows of single elements on any 64-bit ARM. Few rows of x here: the 16 partial sums of up to four outputs, one weight
// row with as many rows of x, stay in registers. Between chunks of columns, of which four rows of x fit the level-1
// cache, they wait in memory. Many rows of x: elements_tile_neon.h.
#include "backends/cpu/linear/elements_tile_neon.h"
#include "mote_build.h"

namespace mote {
namespace {

constexpr uint32_t kRowsAtATime = 16;   // weight rows
constexpr uint32_t kChunkColumns = 1024;

// Of a format: kBytes of an element; load(at, w): 16 elements, widened.
template <Format format>
struct Elements;

template <>
struct Elements<Format::f32> {
  static constexpr uint32_t kBytes = 4;
  MOTE_INLINE static void load(const uint8_t* at, float32x4_t w[4]) {
    for (uint32_t v = 0; v < 4; ++v) w[v] = vreinterpretq_f32_u8(vld1q_u8(at + 16 * v));
  }
};

template <>
struct Elements<Format::f16> {
  static constexpr uint32_t kBytes = 2;
  MOTE_INLINE static void load(const uint8_t* at, float32x4_t w[4]) {
    const float16x8_t low = vreinterpretq_f16_u8(vld1q_u8(at)), high = vreinterpretq_f16_u8(vld1q_u8(at + 16));
    w[0] = vcvt_f32_f16(vget_low_f16(low)), w[1] = vcvt_high_f32_f16(low);
    w[2] = vcvt_f32_f16(vget_low_f16(high)), w[3] = vcvt_high_f32_f16(high);
  }
};

template <>
struct Elements<Format::bf16> {
  static constexpr uint32_t kBytes = 2;
  MOTE_INLINE static void load(const uint8_t* at, float32x4_t w[4]) {
    const uint16x8_t low = vreinterpretq_u16_u8(vld1q_u8(at)), high = vreinterpretq_u16_u8(vld1q_u8(at + 16));
    w[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16));
    w[1] = vreinterpretq_f32_u32(vshll_high_n_u16(low, 16));
    w[2] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16));
    w[3] = vreinterpretq_f32_u32(vshll_high_n_u16(high, 16));
  }
};

// `count` rows of x, `columns` apart, with elements [0, end) of a weight row.
template <class F, uint32_t count>
void add_columns(const uint8_t* weights, const float* x, size_t columns, uint32_t end, float (*partial)[kLanes]) {
  float32x4_t acc[count][4];
#pragma GCC unroll 4
  for (uint32_t m = 0; m < count; ++m)
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; ++v) acc[m][v] = vld1q_f32(partial[m] + 4 * v);
  const float* at[count];
  for (uint32_t m = 0; m < count; ++m) at[m] = x + m * columns;
  uint32_t k = 0;
  for (; k + kLanes <= end; k += kLanes) {
    float32x4_t w[4];
    F::load(weights + size_t{k} * F::kBytes, w);
#pragma GCC unroll 4
    for (uint32_t m = 0; m < count; ++m) {
#pragma GCC unroll 4
      for (uint32_t v = 0; v < 4; ++v) acc[m][v] = vfmaq_f32(acc[m][v], w[v], vld1q_f32(at[m] + 4 * v));
      at[m] += kLanes;
    }
  }
#pragma GCC unroll 4
  for (uint32_t m = 0; m < count; ++m)
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; ++v) vst1q_f32(partial[m] + 4 * v, acc[m][v]);
  if (k == end) return;
  float32x4_t w[4];
  load_first<F>(weights + size_t{k} * F::kBytes, end - k, w);
  float lanes[kLanes];
#pragma GCC unroll 4
  for (uint32_t v = 0; v < 4; ++v) vst1q_f32(lanes + 4 * v, w[v]);
  for (uint32_t m = 0; m < count; ++m)
    for (uint32_t i = 0; k + i < end; ++i) partial[m][i] = fma_f32(lanes[i], x[m * columns + k + i], partial[m][i]);
}

// Weight rows [first, end) with all rows of x, `count`.
template <class F, uint32_t count>
void multiply_rows(const LinearJob& job, uint32_t first, uint32_t end) {
  float partial[kRowsAtATime][count][kLanes] = {};
  for (uint32_t column = 0; column < job.columns; column += kChunkColumns) {
    const uint32_t columns = job.columns - column < kChunkColumns ? job.columns - column : kChunkColumns;
    for (uint32_t row = first; row < end; ++row)
      add_columns<F, count>(job.weights + row * job.weight_row_bytes + size_t{column} * F::kBytes, job.x + column,
                            job.columns, columns, partial[row - first]);
  }
  for (uint32_t row = first; row < end; ++row)
    for (uint32_t m = 0; m < count; ++m) {
      const float sum = fold16(partial[row - first][m]);
      job.y[m * job.y_columns + row] = job.bias != nullptr ? sum + job.bias[row] : sum;
    }
}

template <class F>
void linear_elements(const LinearJob& job) {
  static constexpr decltype(&multiply_rows<F, 1>) kBatches[kFewRows] = {multiply_rows<F, 1>, multiply_rows<F, 2>,
                                                                        multiply_rows<F, 3>, multiply_rows<F, 4>};
  if (job.x_rows > kFewRows) return many_rows<F>(job);
  for (uint32_t row = job.first_row; row < job.end_row; row += kRowsAtATime) {
    const uint32_t end = job.end_row - row < kRowsAtATime ? job.end_row : row + kRowsAtATime;
    kBatches[job.x_rows - 1](job, row, end);
  }
}

// The kernel of a format; without a specialisation of Elements none.
template <Format format>
constexpr LinearKernel kernel_of() {
  if constexpr (requires { Elements<format>::kBytes; })
    return {linear_elements<Elements<format>>, &kPanelsForm, strip_bytes, kStripRows};
  else
    return {};
}

}   // namespace

extern const LinearTable linear_neon;
const LinearTable linear_neon = {{
#define MOTE_FORMAT(name, number, values, bytes) MOTE_FORMAT_##name ? kernel_of<Format::name>() : LinearKernel{},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
}};

}   // namespace mote
