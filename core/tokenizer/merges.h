// The merges of byte-level BPE (tokenizer.ggml.merges): which two pieces become which, and how early.
// Memory, per merge: 12 bytes and 8 to 16 of hash slots.
#pragma once
#include <cstdint>
#include <span>

#include "core/base/slice.h"
#include "core/tokenizer/vocabulary.h"

namespace mote {

class MergeTable {
 public:
  struct Merge {
    uint32_t left, right, result;   // ids
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  // Each merge must name pieces of the vocabulary, and so must what it makes. While the arena measures, only sizes
  // come out.
  Status open(const gguf::File& file, const Vocabulary& vocabulary, Arena& arena);

  // The number of the merge of these two, the earliest being 0; kNone: they do not merge.
  uint32_t rank(uint32_t left, uint32_t right) const {
    return static_cast<uint32_t>(index_.find(
        hash(left, right), [&](uint32_t i) { return merges_[i].left == left && merges_[i].right == right; }));
  }
  const Merge& operator[](uint32_t rank) const { return merges_[rank]; }

 private:
  // Lines of the file on their way into the table.
  struct Line {
    std::string_view text;
    size_t blank;   // where the right piece is parted from the left
    uint64_t left_hash, right_hash;
    std::string_view left() const { return slice(text, 0, blank); }
    std::string_view right() const { return slice(text, blank + 1); }
  };
  Status read_line(std::string_view text, uint32_t rank, const Vocabulary& vocabulary, Line* line) const;
  Status resolve(const Line& line, uint32_t rank, const Vocabulary& vocabulary, uint32_t* expected);
  Status insert(uint32_t rank, const Vocabulary& vocabulary);

  static uint64_t hash(uint32_t left, uint32_t right) {
    uint64_t x = (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 29;
  }

  std::span<Merge> merges_;
  SlotTable index_;
};

}   // namespace mote
