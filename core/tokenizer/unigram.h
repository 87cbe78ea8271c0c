// SentencePiece unigram: of all ways to part a text into pieces, the one whose scores have the largest sum (Viterbi).
// The text is normalised first: characters by the file's map, white space at its ends and in rows left out, U+2581 for
// blanks. User-defined pieces are taken as they stand.
// Kudo, "Subword Regularization" (2018); https://github.com/google/sentencepiece/blob/master/src/unigram_model.cc and
// normalizer.cc (what they compute, and in which precision)
#pragma once
#include <cstdint>
#include <string_view>

#include "core/tokenizer/char_map.h"
#include "core/tokenizer/piece_scores.h"
#include "core/tokenizer/vocabulary.h"
#include "core/tokenizer/working_memory.h"

namespace mote {

class Unigram {
 public:
  // Reads scores, byte pieces, the character map and what is done to white space.
  Status open(const gguf::File& file, const Vocabulary& vocabulary, int32_t unknown_id, bool adds_space_prefix,
              bool measuring);

  // Appends the pieces of `text`, valid UTF-8. False: `scratch` is too small. Steps are bytes and pieces looked at.
  bool encode(std::string_view text, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
              uint64_t* steps) const;

  // Scratch that is enough for this text, cut into parts in whatever way, and for any text of that many bytes.
  uint64_t scratch_bytes(std::string_view text) const;
  uint64_t scratch_bytes(uint64_t text_bytes) const;

 private:
  // The best way to part the text up to a byte: its score, and the piece that ends there.
  struct Best {
    float score;
    uint32_t piece;   // id << 8 | bytes - 1
  };
  struct Lattice;
  struct Normalizer;
  static constexpr uint32_t kUnknown = 0xFFFFFF;   // as an id; no vocabulary has so many
  static constexpr uint32_t kNothing = 0xFFFFFFFF;
  static constexpr uint64_t kStackBytes = 400;   // of normalised text that needs no scratch

  uint64_t most_normalized_bytes(std::string_view text, uint64_t* steps) const;
  void consider(Lattice& lattice, uint32_t start, uint32_t bytes, uint32_t id, double sum) const;
  void extend(Lattice& lattice, uint32_t start) const;
  bool part(std::string_view text, uint64_t room, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
            uint64_t* steps) const;
  void write(Lattice& lattice, TokenSink& sink) const;

  PieceScores scores_;
  CharMap map_;
  bool adds_space_prefix_ = true, squeezes_spaces_ = true;
  float unknown_score_ = 0, best_score_ = 0;
};

}   // namespace mote
