#include "core/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/bytes.h"
#include "core/base/sort.h"

namespace mote {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens", kTypesKey = "tokenizer.ggml.token_type";

uint64_t hash_of(std::string_view text, bool spell_spaces, bool has_length_before = false) {
  PieceHash hash;
  if (hash.add_all(text, spell_spaces, has_length_before)) return hash.value();
  PieceHash spelled;
  for (SpelledBytes bytes(text, spell_spaces); !bytes.done();) spelled.add(bytes.next());
  return spelled.value();
}

bool same_spelling(std::string_view a, std::string_view b, bool spell_spaces) {
  if (!spell_spaces || a == b) return a == b;
  SpelledBytes x(a, true), y(b, true);
  while (!x.done() && !y.done())
    if (x.next() != y.next()) return false;
  return x.done() && y.done();
}

uint64_t spelled_bytes(std::string_view text, bool spell_spaces) {
  return text.size() + (spell_spaces ? 2 * static_cast<uint64_t>(std::count(text.begin(), text.end(), ' ')) : 0);
}

}   // namespace

void SlotTable::layout(uint64_t count, Arena& arena) {
  const uint64_t slots = std::bit_ceil(std::max<uint64_t>(2 * count, 2));
  slots_ = arena.take<uint32_t>(slots);
  mask_ = slots - 1;
  shift_ = static_cast<uint32_t>(64 - std::countr_zero(slots));
  std::fill(slots_.begin(), slots_.end(), 0u);
}

Status Vocabulary::open(const gguf::File& file, TokenizerKind kind, Arena& arena) {
  kind_ = kind;
  MOTE_ASSIGN_OR_RETURN(const gguf::Entry tokens, file.get_array(kTokensKey, gguf::Type::string));
  if (tokens.count == 0 || tokens.count > SlotTable::kMaxCount)
    return Status::error(Code::bad_model, "{} has {} pieces, allowed are 1 to {}", kTokensKey, tokens.count,
                         SlotTable::kMaxCount);
  constexpr uint64_t kMost = UINT32_MAX - kLengthBytes;
  if (tokens.value_bytes > kMost)
    return Status::error(Code::unsupported, "{} takes {} bytes, mote reads up to {}", kTokensKey, tokens.value_bytes,
                         kMost);
  size_ = static_cast<uint32_t>(tokens.count);
  pieces_ = reinterpret_cast<const char*>(tokens.value);

  MOTE_ASSIGN_OR_RETURN(const gguf::Entry types, file.get_array(kTypesKey, gguf::Type::int32));
  if (types.count != tokens.count)
    return Status::error(Code::bad_model, "{} has {} elements, {} has {}", kTypesKey, types.count, kTokensKey,
                         tokens.count);

  // How much the control and user-defined pieces take must be known before anything is placed.
  uint64_t n_specials = 0, special_bytes = 0;
  size_t longest = 0;
  gguf::StringCursor cursor(tokens);
  std::string_view piece;
  for (uint32_t id = 0; cursor.next(&piece); ++id) {
    longest = std::max(longest, piece.size());
    const auto type = load_le<int32_t>(types.value + 4 * uint64_t{id});
    // Most pieces are ordinary and short: no check has anything against them.
    if (type == static_cast<int32_t>(PieceType::normal) && piece.size() <= kMaxScoredBytes / 3) continue;
    if (type < 0 || type > 6)
      return Status::error(Code::bad_model, "{}: piece {} has type {}, known are 0 to 6", kTypesKey, id, type);
    const auto known_type = static_cast<PieceType>(type);
    MOTE_RETURN_IF_ERROR(check_piece(id, piece, known_type, &special_bytes));
    if (has_special_text(known_type)) ++n_specials;
  }
  longest_bytes_ = static_cast<uint32_t>(longest);
  if (special_bytes > UINT32_MAX)
    return Status::error(Code::unsupported, "{}: control and user-defined pieces take {} bytes, mote holds up to {}",
                         kTokensKey, special_bytes, UINT32_MAX);
  offsets_ = arena.take<uint32_t>(uint64_t{size_} + 1);
  types_ = arena.take<uint8_t>(size_);
  index_.layout(size_, arena);
  specials_ = arena.take<Special>(n_specials);
  special_text_ = arena.take<char>(special_bytes);
  if (has_prefixes()) {
    const uint64_t bits = std::bit_ceil(16 * uint64_t{size_} + 64);
    prefixes_ = arena.take<uint64_t>(bits / 64);
    prefix_shift_ = static_cast<uint32_t>(64 - std::countr_zero(bits));
    std::fill(prefixes_.begin(), prefixes_.end(), uint64_t{0});
  }
  if (arena.measuring()) return {};
  MOTE_RETURN_IF_ERROR(arena.status("the tokenizer"));
  for (uint32_t id = 0; id < size_; ++id)
    types_[id] = static_cast<uint8_t>(load_le<int32_t>(types.value + 4 * uint64_t{id}));
  MOTE_RETURN_IF_ERROR(index_pieces(tokens));
  collect_specials();
  return {};
}

