#include "core/tokenizer/unigram.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/slice.h"
#include "core/base/utf8.h"

namespace mote {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";
constexpr float kMostScore = 1e9f;   // so that no sum of them leaves the range of a float
constexpr uint64_t kMostNormalizedBytes = uint64_t{1} << 31;

}   // namespace

Status Unigram::open(const gguf::File& file, const Vocabulary& vocabulary, int32_t unknown_id, bool adds_space_prefix,
                     bool measuring) {
  adds_space_prefix_ = adds_space_prefix;
  MOTE_ASSIGN_OR_RETURN(squeezes_spaces_, file.get_bool("tokenizer.ggml.remove_extra_whitespaces", true));
  MOTE_RETURN_IF_ERROR(scores_.open(file, vocabulary, unknown_id, measuring));
  if (measuring) return {};
  MOTE_RETURN_IF_ERROR(map_.open(file));
  // As the reference has it: the least positive float where every score is negative.
  float worst = kMostScore;
  best_score_ = std::numeric_limits<float>::min();
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) != PieceType::normal) continue;
    const float score = scores_[id];
    if (score > kMostScore || score < -kMostScore)
      return Status::error(Code::bad_model, "tokenizer.ggml.scores: the score of piece {} is not within {} of 0", id,
                           uint32_t{1000000000});
    worst = std::min(worst, score);
    best_score_ = std::max(best_score_, score);
  }
  unknown_score_ = worst - 10.0f;
  return {};
}

// Writes the text as pieces spell it.
struct Unigram::Normalizer {
  const Unigram& unigram;
  const Vocabulary& vocabulary;
  std::string_view rest;
  char* to;
  uint64_t room;
  uint64_t* steps;
  uint64_t written = 0;

  // What the beginning of the rest becomes; takes it off.
  std::string_view next() {
    if (vocabulary.may_start_special(rest[0])) {
      const Vocabulary::Match match = vocabulary.match_special(rest, 0, true, steps);
      const std::string_view piece = slice(rest, 0, match.bytes);
      if (match.id >= 0 && piece.find(' ') == std::string_view::npos) return take(match.bytes), piece;
    }
    const CharMap::Match match = unigram.map_.longest(rest, steps);
    if (match.bytes != 0) return take(match.bytes), match.value;
    const std::string_view character = slice(rest, 0, decode_utf8(rest.data(), rest.size()).bytes);
    ++*steps;
    return take(character.size()), character;
  }
  void take(size_t bytes) { rest = slice(rest, bytes); }

  void put(std::string_view text) {
    if (text.size() > room - written) return;   // the map has changed since its values were measured
    std::memcpy(to + written, text.data(), text.size());
    written += text.size();
  }

  void run() {
    const bool squeezes = unigram.squeezes_spaces_;
    while (squeezes && !rest.empty()) {
      const std::string_view from = rest;
      if (next() == " ") continue;
      rest = from;
      break;
    }
    if (rest.empty()) return;
    if (unigram.adds_space_prefix_) put(kSpace);
    for (bool after_space = squeezes; !rest.empty();) {
      std::string_view piece = next();
      while (after_space && !piece.empty() && piece[0] == ' ') piece.remove_prefix(1);
      for (const char& c : piece) put(c == ' ' ? kSpace : std::string_view(&c, 1));
      if (!piece.empty()) after_space = squeezes && piece.back() == ' ';
    }
    while (squeezes &&
           slice({to, static_cast<size_t>(written)}, static_cast<size_t>(written) - kSpace.size()) == kSpace)
      written -= kSpace.size();
  }
};

struct Unigram::Lattice {
  std::string_view text;
  const Vocabulary& vocabulary;
  Best* best;   // [text.size() + 1], by the byte where a way ends
  uint64_t* steps;
};

// `sum` is compared in double and kept in float, as in the reference: which of two close ways wins depends on it.
void Unigram::consider(Lattice& lattice, uint32_t start, uint32_t bytes, uint32_t id, double sum) const {
  Best& end = lattice.best[start + bytes];
  if (end.piece == kNothing || sum > double{end.score}) end = {static_cast<float>(sum), id << 8 | (bytes - 1)};
}

