// Finds stop strings in the bytes of an answer as they come, whatever the borders between the pieces. Released are
// exactly the bytes that can no longer belong to a stop string: the longest tail that may still become one is held
// back, and let go as soon as it cannot.
//
// What is found is what a search of the whole text would find: the earliest place where any stop string begins
// (among those that begin there, the shortest). So where one stop string is complete but another one, begun
// earlier, may still come, the matcher waits for at most the length of that other one; if it does not come, the
// text ends before the complete one all the same. Time: one step of Knuth, Morris and Pratt's search per byte and
// stop string.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/arena.h"
#include "core/base/status.h"

namespace mote {

struct StopShape {
  uint32_t max_stops = 0;
  uint32_t max_bytes = 0;   // of all stop strings together
};

// What a call lets go, in two pieces that follow each other.
struct Released {
  std::string_view held;    // from the matcher's buffer, valid until its next call
  std::string_view fresh;   // the beginning of the bytes handed over
  bool stopped = false;     // a stop string was found; everything before it has been released
};

class StopMatcher {
 public:
  // Takes (or counts) memory for stop strings up to the shape. Without stop strings everything is released at once.
  void layout(Arena& arena, const StopShape& shape);

  // Copies the stop strings in place of the old ones and starts afresh. invalid_argument for an empty one or for
  // more than the shape allows; the old ones then stay.
  Status set(std::span<const std::string_view> stops);

  // Forgets the text so far: an answer begins. (The prompt is not fed, so it is not searched.)
  void reset();

  // The next bytes of the answer. After `stopped`, nothing more is released until `reset`.
  Released feed(std::string_view bytes);

  // The answer has ended for another reason: lets go what is held, or cuts it at a stop string that was complete.
  Released finish();

  bool stopped() const { return stopped_; }
  uint32_t held_bytes() const { return held_end_ - held_begin_; }   // less than the longest stop string
  std::string_view held() const { return {held_.data() + held_begin_, held_bytes()}; }
  // True when an answer that begins with these bytes (at least one) has all of them held back. What `held` gives is
  // always so, and feeding it to a matcher that was reset brings back all that matters of the text before.
  bool would_hold(std::string_view bytes) const;

 private:
  struct Stop {
    uint32_t begin, length, matched;   // in bytes_; how many of its bytes the text ends with
  };

  void step(unsigned char byte);
  uint64_t earliest_start() const;   // of anything that is or may become a stop string
  Released release_to(uint64_t end, std::string_view bytes);

  std::span<Stop> stops_;         // [max_stops]
  std::span<char> bytes_;         // [max_bytes] stop strings, one after the other
  std::span<uint32_t> failure_;   // [max_bytes] longest border of each prefix
  std::span<char> held_;          // [2 max_bytes] so that what was released stays readable for one call
  uint32_t stop_count_ = 0, held_begin_ = 0, held_end_ = 0;
  uint64_t position_ = 0;         // bytes fed
  uint64_t found_ = UINT64_MAX;   // where the earliest complete stop string begins
  bool stopped_ = false;
};

}   // namespace mote
