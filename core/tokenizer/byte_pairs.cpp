#include "core/tokenizer/byte_pairs.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/tokenizer/byte_level.h"

namespace mote {
namespace {

constexpr uint32_t kGone = UINT32_MAX;

// Walks the word as the vocabulary spells it.
template <class Each>
bool each_spelled_byte(std::string_view word, Each each) {
  for (const char c : word) {
    char spelled[4];
    const uint32_t n = encode_utf8(kByteLevel.code_point[static_cast<unsigned char>(c)], spelled);
    for (uint32_t i = 0; i < n; ++i)
      if (!each(static_cast<uint8_t>(spelled[i]))) return false;
  }
  return true;
}

}   // namespace

Status BytePairs::open(const gguf::File& file, const Vocabulary& vocabulary, bool whole_words, Arena& arena) {
  whole_words_ = whole_words;
  MOTE_RETURN_IF_ERROR(merges_.open(file, vocabulary, arena));
  if (arena.measuring()) return {};
  for (uint32_t b = 0; b < 256; ++b) {
    char spelled[4];
    const uint32_t n = encode_utf8(kByteLevel.code_point[b], spelled);
    const int32_t id = vocabulary.find(std::string_view(spelled, n));
    byte_ids_[b] = id >= 0 && is_text_piece(vocabulary.type(static_cast<uint32_t>(id))) ? id : -1;
  }
  return {};
}

int32_t BytePairs::find_whole(std::string_view word, const Vocabulary& vocabulary) const {
  if (word.size() > vocabulary.longest_bytes()) return -1;
  PieceHash hash;
  each_spelled_byte(word, [&](uint8_t byte) { return hash.add(byte), true; });
  const int32_t id = vocabulary.find(hash.value(), [&](std::string_view piece) {
    size_t at = 0;
    return each_spelled_byte(
               word, [&](uint8_t byte) { return at < piece.size() && static_cast<uint8_t>(piece[at++]) == byte; }) &&
           at == piece.size();
  });
  return id >= 0 && is_text_piece(vocabulary.type(static_cast<uint32_t>(id))) ? id : -1;
}

// A byte without a piece is left out, as the reference does.
uint32_t BytePairs::write_symbols(std::string_view word, uint32_t* ids) const {
  uint32_t n = 0;
  for (const char c : word)
    if (const int32_t id = byte_ids_[static_cast<unsigned char>(c)]; id >= 0) ids[n++] = static_cast<uint32_t>(id);
  return n;
}

bool BytePairs::encode(std::string_view word, const Vocabulary& vocabulary, Scratch& scratch, TokenSink& sink,
                       uint64_t* steps) const {
  *steps += word.size();
  if (whole_words_) {
    if (const int32_t id = find_whole(word, vocabulary); id >= 0) return sink.put(id), true;
  }
  if (word.size() <= kShortWord) return merge_short(word, sink, steps), true;
  if (word.size() > kStackWord) return merge_long(word, scratch, sink, steps);
  alignas(Scratch::kAlignment) std::byte stack[scratch_bytes(kStackWord)];
  static_assert(sizeof stack <= 4096);
  Scratch small(stack);
  return merge_long(word, small, sink, steps);
}

void BytePairs::merge_short(std::string_view word, TokenSink& sink, uint64_t* steps) const {
  uint32_t ids[kShortWord], ranks[kShortWord];
  uint32_t n = write_symbols(word, ids);
  for (uint32_t i = 0; i + 1 < n; ++i) ranks[i] = merges_.rank(ids[i], ids[i + 1]);
  while (n > 1) {
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < n; ++i)
      if (ranks[i] < ranks[best]) best = i;
    *steps += n;
    if (ranks[best] == MergeTable::kNone) break;
    ids[best] = merges_[ranks[best]].result;
    --n;
    for (uint32_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (uint32_t i = best + 1; i + 1 < n; ++i) ranks[i] = ranks[i + 1];
    if (best + 1 < n) ranks[best] = merges_.rank(ids[best], ids[best + 1]);
    if (best > 0) ranks[best - 1] = merges_.rank(ids[best - 1], ids[best]);
  }
  for (uint32_t i = 0; i < n; ++i) sink.put(static_cast<int32_t>(ids[i]));
}

// The candidates wait in a heap of (rank, place). An entry is stale when the symbols at its place are no longer those
// of its merge. Each merge takes one entry out and puts at most two in, so 2 n entries are enough.
bool BytePairs::merge_long(std::string_view word, Scratch& scratch, TokenSink& sink, uint64_t* steps) const {
  const uint64_t mark = scratch.mark();
  // One piece of memory, so that a refusal names the whole need.
  auto* heap = scratch.take<uint64_t>(3 * word.size());
  if (heap == nullptr) return false;
  auto* ids = reinterpret_cast<uint32_t*>(heap + 2 * word.size());
  uint32_t* spans = ids + word.size();   // at the first and the last place of a symbol: how many places it has
  const uint32_t n = write_symbols(word, ids);

  uint64_t waiting = 0;
  const auto earliest_first = [](uint64_t a, uint64_t b) { return a > b; };
  const auto add = [&](uint32_t left, uint32_t right) {
    const uint32_t rank = merges_.rank(ids[left], ids[right]);
    if (rank == MergeTable::kNone) return;
    heap[waiting++] = uint64_t{rank} << 32 | left;
    std::push_heap(heap, heap + waiting, earliest_first);
    for (uint64_t k = waiting; k > 0; k /= 2) ++*steps;
  };
  for (uint32_t i = 0; i < n; ++i) spans[i] = 1;
  for (uint32_t i = 0; i + 1 < n; ++i) add(i, i + 1);

  while (waiting > 0) {
    std::pop_heap(heap, heap + waiting, earliest_first);
    for (uint64_t k = waiting; k > 0; k /= 2) ++*steps;
    const uint64_t entry = heap[--waiting];
    const auto left = static_cast<uint32_t>(entry);
    const MergeTable::Merge& merge = merges_[static_cast<uint32_t>(entry >> 32)];
    if (ids[left] != merge.left) continue;
    const uint32_t right = left + spans[left];
    if (right >= n || ids[right] != merge.right) continue;
    const uint32_t span = spans[left] + spans[right];
    ids[left] = merge.result;
    ids[right] = kGone;
    spans[left] = spans[left + span - 1] = span;
    if (left > 0) add(left - spans[left - 1], left);
    if (left + span < n) add(left, left + span);
  }
  for (uint32_t i = 0; i < n; i += spans[i]) sink.put(static_cast<int32_t>(ids[i]));
  scratch.release(mark);
  return true;
}

}   // namespace mote