// How long a piece may be. special_bytes grows by what is kept of a control or user-defined one.
Status Vocabulary::check_piece(uint32_t id, std::string_view piece, PieceType type, uint64_t* special_bytes) const {
  if (piece.size() > kMaxPieceBytes)
    return Status::error(Code::bad_model, "{}: piece {} has {} bytes, at most {} are allowed", kTokensKey, id,
                         piece.size(), kMaxPieceBytes);
  const bool is_special = has_special_text(type), is_scored = spells_spaces() && is_text_piece(type);
  if (!is_special && !(is_scored && piece.size() > kMaxScoredBytes / 3)) return {};
  const uint64_t spelled = spelled_bytes(piece, spells_spaces());
  if (is_special && spelled > kMaxSpecialBytes)
    return Status::error(Code::unsupported,
                         "{}: piece {} is a control or user-defined piece of {} bytes, at most {} are allowed",
                         kTokensKey, id, spelled, kMaxSpecialBytes);
  if (is_scored && spelled > kMaxScoredBytes)
    return Status::error(Code::unsupported, "{}: piece {} has {} bytes, SentencePiece pieces have at most {}",
                         kTokensKey, id, spelled, kMaxScoredBytes);
  if (is_special) *special_bytes += spelled;
  return {};
}

Status Vocabulary::index_pieces(const gguf::Entry& tokens) {
  // In groups, so that the places of all of a group are on their way to the cache while the first ones are looked at.
  constexpr uint32_t kGroup = 16;
  uint64_t hashes[kGroup];
  gguf::StringCursor cursor(tokens);
  for (uint32_t first = 0; first < size_; first += kGroup) {
    const uint32_t n = std::min(kGroup, size_ - first);
    std::string_view piece;
    for (uint32_t i = 0; i < n && cursor.next(&piece); ++i) {
      offsets_[first + i] = static_cast<uint32_t>(piece.data() - pieces_);
      hashes[i] = has_prefixes() ? hash_with_prefixes(piece) : hash_of(piece, spells_spaces(), true);
      prefetch(hashes[i]);
    }
    // Where the next text begins is where the last piece of this group ends.
    offsets_[first + n] =
        static_cast<uint32_t>(static_cast<uint64_t>(piece.data() + piece.size() - pieces_) + kLengthBytes);
    for (uint32_t id = first; id < first + n; ++id) {
      if (type(id) == PieceType::unused) continue;
      const int64_t there = index_.insert(hashes[id - first], id, [&](uint32_t other) {
        return same_spelling(spelling(other), spelling(id), spells_spaces());
      });
      if (there != -1 || spelling(id).empty()) return index_error(id, there);
    }
  }
  return {};
}

