#include "core/tokenizer/word_pieces.h"

#include <cstring>

#include "core/base/slice.h"
#include "core/base/utf8.h"
#include "core/tokenizer/decomposition.h"

namespace mote {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";

// Characters that the reference takes out of a text before anything else. Those of the first three that are white space
// elsewhere count as control characters here.
struct WantedCharacters {
  static bool skips(uint32_t c) { return c == 0x0B || c == 0x0C || c == 0x85 || c == 0xFFFD || is_control(c); }
};

bool is_space(uint32_t c) { return character_class(c) == CharacterClass::space; }

// The blocks of ideographs that stand alone, each a word.
bool is_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_symbol_of_ascii(uint32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}

}   // namespace

// A word as it comes, U+2581 first, and where its pieces go.
struct WordPieces::Word {
  const Vocabulary& vocabulary;
  TokenSink& sink;
  uint64_t* steps;
  char bytes[kWordMark.size() + 4 * kMaxCharacters];
  uint32_t n_bytes = 0, n_characters = 0;   // those beyond kMaxCharacters are only counted
  uint32_t n_pieces = 0;
  int32_t pieces[kMaxCharacters];

  void clear() {
    std::memcpy(bytes, kWordMark.data(), kWordMark.size());
    n_bytes = uint32_t{kWordMark.size()};
    n_characters = n_pieces = 0;
  }
  void add(uint32_t code_point) {
    if (++n_characters <= kMaxCharacters) n_bytes += encode_utf8(code_point, bytes + n_bytes);
  }
  std::string_view text() const { return {bytes, n_bytes}; }
};

Status WordPieces::open(const gguf::File& file, int32_t unknown_id, bool measuring) {
  MOTE_ASSIGN_OR_RETURN(lowers_, file.get_bool("tokenizer.ggml.normalizer.lowercase", true));
  unknown_id_ = unknown_id;
  if (!measuring && unknown_id < 0)
    return Status::error(Code::bad_model, "tokenizer.ggml.tokens has no unknown piece, so not every text has tokens");
  return {};
}

void WordPieces::encode(std::string_view text, const Vocabulary& vocabulary, TokenSink& sink, uint64_t* steps) const {
  Word word{vocabulary, sink, steps, {}, 0, 0, 0, {}};
  word.clear();
  Decomposition<WantedCharacters> walk(text);
  for (auto at = walk.begin(); !walk.done(at);) {
    const auto c = walk.peek(at);
    if (!lowers_) {   // as it stands: the character, not its parts
      if (at.part == 0) take(word, c.original, is_ideograph(c.original));
      at = c.next;
    } else if (c.combining != 0) {
      at = walk.each_mark(at, [&](uint32_t mark, uint32_t) {
        if (!is_nonspacing_mark(mark)) take(word, mark, false);
      });
    } else {
      if (!is_nonspacing_mark(c.code_point)) take(word, lower_case(c.code_point), is_ideograph(c.original));
      at = c.next;
    }
  }
  finish(word);
  *steps += walk.steps();
}

void WordPieces::take(Word& word, uint32_t code_point, bool apart) const {
  if (is_space(code_point)) return finish(word);
  apart |= is_symbol_of_ascii(code_point) || is_punctuation(code_point);
  if (apart) finish(word);
  word.add(code_point);
  if (apart) finish(word);
}

void WordPieces::finish(Word& word) const {
  if (word.n_characters == 0) return;
  if (word.n_characters <= kMaxCharacters && find_pieces(word)) {
    for (uint32_t i = 0; i < word.n_pieces; ++i) word.sink.put(word.pieces[i]);
  } else {
    word.sink.put(unknown_id_);
  }
  word.clear();
}

bool WordPieces::find_pieces(Word& word) const {
  const std::string_view text = word.text();
  for (size_t start = 0; start < text.size();) {
    PieceHash hash;
    size_t end = start, longest = 0;
    if (start == 0) {
      for (const char c : kWordMark) hash.add(static_cast<uint8_t>(c));
      end = kWordMark.size();
    } else if (slice(text, start, kWordMark.size()) == kWordMark) {
      return false;   // the user's own U+2581 would find the beginning of a word
    }
    int32_t piece = -1;
    while (end < text.size()) {
      const uint32_t bytes = decode_utf8(text.data() + end, text.size() - end).bytes;
      for (uint32_t i = 0; i < bytes; ++i) hash.add(static_cast<uint8_t>(text[end++]));
      ++*word.steps;
      if (!word.vocabulary.may_begin_piece(hash.value())) break;
      const int32_t id = word.vocabulary.find(slice(text, start, end - start), hash.value());
      if (id < 0 || !is_text_piece(word.vocabulary.type(static_cast<uint32_t>(id)))) continue;
      *word.steps += end - start;
      piece = id, longest = end;
    }
    if (piece < 0) return false;
    word.pieces[word.n_pieces++] = piece;
    start = longest;
  }
  return true;
}

}   // namespace mote
