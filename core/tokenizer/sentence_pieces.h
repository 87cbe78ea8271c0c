// SentencePiece BPE with byte fallback: characters become pieces, the pair that makes the piece with the best score
// first, the leftmost among equals. User-defined pieces are taken whole and never merge; characters without a piece
// become byte pieces, or the unknown piece where there are none.
// https://github.com/google/sentencepiece/blob/master/src/bpe_model.cc (what it computes; unused pieces take no part)
#pragma once
#include <cstdint>
#include <string_view>

#include "core/tokenizer/piece_scores.h"
#include "core/tokenizer/vocabulary.h"
#include "core/tokenizer/working_memory.h"

namespace mote {

class SentencePieces {
 public:
  static constexpr uint64_t scratch_bytes(uint64_t text_bytes) { return 28 * text_bytes + 3 * Scratch::kAlignment; }
  static constexpr uint64_t kStackText = 140;

  Status open(const gguf::File& file, const Vocabulary& vocabulary, int32_t unknown_id, bool measuring) {
    return scores_.open(file, vocabulary, unknown_id, measuring);
  }

  // Appends the pieces of `text`, valid UTF-8 in which spaces are spaces. False: `scratch` is too small.
  bool encode(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
              uint64_t* steps) const;

 private:
  struct Joint {
    uint32_t order;   // falls as the score rises
    uint32_t left;    // byte where the left symbol begins
    uint32_t span;    // bytes of both symbols
  };
  struct Merging;

  int32_t find(std::string_view text, const Vocabulary& vocabulary, uint64_t* steps) const;
  void split(Merging& merging) const;
  void consider(Merging& merging, uint32_t left, uint32_t right) const;
  void write(const Merging& merging, TokenSink& sink) const;
  bool merge(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
             uint64_t* steps) const;

  PieceScores scores_;
};

}   // namespace mote