Status Vocabulary::index_error(uint32_t id, int64_t there) const {
  if (spelling(id).empty())
    return Status::error(Code::bad_model, "{}: piece {} is empty, which only unused pieces may be", kTokensKey, id);
  if (there >= 0)
    return Status::error(Code::bad_model, "{}: pieces {} and {} are both {}", kTokensKey, there, id, spelling(id));
  return Status::error(Code::bad_model, "{}: piece {} collides with over {} others", kTokensKey, id,
                       SlotTable::kMaxProbes);
}

// Notes what the piece begins with, at the end of each character.
uint64_t Vocabulary::hash_with_prefixes(std::string_view piece) {
  PieceHash hash;
  for (SpelledBytes bytes(piece, spells_spaces()); !bytes.done();) {
    hash.add(bytes.next());
    if (bytes.inside_space() || (!bytes.done() && (static_cast<unsigned char>(piece[bytes.position()]) & 0xC0) == 0x80))
      continue;
    const uint64_t bit = hash.value() >> prefix_shift_;
    prefixes_[static_cast<size_t>(bit / 64)] |= uint64_t{1} << (bit % 64);
  }
  return hash.value();
}

void Vocabulary::collect_specials() {
  uint32_t n = 0, at = 0;
  for (uint32_t id = 0; id < size_; ++id) {
    // The room was counted on the same bytes; a file that changed meanwhile must not write beyond it.
    if (!has_special_text(type(id)) || n == specials_.size()) continue;
    specials_[n] = {at, 0, id};
    for (SpelledBytes bytes(spelling(id), spells_spaces()); !bytes.done() && at < special_text_.size();)
      special_text_[at++] = static_cast<char>(bytes.next());
    specials_[n].bytes = at - specials_[n].offset;
    const auto first = static_cast<unsigned char>(special_text_[specials_[n].offset]);
    starts_[first / 64] |= uint64_t{1} << (first % 64);
    if (first == 0xE2 && spells_spaces()) starts_[0] |= uint64_t{1} << ' ';
    ++n;
  }
  const auto text = [this](const Special& s) { return std::string_view(special_text_.data() + s.offset, s.bytes); };
  heap_sort(specials_, [&](const Special& a, const Special& b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a.offset < b.offset;
  });
}

uint64_t Vocabulary::hash(std::string_view text) const { return hash_of(text, spells_spaces()); }

int32_t Vocabulary::find(std::string_view text, uint64_t hash) const {
  return find(hash, [&](std::string_view piece) { return same_spelling(piece, text, spells_spaces()); });
}

Vocabulary::Match Vocabulary::match_special(std::string_view text, size_t control_bytes, bool user_defined,
                                            uint64_t* steps) const {
  Match best;
  uint32_t low = 0, high = static_cast<uint32_t>(specials_.size());
  SpelledBytes bytes(text, spells_spaces());
  // Each byte narrows the range of pieces that begin like the text; the shortest of a range comes first.
  for (uint32_t depth = 0; low < high && !bytes.done(); ++depth) {
    const uint8_t byte = bytes.next();
    ++*steps;
    const auto bound = [&](uint32_t wanted) {
      uint32_t from = low, to = high;
      while (from < to) {
        ++*steps;
        const uint32_t middle = from + (to - from) / 2;
        if (special_byte(middle, depth) < wanted)
          from = middle + 1;
        else
          to = middle;
      }
      return from;
    };
    // Pieces that all go on alike, as those with one beginning do, need no search.
    if (special_byte(low, depth) != byte || special_byte(high - 1, depth) != byte) {
      const uint32_t first = bound(byte);
      high = bound(uint32_t{byte} + 1);
      low = first;
    }
    if (low >= high) break;
    if (specials_[low].bytes != depth + 1) continue;
    const size_t consumed = bytes.position();
    const bool is_user_defined = type(specials_[low].id) == PieceType::user_defined;
    if (!bytes.inside_space() && (is_user_defined ? user_defined : consumed <= control_bytes))
      best = {static_cast<int32_t>(specials_[low].id), static_cast<uint32_t>(consumed)};
    ++low;
  }
  return best;
}

}   // namespace mote
