// What SentencePiece vocabularies of both kinds say of their pieces beyond the texts: scores, and which pieces stand
// for single bytes or for what is unknown.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/bytes.h"
#include "core/tokenizer/vocabulary.h"
#include "core/tokenizer/working_memory.h"

namespace mote {

class PieceScores {
 public:
  // Reads tokenizer.ggml.scores and the byte pieces. bad_model also when some text would have no piece at all.
  Status open(const gguf::File& file, const Vocabulary& vocabulary, int32_t unknown_id, bool measuring);

  float operator[](uint32_t id) const { return load_le<float>(scores_ + 4 * uint64_t{id}); }

  // A symbol without a piece: its bytes, or the unknown piece, once for a run of such symbols.
  void put_unknown(std::string_view symbol, bool after_unknown, TokenSink& sink) const;

 private:
  const uint8_t* scores_ = nullptr;       // f32 in the file, any address
  std::array<int32_t, 256> byte_ids_{};   // all there, or all -1
  int32_t unknown_id_ = -1;
};

}   // namespace mote
