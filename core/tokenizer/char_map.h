// SentencePiece's precompiled character map (tokenizer.ggml.precompiled_charsmap): which characters, alone or in a row,
// are written as which others; NFKC and more for most models. A double-array trie over the texts to be replaced, then
// the replacements, each with a zero behind it. It comes from a file: every step in it is checked against its size.
// https://github.com/google/sentencepiece/blob/master/src/normalizer.h; the trie: Aoe, "An Efficient Digital Search
// Algorithm by Using a Double-Array Structure" (1989), in the units of https://github.com/s-yata/darts-clone
#pragma once
#include <cstdint>
#include <string_view>

#include "core/base/result.h"
#include "core/gguf/file.h"

namespace mote {

class CharMap {
 public:
  static constexpr uint32_t kMaxKeyBytes = 64;      // longer texts are never replaced; the longest known one has 12
  static constexpr uint32_t kMaxValueBytes = 255;   // the longest known one has 33

  // One pass over the units. A file without the key has an empty map.
  Status open(const gguf::File& file);

  struct Match {
    uint32_t bytes = 0;       // of the text; 0: nothing at its beginning is replaced
    std::string_view value;   // what stands for them
  };
  // The longest text at the beginning of `text` that is replaced. Steps are the bytes looked at.
  Match longest(std::string_view text, uint64_t* steps) const { return walk(text, steps, false); }
  // Of all texts at its beginning that are replaced: the one whose value is spelled longest.
  Match largest(std::string_view text, uint64_t* steps) const { return walk(text, steps, true); }

  // Bytes that a value takes with U+2581 in place of blanks.
  static uint64_t spelled_bytes(std::string_view value);
  // No byte of a text becomes more bytes than this, so spelled.
  uint64_t growth() const { return growth_; }

 private:
  uint32_t unit(uint64_t at) const;
  std::string_view value_at(uint32_t offset) const;
  Match walk(std::string_view text, uint64_t* steps, bool want_largest) const;

  const uint8_t* units_ = nullptr;   // u32, little-endian, any address
  uint32_t n_units_ = 0;
  std::string_view values_;
  uint64_t growth_ = 3;   // a blank
};

}   // namespace mote
