// `linear` on blocks of 32 by AVX-512 and its 8-bit dot product, in the two shapes that avx512.h describes. The dot
// product takes unsigned weights and signed x, so weights stay unsigned, code + zero; what that adds,
// zero * sum(code_x), comes back as the integer at which each dot product starts. A format with a min has zero 0 and
// keeps the sum as a float instead. Internal linkage: see kernel_base.h.
#pragma once
#include "backends/cpu/linear/avx512.h"
#include "backends/cpu/linear/linear.h"
#include "core/format/format.h"

namespace mote {
namespace {

// ------------------------------------------------------------------------------------------ formats

// A format: kBytes of a block, kZero, kMins; its scale is the half at byte 0, its min that at byte 2. unpack(at,
// codes): the blocks at at(0) .. at(15) to codes[j] = codes 4 j .. 4 j + 3 of every lane, unsigned.
template <Format format>
struct Lanes;

// The low nibbles of 16 bytes are codes 0 .. 15, the high ones codes 16 .. 31.
template <class At>
MOTE_INLINE void load_nibbles(At at, size_t offset, __m512i codes[8]) {
  const __m512i low4 = _mm512_set1_epi8(15);
  __m512i raw[4];
  load_words(at, offset, raw);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    codes[j] = _mm512_and_si512(raw[j], low4);
    codes[4 + j] = _mm512_and_si512(_mm512_srli_epi16(raw[j], 4), low4);
  }
}

// Sets bit 4 of codes by the 32 bits at `offset`, bit i for code i.
template <class At>
MOTE_INLINE void add_fifth_bits(At at, size_t offset, __m512i codes[8]) {
  alignas(64) uint32_t bits[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) bits[i] = load_at<uint32_t>(at(i) + offset);
  const __m512i all = _mm512_load_si512(bits);
  // Of word j: four bits to the bottom of four bytes. Times 1 + 2^7 + 2^14 + 2^21, bit k lands at 8 k, among others.
  const __m512i spread = _mm512_set1_epi32(0x00204081), bottom = _mm512_set1_epi32(0x01010101);
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    const __m512i four = _mm512_and_si512(_mm512_srli_epi32(all, static_cast<unsigned>(4 * j)), _mm512_set1_epi32(15));
    const __m512i bytes = _mm512_and_si512(_mm512_mullo_epi32(four, spread), bottom);
    codes[j] = _mm512_or_si512(codes[j], _mm512_slli_epi32(bytes, 4));
  }
}

template <>
struct Lanes<Format::q4_0> {
  static constexpr uint32_t kBytes = 18, kZero = 8;
  static constexpr bool kMins = false;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 2, codes);
  }
};

template <>
struct Lanes<Format::q4_1> {
  static constexpr uint32_t kBytes = 20, kZero = 0;
  static constexpr bool kMins = true;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 4, codes);
  }
};

template <>
struct Lanes<Format::q5_0> {
  static constexpr uint32_t kBytes = 22, kZero = 16;
  static constexpr bool kMins = false;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 6, codes);
    add_fifth_bits(at, 2, codes);
  }
};

template <>
struct Lanes<Format::q5_1> {
  static constexpr uint32_t kBytes = 24, kZero = 0;
  static constexpr bool kMins = true;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_nibbles(at, 8, codes);
    add_fifth_bits(at, 4, codes);
  }
};

template <>
struct Lanes<Format::q8_0> {
  static constexpr uint32_t kBytes = 34, kZero = 128;
  static constexpr bool kMins = false;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    load_words(at, 2, codes);
    load_words(at, 18, codes + 4);
    const __m512i flip = _mm512_set1_epi8(-128);   // a signed byte to itself + 128
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) codes[j] = _mm512_xor_si512(codes[j], flip);
  }
};

template <>
struct Lanes<Format::iq4_nl> {
  static constexpr uint32_t kBytes = 18, kZero = 128;
  static constexpr bool kMins = false;
  template <class At>
  MOTE_INLINE static void unpack(At at, __m512i codes[8]) {
    // The format's table, 128 added.
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15));
    load_nibbles(at, 2, codes);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) codes[j] = _mm512_shuffle_epi8(table, codes[j]);
  }
};

