// The form of x that super_blocks_avx512.h reads: quantised as linear.h says and laid out for its two shapes of kernel.
// Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/linear.h"
#include "backends/cpu/linear/super_block_formats_avx512.h"

namespace mote {
namespace {

// A step of the few-row kernel is four super-blocks. The last ones of a row, fewer than four, are one step for as many
// weight rows as fit: slot i holds super-block i % rest of weight row i / rest. Per row of x and step: codes
// [4 groups][4 words][16 lanes][4]; then either -zero * sum of 16 codes, int32 [4 groups][16 lanes], or sums of codes
// of a sub-block, int16 [4 super-blocks][kSubs]; then the scales [4].
template <class Input>
struct FewForm {
  static constexpr uint32_t kSums = 1024, kScales = kSums + (Input::kMins ? Input::kMinVectors * 64 : 256);
  static constexpr uint32_t kStepBytes = kScales + 64;
  static uint64_t row_bytes(uint32_t blocks) { return uint64_t{(blocks + 3) / 4} * kStepBytes; }
};

// Panels of at most kTileXRows rows, as even as can be: from kFewRows + 1 rows on they are three to six. Per panel
// and super-block, in visiting order: codes [64][rows][4]; then -zero * sum of codes, int32 [kSubs][rows], or pairs of
// int16 sums [kSubs / 2][rows][2]; then the scales [rows].
template <class Input>
struct PanelForm {
  static constexpr uint32_t kSums = 256, kScales = kSums + Input::kSubs * (Input::kMins ? 2 : 4);
  static constexpr uint32_t kBlockBytes = kScales + 4;   // of one row
};
struct Panels {
  uint32_t rows, count;
  explicit Panels(uint32_t x_rows) : rows(x_rows), count((x_rows + kTileXRows - 1) / kTileXRows) {}
  uint32_t first(uint32_t panel) const { return static_cast<uint32_t>(uint64_t{rows} * panel / count); }
};

// Codes of 256 values; gives their scale. The rules of `InputForm`.
MOTE_INLINE float quantize_256(const float* x, int8_t* codes) {
  __m512i top = _mm512_setzero_si512();   // the bits of |x| rise with |x|; infinity and NaN are above all
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    top = _mm512_max_epi32(
        top, _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + i * 16)), _mm512_set1_epi32(0x7fffffff)));
  const int32_t bits = _mm512_reduce_max_epi32(top);
  const float largest = bits_as<float>(bits);
  if (bits >= 0x7f800000 || largest < 0x1p-100f) {
    __builtin_memset(codes, 0, 256);
    return bits >= 0x7f800000 ? bits_as<float>(0x7fc00000u) : 0.0f;
  }
  const __m512 inverse = _mm512_set1_ps(127.0f / largest);
#pragma GCC unroll 4
  for (int i = 0; i < 16; ++i) {
    const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i * 16), inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i * 16), _mm512_cvtepi32_epi8(rounded));
  }
  return largest / 127.0f;
}

// The sum of the four codes of each of the words, in every lane.
MOTE_INLINE __m512i sum_words(const __m512i words[4]) {
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w) sum = _mm512_dpbusd_epi32(sum, bytes_of(1), words[w]);
  return sum;
}
// What the sub-blocks of a super-block begin with or are multiplied with: int32 [16] biases, or int16 [kSubs] sums.
template <class Input>
MOTE_INLINE void store_sums(const int8_t* codes, void* sums) {
  __m512i words[4];
  load_words([&](int i) { return codes + i * 16; }, 0, words);
  const __m512i sum16 = sum_words(words);   // of each piece of 16
  const __m256i narrow = _mm512_cvtepi32_epi16(sum16);
  const __m256i pairs = _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
  if constexpr (Input::kMins && Input::kSub == 16)
    _mm256_storeu_si256(static_cast<__m256i*>(sums), narrow);
  else if constexpr (Input::kMins)
    _mm_storeu_si128(static_cast<__m128i*>(sums), _mm256_cvtepi32_epi16(pairs));
  else if constexpr (Input::kSub == 16)
    _mm512_storeu_si512(sums, _mm512_mullo_epi32(sum16, _mm512_set1_epi32(-Input::kZero)));
  else
    _mm256_storeu_si256(static_cast<__m256i*>(sums), _mm256_mullo_epi32(pairs, _mm256_set1_epi32(-Input::kZero)));
}

