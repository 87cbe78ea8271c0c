// Byte-level BPE: the bytes of one word become pieces, the earliest merge first, the leftmost among equals.
// Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), on bytes as GPT-2 has it.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "core/tokenizer/merges.h"
#include "core/tokenizer/working_memory.h"

namespace mote {

class BytePairs {
 public:
  // Bytes of scratch that a word of this many bytes wants; shorter words than kStackWord want none.
  static constexpr uint64_t scratch_bytes(uint64_t word_bytes) { return 24 * word_bytes + 3 * Scratch::kAlignment; }
  static constexpr uint64_t kStackWord = 160;

  Status open(const gguf::File& file, const Vocabulary& vocabulary, bool whole_words, Arena& arena);

  // Appends the pieces of a word. False: `scratch` is too small and says what it needed. Steps are symbols and heap
  // entries looked at.
  bool encode(std::string_view word, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
              uint64_t* steps) const;

 private:
  static constexpr uint32_t kShortWord = 24;   // below, looking at all pairs for each merge beats a heap

  int32_t find_whole(std::string_view word, const Vocabulary& vocabulary) const;
  void merge_short(std::string_view word, TokenSink& sink, uint64_t* steps) const;
  bool merge_long(std::string_view word, Scratch& scratch, TokenSink& sink, uint64_t* steps) const;
  uint32_t write_symbols(std::string_view word, uint32_t* ids) const;

  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};   // -1: the vocabulary has no piece for this byte
  bool whole_words_ = false;
};

}   // namespace mote
