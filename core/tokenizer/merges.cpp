#include "core/tokenizer/merges.h"

#include "core/base/slice.h"

namespace mote {
namespace {

constexpr std::string_view kKey = "tokenizer.ggml.merges";

// "left right" is spelled like `piece` but for the blank.
bool joins_to(std::string_view line, size_t blank, std::string_view piece) {
  return piece.size() + 1 == line.size() && slice(piece, 0, blank) == slice(line, 0, blank) &&
         slice(piece, blank) == slice(line, blank + 1);
}

}  // namespace

Status MergeTable::open(const gguf::File& file, const Vocabulary& vocabulary, Arena& arena) {
  MOTE_ASSIGN_OR_RETURN(const gguf::Entry lines, file.get_array(kKey, gguf::Type::string));
  if (lines.count > SlotTable::kMaxCount)
    return Status::error(Code::bad_model, "{} has {} elements, at most {} are allowed", kKey, lines.count, SlotTable::kMaxCount);
  merges_ = arena.take<Merge>(lines.count);
  index_.layout(lines.count, arena);
  if (arena.measuring()) return {};
  MOTE_RETURN_IF_ERROR(arena.status("the tokenizer"));

  gguf::StringCursor cursor(lines);
  std::string_view line;
  uint32_t expected = 0;   // most vocabularies list the results of the merges in their order
  for (uint32_t rank = 0; cursor.next(&line); ++rank) {
    // The first character of the left piece may be a blank itself.
    const size_t blank = line.find(' ', 1);
    if (blank == std::string_view::npos || blank + 1 == line.size())
      return Status::error(Code::bad_model, "{}: merge {} is {}, expected two pieces with a blank between", kKey, rank, line);
    const int32_t left = vocabulary.find(slice(line, 0, blank)), right = vocabulary.find(slice(line, blank + 1));
    if (left < 0 || right < 0)
      return Status::error(Code::bad_model, "{}: merge {} names {}, which is not a piece of the vocabulary", kKey, rank,
                           left < 0 ? slice(line, 0, blank) : slice(line, blank + 1));
    int32_t result = static_cast<int32_t>(expected);
    if (expected >= vocabulary.size() || !joins_to(line, blank, vocabulary.spelling(expected))) {
      PieceHash hash;
      for (size_t i = 0; i < line.size(); ++i)
        if (i != blank) hash.add(static_cast<uint8_t>(line[i]));
      result = vocabulary.find(hash.value(), [&](std::string_view piece) { return joins_to(line, blank, piece); });
    }
    if (result < 0)
      return Status::error(Code::bad_model, "{}: merge {} is {}, and what it makes is not a piece of the vocabulary", kKey, rank, line);
    expected = static_cast<uint32_t>(result) + 1;
    merges_[rank] = {static_cast<uint32_t>(left), static_cast<uint32_t>(right), static_cast<uint32_t>(result)};
    // Text never becomes a control token by merging. A repeated merge counts where it first stands.
    if (vocabulary.type(merges_[rank].result) == PieceType::control) continue;
    const int64_t there = index_.insert(hash(merges_[rank].left, merges_[rank].right), rank, [&](uint32_t i) {
      return merges_[i].left == merges_[rank].left && merges_[i].right == merges_[rank].right;
    });
    if (there == -2) return Status::error(Code::bad_model, "{}: merge {} collides with over {} others", kKey, rank, SlotTable::kMaxProbes);
  }
  return {};
}

}  // namespace mote
