#include "core/tokenizer/sentence_pieces.h"

#include <algorithm>
#include <bit>

#include "core/base/slice.h"
#include "core/base/utf8.h"

namespace mote {
namespace {

// Marks in a span, which is a length below 2^30.
constexpr uint32_t kFrozen = 0x80000000u;   // a user-defined piece
constexpr uint32_t kFirst = 0x40000000u;    // a symbol begins at this byte

// Rising floats as rising unsigned numbers; the two zeros are one.
uint32_t rising(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// For a heap with the best candidate in front.
struct ComesLater {
  template <class C>
  bool operator()(const C& a, const C& b) const {
    return a.order != b.order ? a.order > b.order : a.left > b.left;
  }
};
constexpr ComesLater kComesLater;

}   // namespace

// The symbols are kept by the byte where they begin: at the first and at the last byte of each stands its length.
struct SentencePieces::Merging {
  std::string_view text;
  const Vocabulary& vocabulary;
  Joint* heap;
  uint32_t* spans;
  uint64_t* steps;
  uint64_t waiting = 0;

  bool frozen(uint32_t at) const { return (spans[at] & kFrozen) != 0; }
  uint32_t span(uint32_t at) const { return spans[at] & ~(kFrozen | kFirst); }
  void set(uint32_t at, uint32_t length, uint32_t mark) {
    spans[at + length - 1] = length | mark;
    spans[at] = length | mark | kFirst;
  }
  void count_heap() {
    for (uint64_t k = waiting; k > 0; k /= 2) ++*steps;
  }
};

int32_t SentencePieces::find(std::string_view text, const Vocabulary& vocabulary, uint64_t* steps) const {
  if (text.size() > vocabulary.longest_bytes() || text.size() > Vocabulary::kMaxScoredBytes) return -1;
  *steps += text.size();
  PieceHash hash;
  for (SpelledBytes bytes(text, true); !bytes.done();) hash.add(bytes.next());
  const int32_t id = vocabulary.find(hash.value(), [&](std::string_view piece) {
    SpelledBytes a(text, true), b(piece, true);
    while (!a.done() && !b.done())
      if (a.next() != b.next()) return false;
    return a.done() && b.done();
  });
  return id >= 0 && is_text_piece(vocabulary.type(static_cast<uint32_t>(id))) ? id : -1;
}

// One symbol per character, but user-defined pieces whole.
void SentencePieces::split(Merging& m) const {
  const std::string_view text = m.text;
  for (uint32_t at = 0; at < text.size();) {
    ++*m.steps;
    if (m.vocabulary.may_start_special(text[at])) {
      const Vocabulary::Match match = m.vocabulary.match_special(slice(text, at), 0, true, m.steps);
      if (match.id >= 0) {
        m.set(at, match.bytes, kFrozen);
        at += match.bytes;
        continue;
      }
    }
    const uint32_t bytes = decode_utf8(text.data() + at, text.size() - at).bytes;
    m.set(at, bytes, 0);
    at += bytes;
  }
}

void SentencePieces::consider(Merging& m, uint32_t left, uint32_t right) const {
  if (m.frozen(left) || m.frozen(right)) return;
  const uint32_t span = m.span(left) + m.span(right);
  const int32_t id = find(slice(m.text, left, span), m.vocabulary, m.steps);
  if (id < 0) return;
  m.heap[m.waiting++] = {~rising(scores_[static_cast<uint32_t>(id)]), left, span};
  std::push_heap(m.heap, m.heap + m.waiting, kComesLater);
  m.count_heap();
}

bool SentencePieces::encode(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
                            uint64_t* steps) const {
  if (text.empty()) return true;
  if (text.size() > kStackText) return merge(text, vocabulary, scratch, sink, steps);
  alignas(Scratch::kAlignment) std::byte stack[scratch_bytes(kStackText)];
  static_assert(sizeof stack <= 4096);
  Scratch small(stack);
  return merge(text, vocabulary, small, sink, steps);
}

bool SentencePieces::merge(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
                           uint64_t* steps) const {
  const uint64_t mark = scratch.mark();
  // Each merge takes one candidate out and puts at most two in: 2 n are enough. 7 words a byte in one piece of memory.
  auto* memory = scratch.take<uint32_t>(7 * uint64_t{text.size()});
  if (memory == nullptr) return false;
  Merging m{text, vocabulary, reinterpret_cast<Joint*>(memory), memory + 6 * text.size(), steps};
  const auto size = static_cast<uint32_t>(text.size());
  split(m);
  for (uint32_t left = 0, right = m.span(0); right < size; left = right, right += m.span(right))
    consider(m, left, right);

  while (m.waiting > 0) {
    std::pop_heap(m.heap, m.heap + m.waiting, kComesLater);
    m.count_heap();
    const Joint best = m.heap[--m.waiting];
    // Stale when no symbol begins there any more, or when the lengths of the two no longer add up.
    if ((m.spans[best.left] & kFirst) == 0) continue;
    const uint32_t right = best.left + m.span(best.left);
    if (right >= best.left + best.span || m.span(best.left) + m.span(right) != best.span) continue;
    m.spans[right] &= ~kFirst;
    m.set(best.left, best.span, 0);
    if (best.left > 0) consider(m, best.left - m.span(best.left - 1), best.left);
    if (best.left + best.span < size) consider(m, best.left, best.left + best.span);
  }
  write(m, sink);
  scratch.release(mark);
  return true;
}

void SentencePieces::write(const Merging& m, TokenSink& sink) const {
  bool after_unknown = false;
  for (uint32_t at = 0; at < m.text.size(); at += m.span(at)) {
    const std::string_view symbol = slice(m.text, at, m.span(at));
    const int32_t id = find(symbol, m.vocabulary, m.steps);
    if (id >= 0) {
      sink.put(id);
    } else {
      scores_.put_unknown(symbol, after_unknown, sink);
    }
    after_unknown = id < 0;
  }
}

}   // namespace mote
