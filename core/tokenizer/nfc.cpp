#include "core/tokenizer/nfc.h"

#include "core/base/utf8.h"
#include "core/tokenizer/decomposition.h"

namespace mote {
namespace {

constexpr uint32_t kNoStarter = 0xFFFFFFFF;   // composes with nothing

class Normalizer {
 public:
  Normalizer(std::string_view text, char* to) : text_(text), to_(to), decomposed_(text) {}

  size_t run() {
    Place at = decomposed_.begin();
    while (!decomposed_.done(at)) {
      if (copy_ascii(&at)) continue;
      // The first starter; marks before any starter are only put in order.
      at = decomposed_.peek(at).combining != 0 ? emit_run(kNoStarter, at) : compose_from(at);
    }
    return written_;
  }
  uint64_t steps() const { return decomposed_.steps(); }

 private:
  using Place = Decomposition<>::Place;
  using Code = Decomposition<>::Code;

  // Two ASCII characters in a row: the first can neither change nor take up the second.
  bool copy_ascii(Place* at) {
    const auto ascii = [this](size_t i) { return (static_cast<unsigned char>(text_[i]) & 0x80) == 0; };
    const size_t i = at->byte;
    if (at->part != 0 || !ascii(i) || (i + 1 < text_.size() && !ascii(i + 1))) return false;
    to_[written_++] = text_[i];
    at->byte = i + 1;
    decomposed_.count_step();
    return true;
  }

  void emit(uint32_t code_point) { written_ += encode_utf8(code_point, to_ + written_); }

  // Walks the marks from `start` up to the next starter in canonical order. With a starter, marks that compose with it
  // are taken up by it; the rest is passed to `unused`. Returns where the run ends.
  template <class Unused>
  Place walk_run(uint32_t* starter, Place start, Unused unused) {
    uint32_t last_unused = 0;
    return decomposed_.each_mark(start, [&](uint32_t mark, uint32_t combining) {
      // A mark is blocked when one of the same class stands between it and the starter.
      const uint32_t composite = last_unused < combining ? compose(*starter, mark) : 0;
      if (composite != 0) {
        *starter = composite;
      } else {
        last_unused = combining;
        unused(mark);
      }
    });
  }

  // Writes the starter as its marks make it, then the marks that are left over.
  Place emit_run(uint32_t starter, Place marks) {
    uint32_t composed = starter;
    walk_run(&composed, marks, [](uint32_t) {});
    if (composed != kNoStarter) emit(composed);
    return walk_run(&starter, marks, [this](uint32_t mark) { emit(mark); });
  }

  Place compose_from(Place at) {
    Code first = decomposed_.peek(at);
    uint32_t starter = first.code_point;
    for (;;) {
      bool all_taken = true;
      uint32_t composed = starter;
      const Place end = walk_run(&composed, first.next, [&](uint32_t) { all_taken = false; });
      if (!all_taken || decomposed_.done(end)) return emit_run(starter, first.next);
      const Code next = decomposed_.peek(end);
      const uint32_t composite = compose(composed, next.code_point);
      if (composite == 0) {
        emit(composed);
        return end;
      }
      starter = composite;
      first = next;
    }
  }

  std::string_view text_;
  char* to_;
  size_t written_ = 0;
  Decomposition<> decomposed_;
};

}   // namespace

bool is_surely_nfc(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if ((static_cast<unsigned char>(text[i]) & 0x80) == 0) {
      ++i;
      continue;
    }
    const Utf8Character c = decode_utf8(text.data() + i, text.size() - i);
    if (may_change_under_nfc(c.code_point)) return false;
    i += c.bytes;
  }
  return true;
}

size_t normalize_nfc(std::string_view text, char* to, uint64_t* steps) {
  Normalizer normalizer(text, to);
  const size_t written = normalizer.run();
  *steps += normalizer.steps();
  return written;
}

}   // namespace mote