// One step of one row: `count` super-blocks from x, repeated until the four slots are full.
template <class Input>
void make_few_step(const float* x, uint32_t count, uint8_t* to) {
  using Form = FewForm<Input>;
  alignas(64) int8_t codes[4][256];
  float scales[4];
  for (uint32_t i = 0; i < count; ++i) scales[i] = quantize_256(x + i * 256, codes[i]);
  for (uint32_t group = 0; group < 4; ++group) {
    const auto at = [&](int lane) {
      const Source source = Input::source(group, static_cast<uint32_t>(lane));
      return codes[source.slot % count] + source.piece * 16;
    };
    __m512i words[4];
    load_words(at, 0, words);
    for (uint32_t w = 0; w < 4; ++w) _mm512_store_si512(to + (group * 4 + w) * 64, words[w]);
    if constexpr (!Input::kMins)
      _mm512_store_si512(to + Form::kSums + group * 64,
                         _mm512_mullo_epi32(sum_words(words), _mm512_set1_epi32(-Input::kZero)));
  }
  for (uint32_t slot = 0; slot < 4; ++slot) {
    if constexpr (Input::kMins) store_sums<Input>(codes[slot % count], to + Form::kSums + slot * Input::kSubs * 2);
    __builtin_memcpy(to + Form::kScales + slot * 4, &scales[slot % count], 4);
  }
}

// One super-block of a row that is row `m` of the `rows` of a panel.
template <class Input>
void make_panel_block(const float* x, uint32_t m, uint32_t rows, uint8_t* to) {
  using Form = PanelForm<Input>;
  alignas(64) int8_t codes[256];
  alignas(64) uint8_t sums[64];
  const float scale = quantize_256(x, codes);
  store_sums<Input>(codes, sums);
  for (uint32_t w = 0; w < 64; ++w) __builtin_memcpy(to + (w * rows + m) * 4, codes + w * 4, 4);
  for (uint32_t j = 0; j < (Form::kScales - Form::kSums) / 4; ++j)
    __builtin_memcpy(to + Form::kSums * rows + (j * rows + m) * 4, sums + j * 4, 4);
  __builtin_memcpy(to + Form::kScales * rows + m * 4, &scale, 4);
}

template <class Input>
void make_super_blocks(const InputJob& job) {
  const uint32_t blocks = job.columns / 256;
  if (job.rows <= kFewRows) {
    for (uint32_t row = job.first_row; row < job.end_row; ++row) {
      uint8_t* to = job.input + row * FewForm<Input>::row_bytes(blocks);
      for (uint32_t b = 0; b < blocks; b += 4, to += FewForm<Input>::kStepBytes)
        make_few_step<Input>(job.x + size_t{row} * job.columns + b * 256, blocks - b < 4 ? blocks - b : 4, to);
    }
    return;
  }
  uint32_t visited[kLanes], count = 0;   // units that a tile has visited before those of a partial sum
  for (uint32_t step = 0; step < kLanes; ++step) {
    const uint32_t partial = partial_of_step(step);
    visited[partial] = count;
    count += (blocks + kLanes - 1 - partial) / kLanes;
  }
  const Panels panels(job.rows);
  constexpr uint32_t kBlockBytes = PanelForm<Input>::kBlockBytes;
  for (uint32_t panel = 0; panel < panels.count; ++panel) {
    const uint32_t first = panels.first(panel), rows = panels.first(panel + 1) - first;
    const uint32_t begin = first < job.first_row ? job.first_row : first;
    const uint32_t end = first + rows < job.end_row ? first + rows : job.end_row;
    uint8_t* to = job.input + size_t{first} * blocks * kBlockBytes;
    for (uint32_t b = 0; begin < end && b < blocks; ++b)
      for (uint32_t row = begin; row < end; ++row)
        make_panel_block<Input>(job.x + size_t{row} * job.columns + b * 256, row - first, rows,
                                to + (visited[b % kLanes] + b / kLanes) * size_t{kBlockBytes} * rows);
  }
}

template <class Input>
uint64_t super_blocks_bytes(uint32_t rows, uint32_t columns) {
  const uint32_t blocks = columns / 256;
  const uint64_t few = (rows < kFewRows ? rows : kFewRows) * FewForm<Input>::row_bytes(blocks);
  const uint64_t panels = rows <= kFewRows ? 0 : uint64_t{rows} * blocks * PanelForm<Input>::kBlockBytes;
  return ((few > panels ? few : panels) + 63) / 64 * 64;
}

template <class Input>
constexpr InputForm kSuperBlockForm = {make_super_blocks<Input>, super_blocks_bytes<Input>, kTileXRows};

}   // namespace
}   // namespace mote
