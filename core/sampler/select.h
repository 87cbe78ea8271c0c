// Finds where a running sum of weights, taken in rising order of a key, passes a target, without sorting: the
// elements are counted into 256 bins between the smallest and the largest key, and only the bin in which the sum
// passes is looked at again. A pass is linear in the number of elements; after the first one or two few elements
// are left in question, and those are sorted on the stack. There are at most 18 passes, whatever the keys.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace mote {

struct Crossing {
  double key = 0;      // key of the first element with which the running sum passes the target
  uint32_t rank = 0;   // how many elements of that same key come before it
};

// When the running sum counts as having passed.
enum class Passes : uint8_t {
  above,         // sum > target
  at_or_above,   // sum >= target
};

namespace select_detail {

constexpr uint32_t kBins = 256, kFew = 64;

struct Bin {
  double weight = 0, lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  uint32_t count = 0;
};
struct Element {
  double key, weight;
};

inline bool passes(double sum, double target, Passes how) {
  return how == Passes::above ? sum > target : sum >= target;
}

// A number that rises with the key, both zeros the same.
inline uint64_t rising_bits(double key) {
  const auto bits = __builtin_bit_cast(uint64_t, key + 0.0);
  return (bits >> 63) != 0 ? ~bits : bits | uint64_t{1} << 63;
}

// Maps [lowest, highest] to 0 ... 255, never falling where the key rises, the ends to different bins.
class Binning {
 public:
  // Equal steps of the key, which suits logits; or of its bits, each pass of which settles 8 more of the 64 whatever
  // the keys are.
  Binning(double lowest, double highest, bool by_bits)
      : by_bits_(by_bits),
        lowest_(lowest),
        zoom_(highest - lowest < 0x1p-700 ? 0x1p+400 : 1.0),   // keeps 1 / width finite
        scale_((kBins - 0.5) / ((highest - lowest) * zoom_)),
        lowest_bits_(rising_bits(lowest)) {
    while ((rising_bits(highest) - lowest_bits_) >> shift_ >= kBins) ++shift_;
  }
  uint32_t bin(double key) const {
    if (by_bits_) return static_cast<uint32_t>((rising_bits(key) - lowest_bits_) >> shift_);
    return static_cast<uint32_t>(static_cast<int32_t>((key - lowest_) * zoom_ * scale_));   // vectors have this one
  }

 private:
  bool by_bits_;
  double lowest_, zoom_, scale_;
  uint64_t lowest_bits_;
  uint32_t shift_ = 0;
};

// Counts an element into its bin, unless its weight is 0.
inline void put(Bin& bin, double key, double weight) {
  if (weight == 0) return;
  ++bin.count;
  bin.lowest = std::min(bin.lowest, key), bin.highest = std::max(bin.highest, key);
  bin.weight += weight;
}

// All elements. Keys and weights (which may be exponentials) are made in runs that a compiler can vectorise.
template <class Key, class Weight>
void put_all(Bin (&bins)[kBins], const Binning& binning, uint32_t count, Key key, Weight weight) {
  constexpr uint32_t kRun = 64;
  double keys[kRun], weights[kRun];
  uint32_t numbers[kRun], i = 0;
  for (; i + kRun <= count; i += kRun) {
    for (uint32_t j = 0; j < kRun; ++j) keys[j] = key(i + j);
    for (uint32_t j = 0; j < kRun; ++j) weights[j] = weight(i + j);
    for (uint32_t j = 0; j < kRun; ++j) numbers[j] = binning.bin(keys[j]);
    for (uint32_t j = 0; j < kRun; ++j) put(bins[numbers[j]], keys[j], weights[j]);
  }
  for (; i < count; ++i) put(bins[binning.bin(key(i))], key(i), weight(i));
}

// The elements of one key, any number of them.
template <class Key, class Weight>
Crossing cross_equal(uint32_t count, double target, Passes how, Key key, Weight weight, double wanted, double sum) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (key(i) != wanted) continue;
    const double w = weight(i);
    if (w == 0) continue;
    sum += w;
    if (passes(sum, target, how)) return {wanted, seen};
    ++seen;
  }
  return {wanted, seen == 0 ? 0 : seen - 1};
}

// At most kFew elements with a key in [lowest, highest].
template <class Key, class Weight>
Crossing cross_few(uint32_t count, double target, Passes how, Key key, Weight weight, double lowest, double highest,
                   double sum) {
  Element few[kFew];
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const double k = key(i);
    if (k < lowest || k > highest) continue;
    const double w = weight(i);
    if (w == 0) continue;
    // Insertion from the back keeps equal keys in the order of their index.
    uint32_t at = found++;
    for (; at > 0 && few[at - 1].key > k; --at) few[at] = few[at - 1];
    few[at] = {k, w};
  }
  uint32_t rank = 0;
  for (uint32_t i = 0; i < found; ++i) {
    rank = i > 0 && few[i].key == few[i - 1].key ? rank + 1 : 0;
    sum += few[i].weight;
    if (passes(sum, target, how)) return {few[i].key, rank};
  }
  return {found == 0 ? highest : few[found - 1].key, rank};
}

template <class Weight>
double sum_of(uint32_t count, Weight weight) {
  double sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += weight(i);
  return sum;
}

}   // namespace select_detail

// Elements 0 ... count - 1 (count >= 1) with key(i), finite and below 1e301 in magnitude, and weight(i) >= 0.
// Elements of equal key count in the order of their index, elements of weight 0 not at all. If the sum never
// passes, the last element is the answer. target_of(total weight) is above 0, or 0 with Passes::above.
// Sums are taken in a fixed order, so the answer is the same everywhere. While many elements are in question, weights
// (exponentials) are asked for once.
template <class TargetOf, class Key, class Weight>
Crossing find_crossing_of(uint32_t count, TargetOf target_of, Passes how, Key key, Weight weight) {
  using namespace select_detail;
  double lowest = key(0), highest = lowest, before = 0, target = 0;
  for (uint32_t i = 1; i < count; ++i) lowest = std::min(lowest, key(i)), highest = std::max(highest, key(i));
  uint32_t left = count;   // elements with a key in [lowest, highest]; `before`: the weight of those below
  if (count <= kFew || lowest == highest) target = target_of(sum_of(count, weight));
  bool is_first = true;
  for (bool by_bits = false; left > kFew && lowest < highest; by_bits = !by_bits, is_first = false) {
    Bin bins[kBins];
    const Binning binning(lowest, highest, by_bits);
    if (is_first) {
      put_all(bins, binning, count, key, weight);
      target = target_of(sum_of(kBins, [&bins](uint32_t b) { return bins[b].weight; }));
    } else {
      for (uint32_t i = 0; i < count; ++i)
        if (const double k = key(i); k >= lowest && k <= highest) put(bins[binning.bin(k)], k, weight(i));
    }
    uint32_t chosen = 0;
    double sum = before;
    for (uint32_t b = 0; b < kBins; ++b) {
      if (bins[b].count == 0) continue;
      chosen = b, before = sum;   // the last occupied bin, if none passes
      sum += bins[b].weight;
      if (passes(sum, target, how)) break;
    }
    left = bins[chosen].count, lowest = bins[chosen].lowest, highest = bins[chosen].highest;
  }
  return lowest == highest ? cross_equal(count, target, how, key, weight, lowest, before)
                           : cross_few(count, target, how, key, weight, lowest, highest, before);
}

template <class Key, class Weight>
Crossing find_crossing(uint32_t count, double target, Passes how, Key key, Weight weight) {
  return find_crossing_of(count, [target](double) { return target; }, how, key, weight);
}

}   // namespace mote