// ------------------------------------------------------------------------------------------ the form of x

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
  __m256i codes;
  float scale;
  int32_t sum;
};
MOTE_INLINE BlockOfX quantize_block(const float* from) {
  const __m512 x0 = _mm512_loadu_ps(from), x1 = _mm512_loadu_ps(from + 16);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i tops = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(x1), magnitude));
  const int32_t top = _mm512_reduce_max_epi32(tops);
  const float largest = bits_as<float>(top);
  if (top >= 0x7f800000 || largest < 0x1p-100f)
    return {_mm256_setzero_si256(), top >= 0x7f800000 ? bits_as<float>(0x7fc00000u) : 0.0f, 0};
  const __m512 inverse = _mm512_set1_ps(127.0f / largest);
  const __m128i low = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse)));
  const __m128i high = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse)));
  const __m256i codes = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  const __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), codes);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return {codes, largest / 127.0f, _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)))};
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
      alignas(32) uint8_t codes[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(codes), block.codes);
      uint8_t* group = job.input + row * row_size + size_t{b / kLanes} * kGroupBytes;
      const uint32_t apart = b / kLanes < full ? kLanes : rest;
      for (uint32_t lane = b % kLanes; lane < kLanes; lane += apart) {
        for (uint32_t j = 0; j < 8; ++j) store_word(group + j * 64 + lane * 4, codes + j * 4);
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
        alignas(32) uint8_t codes[32];
        _mm256_store_si256(reinterpret_cast<__m256i*>(codes), block.codes);
        for (uint32_t j = 0; j < 8; ++j) store_word(to + (j * rows + row) * 4, codes + j * 4);
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

// ------------------------------------------------------------------------------------------ few rows of x

// One group of 16 blocks of a weight row, unpacked, with `rows` rows of x: acc[m] grows in the lanes of `live`.
template <class F>
struct Group {
  __m512i codes[8];
  __m512 scale, min;

  template <class At>
  MOTE_INLINE explicit Group(At at) {
    F::unpack(at, codes);
    scale = load_halves(at, 0);
    if constexpr (F::kMins) min = load_halves(at, 2);
  }
  MOTE_INLINE __m512 add_to(__m512 acc, const uint8_t* x, __mmask16 live) const {
    const __m512 scale_x = _mm512_load_ps(x + 512);
    __m512i dot = _mm512_setzero_si512();
    if constexpr (!F::kMins) dot = _mm512_load_si512(x + 576);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) dot = _mm512_dpbusd_epi32(dot, codes[j], _mm512_load_si512(x + j * 64));
    acc = _mm512_mask3_fmadd_ps(_mm512_mul_ps(scale, scale_x), _mm512_cvtepi32_ps(dot), acc, live);
    if constexpr (F::kMins)
      acc = _mm512_mask3_fmadd_ps(_mm512_mul_ps(min, scale_x), _mm512_load_ps(x + 576), acc, live);
    return acc;
  }
};

constexpr uint32_t kRowsAtATime = 16;   // weight rows, in whose tails the lanes of one step divide themselves

// Weight rows [first, end) with x rows [x_first, x_first + count).
template <class F, uint32_t count>
void few_rows(const LinearJob& job, uint32_t first, uint32_t end, uint32_t x_first) {
  const uint32_t blocks = job.columns / 32, full = blocks / kLanes, rest = blocks % kLanes;
  const size_t x_size = static_cast<size_t>(few_rows_bytes(1, job.columns));
  const uint8_t* const x = job.input + x_first * x_size;
  const uint32_t sharing = rest == 0 ? kRowsAtATime : kLanes / rest;   // rows that share a step for their tails
  alignas(64) float partial[count][kRowsAtATime][kLanes];
  alignas(64) int32_t tail_lane[kLanes] = {};   // where a lane's partial sum lies, behind that of the step's first row
  size_t tail_at[kLanes] = {};                  // and its block
  for (uint32_t lane = 0; rest != 0 && lane < sharing * rest; ++lane) {
    tail_lane[lane] = static_cast<int32_t>(lane / rest * kLanes + lane % rest);
    tail_at[lane] = lane / rest * job.weight_row_bytes + size_t{full * kLanes + lane % rest} * F::kBytes;
  }
  for (uint32_t row = first; row < end; row += kRowsAtATime) {
    const uint32_t rows = end - row < kRowsAtATime ? end - row : kRowsAtATime;
    const uint8_t* const weights = job.weights + row * job.weight_row_bytes;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint8_t* at = weights + r * job.weight_row_bytes;
      __m512 acc[count];
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) acc[m] = _mm512_setzero_ps();
      for (uint32_t g = 0; g < full; ++g, at += kLanes * F::kBytes) {
        for (uint32_t line = 0; line < kLanes * F::kBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(at + 4096 + line), _MM_HINT_T1);
        const Group<F> group([at](int i) { return at + static_cast<uint32_t>(i) * F::kBytes; });
#pragma GCC unroll 4
        for (uint32_t m = 0; m < count; ++m)
          acc[m] = group.add_to(acc[m], x + m * x_size + size_t{g} * kGroupBytes, 0xffff);
      }
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) _mm512_store_ps(partial[m][r], acc[m]);
    }
    for (uint32_t r = 0; rest != 0 && r < rows; r += sharing) {
      const uint32_t together = rows - r < sharing ? rows - r : sharing;
      const __mmask16 live = static_cast<__mmask16>((1u << (together * rest)) - 1);
      const uint8_t* const at = weights + r * job.weight_row_bytes;
      // A lane without a block looks at the first one.
      const Group<F> group([&](int i) { return at + (live >> i & 1 ? tail_at[i] : tail_at[0]); });
      const __m512i lanes = _mm512_load_si512(tail_lane);
#pragma GCC unroll 4
      for (uint32_t m = 0; m < count; ++m) {
        float* const sums = partial[m][r];
        __m512 acc = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), live, lanes, sums, 4);
        acc = group.add_to(acc, x + m * x_size + size_t{full} * kGroupBytes, live);
        _mm512_mask_i32scatter_ps(sums, live, lanes, acc, 4);
      }
    }
    for (uint32_t m = 0; m < count; ++m)
      for (uint32_t r = 0; r < rows; ++r) {
        const float sum = fold_lanes(_mm512_load_ps(partial[m][r]));
        job.y[(x_first + m) * job.y_columns + row + r] = job.bias != nullptr ? sum + job.bias[row + r] : sum;
      }
  }
}

