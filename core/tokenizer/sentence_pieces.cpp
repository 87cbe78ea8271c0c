#include "core/tokenizer/sentence_pieces.h"

#include <algorithm>
#include <bit>

#include "core/base/bytes.h"
#include "core/base/slice.h"
#include "core/base/utf8.h"

namespace mote {
namespace {

constexpr std::string_view kScoresKey = "tokenizer.ggml.scores", kTokensKey = "tokenizer.ggml.tokens";
// Marks in a span, which is a length below 2^30.
constexpr uint32_t kFrozen = 0x80000000u;   // a user-defined piece
constexpr uint32_t kFirst = 0x40000000u;    // a symbol begins at this byte

bool is_text(PieceType type) {
  return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::undefined;
}

int32_t hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte that <0xHH> stands for, or -1.
int32_t byte_of(std::string_view piece) {
  if (piece.size() != 6 || slice(piece, 0, 3) != "<0x" || piece[5] != '>') return -1;
  const int32_t high = hex_digit(piece[3]), low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

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

Status SentencePieces::open(const gguf::File& file, const Vocabulary& vocabulary, int32_t unknown_id, bool measuring) {
  MOTE_ASSIGN_OR_RETURN(const gguf::Entry scores, file.get_array(kScoresKey, gguf::Type::float32));
  if (scores.count != vocabulary.size())
    return Status::error(Code::bad_model, "{} has {} elements, {} has {}", kScoresKey, scores.count, kTokensKey,
                         vocabulary.size());
  scores_ = scores.value;
  unknown_id_ = unknown_id;
  if (measuring) return {};

  byte_ids_.fill(-1);
  uint32_t n_bytes = 0;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (const float value = score(id); value != value)
      return Status::error(Code::bad_model, "{}: the score of piece {} is not a number", kScoresKey, id);
    if (vocabulary.type(id) != PieceType::byte) continue;
    const int32_t byte = byte_of(vocabulary.spelling(id));
    if (byte < 0)
      return Status::error(Code::bad_model, "{}: byte piece {} is {}, expected <0x00> to <0xFF>", kTokensKey, id,
                           vocabulary.spelling(id));
    if (byte_ids_[static_cast<size_t>(byte)] >= 0)
      return Status::error(Code::bad_model, "{}: pieces {} and {} both stand for byte {}", kTokensKey,
                           byte_ids_[static_cast<size_t>(byte)], id, byte);
    byte_ids_[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
    ++n_bytes;
  }
  if (n_bytes != 0 && n_bytes != 256)
    return Status::error(Code::bad_model, "{} has {} byte pieces, allowed are none or all 256", kTokensKey, n_bytes);
  if (n_bytes == 0 && unknown_id < 0)
    return Status::error(Code::bad_model,
                         "{} has neither byte pieces nor an unknown piece, so not every text has tokens", kTokensKey);
  return {};
}

float SentencePieces::score(uint32_t id) const { return load_le<float>(scores_ + 4 * uint64_t{id}); }

int32_t SentencePieces::find(std::string_view text, const Vocabulary& vocabulary, uint64_t* steps) const {
  if (text.size() > vocabulary.longest_bytes()) return -1;
  *steps += text.size();
  PieceHash hash;
  for (SpelledBytes bytes(text, true); !bytes.done();) hash.add(bytes.next());
  const int32_t id = vocabulary.find(hash.value(), [&](std::string_view piece) {
    SpelledBytes a(text, true), b(piece, true);
    while (!a.done() && !b.done())
      if (a.next() != b.next()) return false;
    return a.done() && b.done();
  });
  return id >= 0 && is_text(vocabulary.type(static_cast<uint32_t>(id))) ? id : -1;
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
  m.heap[m.waiting++] = {~rising(score(static_cast<uint32_t>(id))), left, span};
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
    } else if (byte_ids_[0] >= 0) {
      for (SpelledBytes bytes(symbol, true); !bytes.done();) sink.put(byte_ids_[bytes.next()]);
    } else if (!after_unknown) {
      sink.put(unknown_id_);   // a run of unknown characters is one piece
    }
    after_unknown = id < 0;
  }
}

}   // namespace mote
