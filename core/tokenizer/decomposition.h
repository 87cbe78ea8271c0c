// The full canonical decomposition of valid UTF-8 (UAX #15), walked without recursion or buffers: a place is a byte of
// the text and a part of what the character there decomposes to. A run of combining marks is walked once per combining
// class in it, so a million marks cost a bounded number of passes, not a sort.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/utf8.h"
#include "core/tokenizer/unicode/unicode.h"

namespace mote {

// Leaves no character out.
struct EveryCharacter {
  static bool skips(uint32_t) { return false; }
};

// Filter::skips(code_point): characters that count as not being there.
template <class Filter = EveryCharacter>
class Decomposition {
 public:
  struct Place {
    size_t byte = 0;
    uint32_t part = 0;
  };
  struct Code {
    uint32_t code_point;
    uint32_t combining;   // canonical combining class
    uint32_t original;    // the character that it is a part of
    Place next;
  };

  explicit Decomposition(std::string_view text) : text_(text) {}
  Place begin() { return {skip(0), 0}; }
  bool done(Place at) const { return at.byte >= text_.size(); }
  uint64_t steps() const { return steps_; }   // code points looked at
  void count_step() { ++steps_; }

  // `at` is not the end.
  Code peek(Place at) {
    ++steps_;
    const Utf8Character c = decode_utf8(text_.data() + at.byte, text_.size() - at.byte);
    // Only the first part decomposes further, so the rest collects from the back.
    uint32_t parts[4], step[2], count = 0, first = c.code_point;
    for (uint32_t n; (n = decompose(first, step)) != 0 && count < 3;) {
      if (n == 2) parts[count++] = step[1];
      first = step[0];
    }
    parts[count++] = first;
    const uint32_t code_point = parts[count - 1 - at.part];
    const bool last = at.part + 1 == count;
    return {code_point, combining_class(code_point), c.code_point,
            last ? Place{skip(at.byte + c.bytes), 0} : Place{at.byte, at.part + 1}};
  }

  // each(mark, combining class) for the marks from `start` up to the next starter, in canonical order. Returns where
  // the run ends.
  template <class Each>
  Place each_mark(Place start, Each each) {
    uint32_t finished = 0;   // classes up to here were walked
    Place end = start;
    for (;;) {
      uint32_t next_class = 256;
      for (Place at = start; !done(at);) {
        const Code c = peek(at);
        if (c.combining == 0) break;
        at = end = c.next;
        if (c.combining > finished && c.combining < next_class) next_class = c.combining;
      }
      if (next_class == 256) return end;
      for (Place at = start; !done(at);) {
        const Code c = peek(at);
        if (c.combining == 0) break;
        at = c.next;
        if (c.combining == next_class) each(c.code_point, c.combining);
      }
      finished = next_class;
    }
  }

 private:
  size_t skip(size_t byte) {
    while (byte < text_.size()) {
      const Utf8Character c = decode_utf8(text_.data() + byte, text_.size() - byte);
      if (!Filter::skips(c.code_point)) break;
      ++steps_;
      byte += c.bytes;
    }
    return byte;
  }

  std::string_view text_;
  uint64_t steps_ = 0;
};

// Nothing is left out, so nothing is looked at.
template <>
inline size_t Decomposition<EveryCharacter>::skip(size_t byte) {
  return byte;
}

}   // namespace mote
