// Finds the few logits of a row that a chain can still choose, in one pass over the row: the largest of every 64 are
// noted, a threshold is taken from those alone, and only strips in which some logit reaches it are looked at again.
// What is found has all of the k largest and their equals, and little more; nothing is sorted.
//
// Tokens whose score is not just their logit (penalties, biases, bans) are marked before: they do not count for the
// threshold, and they are always found. A mark too many does no harm.
#pragma once
#include <cstdint>
#include <span>

#include "core/base/arena.h"

namespace mote {

class RowScan {
 public:
  // Takes (or counts) 3 bytes per 16 tokens. No token is marked afterwards.
  void layout(Arena& arena, uint32_t n_vocab);

  void mark(uint32_t token) {
    marks_[token / 64] |= uint64_t{1} << (token % 64);
    has_marks_ = true;
  }

  // The pass, over n_vocab logits. False: a NaN or +infinity is among them.
  bool run(std::span<const float> logits);

  // Of the run: the largest unmarked logit, -infinity if there is none.
  float largest() const { return range().highest; }
  // A number that at least k unmarked logits reach, and not many more where they are well mixed; kAll if there may be
  // fewer than k. k >= 1.
  float reached_by(uint32_t k) const;
  // All that are not -infinity.
  static constexpr float kAll = -3.402823466e+38f;

  // The logits of the run that are marked or at least `least` (never -infinity), by rising token, to the front of
  // score [n_vocab] and token [n_vocab]. Returns how many there are. No token is marked afterwards.
  uint32_t gather(std::span<const float> logits, float least, std::span<double> score, std::span<int32_t> token);

 private:
  // 4 lanes of a strip have their maximum each: lane j that of the logits 4 i + j.
  static constexpr uint32_t kStrip = 256, kLanes = 4, kWords = kStrip / 64;
  struct Range {
    float lowest, highest;
  };
  Range range() const;                    // of the maxima
  uint32_t reaching(float least) const;   // how many maxima do

  std::span<float> maxima_;     // [strips, kLanes]
  std::span<uint64_t> marks_;   // [strips, kWords], a bit for each token
  bool has_marks_ = false;
};

}   // namespace mote
