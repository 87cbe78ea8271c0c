// WordPiece as BERT has it: a text becomes words, and each word the longest piece from its left, then the longest
// continuation, and so on; a word for which that fails, or of over 100 characters, is the unknown piece.
// The pieces are spelled as in GGUF files: U+2581 before those that begin a word, nothing before continuations.
// Devlin et al., "BERT" (2018); https://github.com/google-research/bert/blob/master/tokenization.py
#pragma once
#include <cstdint>
#include <string_view>

#include "core/tokenizer/vocabulary.h"
#include "core/tokenizer/working_memory.h"

namespace mote {

class WordPieces {
 public:
  static constexpr uint32_t kMaxCharacters = 100;   // of a word

  // tokenizer.ggml.normalizer.lowercase: NFD, without nonspacing marks, in lower case. bad_model without an unknown
  // piece.
  Status open(const gguf::File& file, int32_t unknown_id, bool measuring);

  // Appends the pieces of `text`, valid UTF-8. Wants no memory but a few hundred bytes of stack. Steps are characters
  // looked at and bytes of pieces compared.
  void encode(std::string_view text, const Vocabulary& vocabulary, TokenSink& sink, uint64_t* steps) const;

 private:
  struct Word;
  void take(Word& word, uint32_t code_point, bool apart) const;
  void finish(Word& word) const;
  bool find_pieces(Word& word) const;

  int32_t unknown_id_ = -1;
  bool lowers_ = true;
};

}   // namespace mote