// Four rows of x at a time, over 16 weight rows that the next four find in the cache: more at once would push
// everything else out of a level-1 cache of 32 KB.
template <class F>
void up_to_few_rows(const LinearJob& job) {
  static constexpr decltype(&few_rows<F, 1>) kBatches[] = {few_rows<F, 1>, few_rows<F, 2>, few_rows<F, 3>,
                                                           few_rows<F, 4>};
  if (job.x_rows <= 4) return kBatches[job.x_rows - 1](job, job.first_row, job.end_row, 0);
  const uint32_t batches = (job.x_rows + 3) / 4;
  for (uint32_t row = job.first_row; row < job.end_row; row += kRowsAtATime) {
    const uint32_t end = job.end_row - row < kRowsAtATime ? job.end_row : row + kRowsAtATime;
    for (uint32_t batch = 0; batch < batches; ++batch) {   // of nearly equal size
      const uint32_t x_first = job.x_rows * batch / batches, x_end = job.x_rows * (batch + 1) / batches;
      kBatches[x_end - x_first - 1](job, row, end, x_first);
    }
  }
}

// ------------------------------------------------------------------------------------------ many rows of x

// A strip of 32 weight rows, blocks in visiting order: codes [8][32 rows][4], scales [32], in a format with mins
// mins [32].
template <class F>
constexpr uint32_t kStripBlockBytes = 8 * 128 + 128 + (F::kMins ? 128 : 0);

template <class F>
uint64_t strip_bytes(uint32_t columns) {
  return uint64_t{columns / 32} * kStripBlockBytes<F>;
}

// Rows first .. first + 31; those from `end` on repeat the last one.
template <class F>
void unpack_strip(const LinearJob& job, uint32_t first, uint32_t end, uint8_t* strip) {
  for (uint32_t half = 0; half < 2; ++half) {
    const uint8_t* rows[16];
    for (uint32_t r = 0; r < 16; ++r) {
      const uint32_t row = first + half * 16 + r;
      rows[r] = job.weights + (row < end ? row : end - 1) * job.weight_row_bytes;
    }
    uint8_t* to = strip + half * 64;
    visit_units(job.columns / 32, [&](uint32_t b) __attribute__((always_inline)) {
      const auto at = [&](int i) { return rows[i] + size_t{b} * F::kBytes; };
      __m512i codes[8];
      F::unpack(at, codes);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) _mm512_store_si512(to + j * 128, codes[j]);
      _mm512_store_ps(to + 1024, load_halves(at, 0));
      if constexpr (F::kMins) _mm512_store_ps(to + 1152, load_halves(at, 2));
      to += kStripBlockBytes<F>;
    });
  }
}