// All pieces that begin at `start`, which a way leads to.
void Unigram::extend(Lattice& lattice, uint32_t start) const {
  const Vocabulary& vocabulary = lattice.vocabulary;
  const std::string_view text = lattice.text;
  const uint32_t first = decode_utf8(text.data() + start, text.size() - start).bytes;
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(text.size() - start, Vocabulary::kMaxScoredBytes));
  const float so_far = lattice.best[start].score;
  bool has_single = false;
  PieceHash hash;
  for (uint32_t bytes = 0; bytes < most;) {
    const uint32_t character = decode_utf8(text.data() + start + bytes, most - bytes).bytes;
    for (uint32_t i = 0; i < character; ++i) hash.add(static_cast<uint8_t>(text[start + bytes++]));
    ++*lattice.steps;
    if (!vocabulary.may_begin_piece(hash.value())) break;
    const int32_t found = vocabulary.find(slice(text, start, bytes), hash.value());
    if (found < 0) continue;
    const auto id = static_cast<uint32_t>(found);
    *lattice.steps += bytes;
    const PieceType type = vocabulary.type(id);
    if (!is_text_piece(type)) continue;
    // With scores that are logarithms of small probabilities, no way through its inside beats a user-defined piece.
    const double bonus = double{static_cast<float>(bytes) * best_score_} - 0.1;
    const double score = type == PieceType::user_defined ? bonus : double{scores_[id]};
    consider(lattice, start, bytes, id, score + double{so_far});
    has_single |= bytes == first;
  }
  if (!has_single) consider(lattice, start, first, kUnknown, double{unknown_score_ + so_far});
}

bool Unigram::encode(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
                     uint64_t* steps) const {
  if (text.empty()) return true;
  const uint64_t room = most_normalized_bytes(text, steps);
  if (room > kStackBytes) return part(text, room, vocabulary, scratch, sink, steps);
  alignas(Scratch::kAlignment) std::byte stack[9 * kStackBytes + 16];
  static_assert(sizeof stack <= 4096);
  Scratch small(stack);
  return part(text, room, vocabulary, small, sink, steps);
}

bool Unigram::part(std::string_view text, uint64_t room, const Vocabulary& vocabulary, Scratch& scratch,
                   TokenSink& sink, uint64_t* steps) const {
  const uint64_t mark = scratch.mark();
  // One piece of memory, so that a refusal names the whole need.
  const uint64_t count = room + 1 + (room + 7) / 8;
  auto* best = room <= kMostNormalizedBytes ? scratch.take<Best>(count) : scratch.refuse<Best>(count);
  if (best == nullptr) return false;
  Normalizer normalizer{*this, vocabulary, text, reinterpret_cast<char*>(best + room + 1), room, steps};
  normalizer.run();
  Lattice lattice{{normalizer.to, static_cast<size_t>(normalizer.written)}, vocabulary, best, steps};
  const auto size = static_cast<uint32_t>(lattice.text.size());
  std::fill(best, best + size + 1, Best{0, kNothing});
  for (uint32_t start = 0; start < size;) {
    extend(lattice, start);
    start += decode_utf8(lattice.text.data() + start, size - start).bytes;
  }
  write(lattice, sink);
  scratch.release(mark);
  return true;
}

void Unigram::write(Lattice& lattice, TokenSink& sink) const {
  // Backwards along the best way, turning it round: each piece is noted where it begins.
  Best* best = lattice.best;
  const auto size = static_cast<uint32_t>(lattice.text.size());
  uint32_t at = size;
  for (Best piece = best[at]; at > 0;) {
    const uint32_t start = at - ((piece.piece & 0xFF) + 1);
    std::swap(piece, best[start]);
    at = start;
  }
  bool after_unknown = false;
  while (at < size) {
    const uint32_t id = best[at].piece >> 8, bytes = (best[at].piece & 0xFF) + 1;
    if (id == kUnknown)
      scores_.put_unknown(slice(lattice.text, at, bytes), after_unknown, sink);
    else
      sink.put(static_cast<int32_t>(id));
    after_unknown = id == kUnknown;
    at += bytes;
  }
}

// The sum of the most that can come of each character; enough for any part of the text too.
uint64_t Unigram::most_normalized_bytes(std::string_view text, uint64_t* steps) const {
  uint64_t most = kSpace.size();
  while (!text.empty()) {
    const uint32_t bytes = decode_utf8(text.data(), text.size()).bytes;
    const uint64_t value = CharMap::spelled_bytes(map_.largest(text, steps).value);
    most += std::max<uint64_t>(value, text[0] == ' ' ? kSpace.size() : bytes);
    text = slice(text, bytes);
  }
  return most;
}

uint64_t Unigram::scratch_bytes(std::string_view text) const {
  uint64_t steps = 0;
  return 9 * most_normalized_bytes(text, &steps) + 4 * Scratch::kAlignment;
}

uint64_t Unigram::scratch_bytes(uint64_t text_bytes) const {
  return 9 * (map_.growth() * text_bytes + kSpace.size()) + 4 * Scratch::kAlignment;
}

}   // namespace mote
