#include "core/tokenizer/merges.h"

#include <algorithm>

namespace mote {
namespace {

constexpr std::string_view kKey = "tokenizer.ggml.merges";

// "left right" is spelled like `piece` but for the blank.
bool joins_to(std::string_view line, size_t blank, std::string_view piece) {
  return piece.size() + 1 == line.size() && slice(piece, 0, blank) == slice(line, 0, blank) &&
         slice(piece, blank) == slice(line, blank + 1);
}

}   // namespace

Status MergeTable::open(const gguf::File& file, const Vocabulary& vocabulary, Arena& arena) {
  MOTE_ASSIGN_OR_RETURN(const gguf::Entry lines, file.get_array(kKey, gguf::Type::string));
  if (lines.count > SlotTable::kMaxCount)
    return Status::error(Code::bad_model, "{} has {} elements, at most {} are allowed", kKey, lines.count,
                         SlotTable::kMaxCount);
  merges_ = arena.take<Merge>(lines.count);
  index_.layout(lines.count, arena);
  if (arena.measuring()) return {};
  MOTE_RETURN_IF_ERROR(arena.status("the tokenizer"));

  // In groups, so that the table's places for all of a group are on their way while the first ones are looked at.
  constexpr uint32_t kGroup = 16;
  Line group[kGroup];
  gguf::StringCursor cursor(lines);
  const auto count = static_cast<uint32_t>(lines.count);
  uint32_t expected = 0;   // most vocabularies list what the merges make in their order
  for (uint32_t first = 0; first < count; first += kGroup) {
    const uint32_t n = std::min(kGroup, count - first);
    std::string_view text;
    for (uint32_t i = 0; i < n && cursor.next(&text); ++i)
      MOTE_RETURN_IF_ERROR(read_line(text, first + i, vocabulary, &group[i]));
    for (uint32_t i = 0; i < n; ++i)
      vocabulary.prefetch_piece(group[i].left_hash), vocabulary.prefetch_piece(group[i].right_hash);
    for (uint32_t i = 0; i < n; ++i) MOTE_RETURN_IF_ERROR(resolve(group[i], first + i, vocabulary, &expected));
    for (uint32_t i = 0; i < n; ++i) MOTE_RETURN_IF_ERROR(insert(first + i, vocabulary));
  }
  return {};
}

Status MergeTable::read_line(std::string_view text, uint32_t rank, const Vocabulary& vocabulary, Line* line) const {
  // The first character of the left piece may be a blank itself.
  const size_t blank = text.find(' ', 1);
  if (blank == std::string_view::npos || blank + 1 == text.size())
    return Status::error(Code::bad_model, "{}: merge {} is {}, expected two pieces with a blank between", kKey, rank,
                         text);
  *line = {text, blank, vocabulary.hash(slice(text, 0, blank)), vocabulary.hash(slice(text, blank + 1))};
  vocabulary.prefetch(line->left_hash);
  vocabulary.prefetch(line->right_hash);
  return {};
}

Status MergeTable::resolve(const Line& line, uint32_t rank, const Vocabulary& vocabulary, uint32_t* expected) {
  const int32_t left = vocabulary.find(line.left(), line.left_hash),
                right = vocabulary.find(line.right(), line.right_hash);
  if (left < 0 || right < 0)
    return Status::error(Code::bad_model, "{}: merge {} names {}, which is not a piece of the vocabulary", kKey, rank,
                         left < 0 ? line.left() : line.right());
  int32_t result = -1;
  for (uint32_t guess = *expected == 0 ? 0 : *expected - 1;
       guess <= *expected && guess < vocabulary.size() && result < 0; ++guess)
    if (joins_to(line.text, line.blank, vocabulary.spelling(guess))) result = static_cast<int32_t>(guess);
  if (result < 0) {
    PieceHash hash;
    for (size_t i = 0; i < line.text.size(); ++i)
      if (i != line.blank) hash.add(static_cast<uint8_t>(line.text[i]));
    result =
        vocabulary.find(hash.value(), [&](std::string_view piece) { return joins_to(line.text, line.blank, piece); });
  }
  if (result < 0)
    return Status::error(Code::bad_model, "{}: merge {} is {}, and what it makes is not a piece of the vocabulary",
                         kKey, rank, line.text);
  *expected = static_cast<uint32_t>(result) + 1;
  merges_[rank] = {static_cast<uint32_t>(left), static_cast<uint32_t>(right), static_cast<uint32_t>(result)};
  index_.prefetch(hash(merges_[rank].left, merges_[rank].right));
  return {};
}

Status MergeTable::insert(uint32_t rank, const Vocabulary& vocabulary) {
  const Merge& merge = merges_[rank];
  // Text never becomes a control token by merging. A repeated merge counts where it first stands.
  if (vocabulary.type(merge.result) == PieceType::control) return {};
  const int64_t there = index_.insert(hash(merge.left, merge.right), rank, [&](uint32_t i) {
    return merges_[i].left == merge.left && merges_[i].right == merge.right;
  });
  if (there == -2)
    return Status::error(Code::bad_model, "{}: merge {} collides with over {} others", kKey, rank,
                         SlotTable::kMaxProbes);
  return {};
}

}   // namespace mote