// kRows rows of x, `x` their panel, with a strip. The dot products of a block and one partial sum stay in registers.
template <class F, uint32_t kRows>
void multiply_panel(const LinearJob& job, const uint8_t* strip, const uint8_t* x, uint32_t x_first, uint32_t row,
                    Ahead ahead) {
  const uint32_t blocks = job.columns / 32;
  __m512 waiting[5][kRows][2];   // for their partner in the fold
  for (uint32_t step = 0; step < kLanes; ++step) {
    __m512 acc[kRows][2];
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m) acc[m][0] = acc[m][1] = _mm512_setzero_ps();
    for (uint32_t b = partial_of_step(step); b < blocks; b += kLanes) {
      const uint8_t* const extras = x + 36 * kRows;
      __m512i dot[kRows][2];
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
        dot[m][0] = dot[m][1] = F::kMins ? _mm512_setzero_si512() : broadcast_word(extras + m * 4);
#pragma GCC unroll 8
      for (uint32_t j = 0; j < 8; ++j) {
        const __m512i codes0 = _mm512_load_si512(strip + j * 128), codes1 = _mm512_load_si512(strip + j * 128 + 64);
#pragma GCC unroll 6
        for (uint32_t m = 0; m < kRows; ++m) {
          const __m512i word = broadcast_word(x + (j * kRows + m) * 4);
          dot[m][0] = _mm512_dpbusd_epi32(dot[m][0], codes0, word);
          dot[m][1] = _mm512_dpbusd_epi32(dot[m][1], codes1, word);
        }
      }
#pragma GCC unroll 2
      for (uint32_t v = 0; v < 2; ++v) {
        const __m512 scale = _mm512_load_ps(strip + 1024 + v * 64);
#pragma GCC unroll 6
        for (uint32_t m = 0; m < kRows; ++m) {
          const __m512 both = _mm512_mul_ps(scale, broadcast_float(x + 32 * kRows + m * 4));
          acc[m][v] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(dot[m][v]), acc[m][v]);
        }
        if constexpr (F::kMins) {
          const __m512 min = _mm512_load_ps(strip + 1152 + v * 64);
#pragma GCC unroll 6
          for (uint32_t m = 0; m < kRows; ++m) {
            const __m512 both = _mm512_mul_ps(min, broadcast_float(x + 32 * kRows + m * 4));
            acc[m][v] = _mm512_fmadd_ps(both, broadcast_float(extras + m * 4), acc[m][v]);
          }
        }
      }
      x += kTileBlockBytes * kRows;
      strip += kStripBlockBytes<F>;
      ahead.step();
    }
    uint32_t level = 0;
    for (; (step >> level & 1) != 0; ++level)
#pragma GCC unroll 6
      for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
        for (uint32_t v = 0; v < 2; ++v) acc[m][v] = _mm512_add_ps(waiting[level][m][v], acc[m][v]);
#pragma GCC unroll 6
    for (uint32_t m = 0; m < kRows; ++m)
#pragma GCC unroll 2
      for (uint32_t v = 0; v < 2; ++v) waiting[level][m][v] = acc[m][v];
  }
  const uint32_t live = job.end_row - row >= kStripRows ? 0xffffffffu : (1u << (job.end_row - row)) - 1;
#pragma GCC unroll 2
  for (uint32_t v = 0; v < 2; ++v) {
    const __mmask16 mask = static_cast<__mmask16>(live >> (16 * v));
    const uint32_t at = row + 16 * v;
    for (uint32_t m = 0; m < kRows && mask != 0; ++m) {
      __m512 sum = waiting[4][m][v];
      if (job.bias != nullptr) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, job.bias + at));
      _mm512_mask_storeu_ps(job.y + (x_first + m) * job.y_columns + at, mask, sum);
    }
  }
}

template <class F>
void many_rows(const LinearJob& job) {
  static constexpr decltype(&multiply_panel<F, 1>) kPanels[] = {multiply_panel<F, 1>, multiply_panel<F, 2>,
                                                                multiply_panel<F, 3>, multiply_panel<F, 4>,
                                                                multiply_panel<F, 5>, multiply_panel<F, 6>};
  const uint32_t blocks = job.columns / 32, panels = (job.x_rows + kTileXRows - 1) / kTileXRows;
  const size_t strip_size = kStripRows * job.weight_row_bytes;
  uint8_t* const strip = static_cast<uint8_t*>(job.scratch);
  for (uint32_t row = job.first_row; row < job.end_row; row += kStripRows) {
    unpack_strip<F>(job, row, job.end_row, strip);
    const bool more = job.end_row - row > kStripRows;
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t x_first = panel * kTileXRows;
      const uint32_t rows = job.x_rows - x_first < kTileXRows ? job.x_rows - x_first : kTileXRows;
      const Ahead ahead =
          more ? ahead_of(job.weights + (row + kStripRows) * job.weight_row_bytes, strip_size, panel, panels, blocks)
               : Ahead{};
      kPanels[rows - 1](job, strip, job.input + size_t{x_first} * blocks * kTileBlockBytes, x_first, row, ahead);
    }
  }
}

template <class F>
void linear_lanes(const LinearJob& job) {
  if (job.x_rows <= kFewRows)
    up_to_few_rows<F>(job);
  else
    many_rows<F>(job);
}

template <Format format>
constexpr LinearKernel kBlocksKernel = {linear_lanes<Lanes<format>>,
                                        &kBlocksForm<Lanes<format>::kZero, Lanes<format>::kMins>,
                                        strip_bytes<Lanes<format>>, kStripRows};

}   // namespace
}   // namespace mote
