#include "core/sampler/row_scan.h"

#include <algorithm>
#include <bit>
#include <limits>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mote {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Four floats at once, as gcc and clang write them for every machine; four by four where there are no vectors.
using Floats = float __attribute__((vector_size(16)));
using Mask = int32_t __attribute__((vector_size(16)));   // -1 where a comparison holds, else 0
constexpr uint32_t kVector = 4, kGroup = 16;

inline Floats load(const float* from) {
  using Unaligned = float __attribute__((vector_size(16), aligned(4), may_alias));
  return *reinterpret_cast<const Unaligned*>(from);
}
inline void store(Floats values, float* to) { __builtin_memcpy(to, &values, sizeof values); }
inline Floats all(float value) { return Floats{value, value, value, value}; }
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Floats smaller(Floats a, Floats b) { return a < b ? a : b; }
inline bool any(Mask mask) {
  uint64_t halves[2];
  __builtin_memcpy(halves, &mask, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

// Where a or b is a NaN.
inline Mask unordered(Floats a, Floats b) {
#if defined(__SSE2__)
  return reinterpret_cast<Mask>(_mm_cmpunord_ps(a, b));   // one instruction for both
#else
  return (a != a) | (b != b);
#endif
}

// The maxima of 256 logits by their number mod 4; wrong if there is a NaN or +infinity, which *bad then tells.
inline Floats scan_strip(const float* logits, Mask* bad) {
  Floats a = all(-kInfinity), b = a, c = a, d = a;
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 256; i += kGroup) {
    const Floats w = load(logits + i), x = load(logits + i + 4), y = load(logits + i + 8), z = load(logits + i + 12);
    a = larger(a, w), b = larger(b, x), c = larger(c, y), d = larger(d, z);   // in this order one instruction each
    *bad |= unordered(w, x) | unordered(y, z);
  }
  const Floats strip = larger(larger(a, b), larger(c, d));
  *bad |= strip == all(kInfinity);
  return strip;
}

// The same of a strip that may be shorter, without its marked logits.
Floats scan_copy(std::span<const float> logits, std::span<const uint64_t> marks, Mask* bad) {
  float copy[256];
  std::fill(std::copy(logits.begin(), logits.end(), copy), copy + 256, -kInfinity);
  for (size_t word = 0; word < marks.size(); ++word)
    for (uint64_t left = marks[word]; left != 0; left &= left - 1)
      copy[64 * word + static_cast<size_t>(std::countr_zero(left))] = -kInfinity;
  return scan_strip(copy, bad);
}

// Numbers that rise with a float that is no NaN, -0 below +0, and back.
inline int32_t rising_bits(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
inline float from_rising_bits(int32_t bits) { return std::bit_cast<float>(bits < 0 ? bits ^ 0x7fffffff : bits); }

}   // namespace

void RowScan::layout(Arena& arena, uint32_t n_vocab) {
  const uint64_t strips = (uint64_t{n_vocab} + kStrip - 1) / kStrip;
  maxima_ = arena.take<float>(strips * kLanes);
  marks_ = arena.take<uint64_t>(strips * kWords);
  std::fill(marks_.begin(), marks_.end(), uint64_t{0});
  has_marks_ = false;
}

bool RowScan::run(std::span<const float> logits) {
  Mask bad = {};
  const size_t n_full = logits.size() / kStrip;
  for (size_t strip = 0; strip < n_full; ++strip)
    store(scan_strip(logits.data() + strip * kStrip, &bad), &maxima_[strip * kLanes]);
  if (n_full * kStrip < logits.size())
    store(scan_copy(logits.subspan(n_full * kStrip), {}, &bad), &maxima_[n_full * kLanes]);
  if (any(bad)) return false;
  for (size_t strip = 0; has_marks_ && strip * kLanes < maxima_.size(); ++strip) {
    const std::span<const uint64_t> marks = marks_.subspan(strip * kWords, kWords);
    if ((marks[0] | marks[1] | marks[2] | marks[3]) == 0) continue;
    const size_t begin = strip * kStrip, size = std::min<size_t>(kStrip, logits.size() - begin);
    store(scan_copy(logits.subspan(begin, size), marks, &bad), &maxima_[strip * kLanes]);
  }
  return true;
}

RowScan::Range RowScan::range() const {
  Floats high[2] = {load(&maxima_[0]), load(&maxima_[0])}, low[2] = {high[0], high[0]};
  size_t i = 0;
  for (; i + 2 * kVector <= maxima_.size(); i += 2 * kVector)
    for (uint32_t j = 0; j < 2; ++j) {
      const Floats values = load(&maxima_[i + kVector * j]);
      high[j] = larger(high[j], values), low[j] = smaller(low[j], values);
    }
  if (i < maxima_.size()) high[0] = larger(high[0], load(&maxima_[i])), low[0] = smaller(low[0], load(&maxima_[i]));
  const Floats highest = larger(high[0], high[1]), lowest = smaller(low[0], low[1]);
  return {std::min(std::min(lowest[0], lowest[1]), std::min(lowest[2], lowest[3])),
          std::max(std::max(highest[0], highest[1]), std::max(highest[2], highest[3]))};
}

uint32_t RowScan::reaching(float least) const {
  Mask counts[4] = {};
  size_t i = 0;
  for (; i + kGroup <= maxima_.size(); i += kGroup)
    for (uint32_t j = 0; j < 4; ++j) counts[j] += load(&maxima_[i + kVector * j]) >= all(least);
  for (; i < maxima_.size(); i += kVector) counts[0] += load(&maxima_[i]) >= all(least);
  const Mask sum = counts[0] + counts[1] + counts[2] + counts[3];
  return static_cast<uint32_t>(-(sum[0] + sum[1] + sum[2] + sum[3]));
}

// By halves of the bits between the smallest and the largest of the maxima, until few enough reach the number: each
// maximum that does is a logit that does.
float RowScan::reached_by(uint32_t k) const {
  const Range maxima = range();
  if (k == 1) return std::max(kAll, maxima.highest);
  const float lowest = std::max(kAll, maxima.lowest), highest = maxima.highest;
  uint32_t found = reaching(lowest);
  if (found < k) return kAll;
  const uint64_t enough = uint64_t{k} + k / 4 + 8;
  int64_t low = rising_bits(lowest), high = int64_t{rising_bits(highest)} + 1;   // fewer than k reach `high`
  while (found > enough && high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const uint32_t reached = reaching(from_rising_bits(static_cast<int32_t>(middle)));
    if (reached >= k)
      low = middle, found = reached;
    else
      high = middle;
  }
  return from_rising_bits(static_cast<int32_t>(low));
}

uint32_t RowScan::gather(std::span<const float> logits, float least, std::span<double> score,
                         std::span<int32_t> token) {
  const auto n_vocab = static_cast<uint32_t>(logits.size());
  uint32_t count = 0;
  const auto take = [&](uint32_t i) {
    score[count] = static_cast<double>(logits[i]);
    token[count++] = static_cast<int32_t>(i);
  };
  const Floats limit = all(least);
  for (uint32_t begin = 0; begin < n_vocab; begin += kStrip) {
    const size_t strip = begin / kStrip;
    uint64_t marks[kWords] = {}, marked = 0;
    for (uint32_t i = 0; has_marks_ && i < kWords; ++i) {
      uint64_t& mark = marks_[strip * kWords + i];
      marked |= marks[i] = mark;
      mark = 0;
    }
    if (marked == 0 && !any(load(&maxima_[strip * kLanes]) >= limit)) continue;
    for (uint32_t first = begin; first < std::min(begin + kStrip, n_vocab); first += kGroup) {
      const uint64_t group_marks = marks[first % kStrip / 64] >> (first % 64) & 0xffff;
      const uint32_t n = std::min(kGroup, n_vocab - first);
      if (n == kGroup && group_marks == 0) {
        Mask some = {}, not_all = {};
        for (uint32_t j = 0; j < kGroup; j += kVector) {
          const Mask reach = load(&logits[first + j]) >= limit;
          some |= reach, not_all |= ~reach;
        }
        if (!any(some)) continue;
        if (!any(not_all)) {
          for (uint32_t i = 0; i < kGroup; ++i) score[count + i] = static_cast<double>(logits[first + i]);
          for (uint32_t i = 0; i < kGroup; ++i) token[count + i] = static_cast<int32_t>(first + i);
          count += kGroup;
          continue;
        }
      }
      for (uint32_t i = 0; i < n; ++i)
        if (logits[first + i] >= ((group_marks >> i & 1) != 0 ? kAll : least)) take(first + i);
    }
  }
  has_marks_ = false;
  return count;
}

}   // namespace mote
