// The pieces of a vocabulary and how to find them: by id, by text, and where control and user-defined pieces stand in a
// text. Built in one pass into the model arena. Pieces stay views into the file's bytes.
//
// Memory, per piece: 4 bytes of offset, 1 of type, 8 to 16 of hash slots, with unigram and WordPiece 2 to 4 that tell
// where no piece goes on; per control or user-defined piece also its text and 12 bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/arena.h"
#include "core/base/bytes.h"
#include "core/gguf/file.h"

namespace mote {

// tokenizer.ggml.model: "gpt2", "llama", "t5" and "bert".
enum class TokenizerKind : uint8_t { byte_level, sentencepiece, unigram, word_pieces };

// tokenizer.ggml.token_type
enum class PieceType : uint8_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// Whether ordinary text may become such a piece.
constexpr bool is_text_piece(PieceType type) {
  return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::undefined;
}

// A text as the vocabulary spells it: SentencePiece writes U+2581 for a space. Walks its bytes.
class SpelledBytes {
 public:
  SpelledBytes(std::string_view text, bool spell_spaces) : text_(text), spell_spaces_(spell_spaces) {}
  bool done() const { return at_ == text_.size(); }
  // Bytes of the text behind us; only meaningful when not inside of a space.
  size_t position() const { return at_; }
  bool inside_space() const { return in_space_ != 0; }
  uint8_t next() {
    const auto byte = static_cast<uint8_t>(text_[at_]);
    if (byte != ' ' || !spell_spaces_) return ++at_, byte;
    constexpr uint8_t kSpace[3] = {0xE2, 0x96, 0x81};
    const uint8_t spelled = kSpace[in_space_];
    in_space_ = in_space_ == 2 ? 0 : in_space_ + 1;
    if (in_space_ == 0) ++at_;
    return spelled;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  uint32_t in_space_ = 0;
  bool spell_spaces_;
};

// The hash of a text, of which eight bytes at a time go through a multiplication; byte by byte or whole words at once,
// it comes to the same. Both ends of the number are good.
class PieceHash {
 public:
  void add(uint8_t byte) {
    word_ |= uint64_t{byte} << (8 * n_);
    if (++n_ == 8) add_word(word_), word_ = 0, n_ = 0;
  }
  // The whole text, when nothing was added yet. False: there is a blank in it, and blanks are spelled otherwise. Of a
  // text of which GGUF's length stands before it, eight bytes that end with it can be read whatever its own length is.
  bool add_all(std::string_view text, bool stops_at_blank, bool has_length_before = false) {
    const auto* at = reinterpret_cast<const uint8_t*>(text.data());
    const size_t words = text.size() / 8;
    for (size_t i = 0; i < words; ++i) {
      const auto word = load_le<uint64_t>(at + 8 * i);
      if (stops_at_blank && has_blank(word)) return false;
      add_word(word);
    }
    n_ = static_cast<uint32_t>(text.size() % 8);
    word_ = has_length_before ? last_bytes(at + text.size(), n_) : tail(at, text.size());
    return !(stops_at_blank && has_blank(word_));
  }
  uint64_t value() const {
    const uint64_t mixed = (state_ ^ word_ ^ uint64_t{n_} << 56) * 0x9E3779B97F4A7C15u;
    const uint64_t again = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u;
    return again ^ again >> 29;
  }

 private:
  void add_word(uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 29;
  }
  static uint64_t last_bytes(const uint8_t* end, size_t n) {   // n < 8
    return load_le<uint64_t>(end - 8) >> 1 >> (63 - 8 * n);
  }
  // The last size % 8 bytes; nothing outside of the text is read.
  static uint64_t tail(const uint8_t* at, size_t size) {
    const size_t n = size % 8;
    if (size >= 8) return last_bytes(at + size, n);
    if (n == 0) return 0;
    if (n >= 4) return load_le<uint32_t>(at) | uint64_t{load_le<uint32_t>(at + n - 4)} << (8 * (n - 4));
    return at[0] | uint64_t{at[n / 2]} << (8 * (n / 2)) | uint64_t{at[n - 1]} << (8 * (n - 1));
  }
  static bool has_blank(uint64_t word) {   // a byte that is 0 once blanks are taken off
    constexpr uint64_t kOnes = 0x0101010101010101u;
    const uint64_t other = word ^ kOnes * ' ';
    return ((other - kOnes) & ~other & kOnes * 0x80) != 0;
  }

  uint64_t state_ = 0xCBF29CE484222325u, word_ = 0;
  uint32_t n_ = 0;   // bytes in word_
};

// A hash table of numbers below 2^24 - 1 kept by somebody else; each slot has eight bits of the hash for a first look.
// No lookup takes more than kMaxProbes steps: a table whose keys would need more is refused when it is built, so a key
// that is not among its first kMaxProbes places is absent. Runs of used slots may well be longer: whoever makes a
// vocabulary can choose the hashes.
class SlotTable {
 public:
  static constexpr uint32_t kMaxProbes = 512;
  static constexpr uint64_t kMaxCount = 0xFFFFFE;

  // At most half of the slots are used.
  void layout(uint64_t count, Arena& arena);
  // equal(number) says whether that entry has the same key. Returns the number that is there already, -1 after
  // inserting, -2 when the keys collide beyond kMaxProbes.
  template <class Equal>
  int64_t insert(uint64_t hash, uint32_t number, Equal equal) {
    const uint32_t tag = static_cast<uint32_t>(hash) << 24;
    uint64_t at = hash >> shift_;
    for (uint32_t probes = 0; probes < kMaxProbes; ++probes, at = (at + 1) & mask_) {
      const uint32_t slot = slots_[static_cast<size_t>(at)];
      if (slot == 0) {
        slots_[static_cast<size_t>(at)] = tag | (number + 1);
        return -1;
      }
      if ((slot & 0xFF000000u) == tag && equal((slot & 0xFFFFFF) - 1)) return (slot & 0xFFFFFF) - 1;
    }
    return -2;
  }
  // Starts bringing the place of a key into the cache: half of opening a large vocabulary is waiting for it.
  void prefetch(uint64_t hash) const { __builtin_prefetch(slots_.data() + (hash >> shift_)); }
  // The number that a lookup will compare first, once its place is in the cache; -1: none.
  int64_t first_look(uint64_t hash) const {
    const uint32_t tag = static_cast<uint32_t>(hash) << 24;
    uint64_t at = hash >> shift_;
    for (uint32_t probes = 0; probes < kMaxProbes; ++probes, at = (at + 1) & mask_) {
      const uint32_t slot = slots_[static_cast<size_t>(at)];
      if (slot == 0 || (slot & 0xFF000000u) == tag) return static_cast<int64_t>(slot & 0xFFFFFF) - 1;
    }
    return -1;
  }
  // The number whose key is equal, or -1.
  template <class Equal>
  int64_t find(uint64_t hash, Equal equal) const {
    const uint32_t tag = static_cast<uint32_t>(hash) << 24;
    uint64_t at = hash >> shift_;
    for (uint32_t probes = 0; probes < kMaxProbes; ++probes, at = (at + 1) & mask_) {
      const uint32_t slot = slots_[static_cast<size_t>(at)];
      if (slot == 0) return -1;
      if ((slot & 0xFF000000u) == tag && equal((slot & 0xFFFFFF) - 1)) return (slot & 0xFFFFFF) - 1;
    }
    return -1;
  }

 private:
  std::span<uint32_t> slots_;
  uint64_t mask_ = 0;
  uint32_t shift_ = 0;
};

class Vocabulary {
 public:
  static constexpr uint64_t kMaxPieceBytes = 4096;   // the longest real ones have about 400
  // Of a control, unknown or user-defined piece, blanks spelled out. They are looked for from every byte of a text, so
  // this bounds that work to as many bytes looked at for each (twice as many with SentencePiece); the longest known one
  // has 93 (31 blanks in Gemma).
  static constexpr uint64_t kMaxSpecialBytes = 256;
  // Of an ordinary SentencePiece piece, blanks spelled out: each byte of a text is compared with pieces that go over
  // it. The longest known one has 48 (16 blanks in Llama 2).
  static constexpr uint64_t kMaxScoredBytes = 256;

  // Reads tokenizer.ggml.tokens and .token_type. While the arena measures, only sizes come out.
  Status open(const gguf::File& file, TokenizerKind kind, Arena& arena);

  uint32_t size() const { return size_; }
  TokenizerKind kind() const { return kind_; }
  uint32_t longest_bytes() const { return longest_bytes_; }   // of any piece, as it lies in the file
  // The piece as it lies in the file; id < size().
  std::string_view spelling(uint32_t id) const {
    return {pieces_ + offsets_[id], offsets_[id + 1] - offsets_[id] - uint32_t{kLengthBytes}};
  }
  PieceType type(uint32_t id) const { return static_cast<PieceType>(types_[id] & kTypeMask); }
  bool is_end(uint32_t id) const { return (types_[id] & kEndMark) != 0; }
  void mark_end(uint32_t id) { types_[id] |= kEndMark; }

  // The piece spelled like this, of any type but unused; -1: none.
  int32_t find(std::string_view spelling) const { return find(spelling, hash(spelling)); }
  int32_t find(std::string_view spelling, uint64_t hash) const;
  uint64_t hash(std::string_view spelling) const;
  // Two stages of making a later find() quick.
  void prefetch(uint64_t hash) const { index_.prefetch(hash); }
  void prefetch_piece(uint64_t hash) const {
    if (const int64_t id = index_.first_look(hash); id >= 0)
      __builtin_prefetch(pieces_ + offsets_[static_cast<size_t>(id)]);
  }
  // The same by hash; `same(spelling)` compares.
  template <class Same>
  int32_t find(uint64_t hash, Same same) const {
    return static_cast<int32_t>(index_.find(hash, [&](uint32_t id) { return same(spelling(id)); }));
  }
  bool spells_spaces() const { return kind_ == TokenizerKind::sentencepiece || kind_ == TokenizerKind::unigram; }
  // Unigram and WordPiece. The hash of the first characters of a text: false says that no piece begins with them, so
  // that none needs to be looked for; true is wrong for one in five that are none.
  bool may_begin_piece(uint64_t hash) const {
    const uint64_t bit = hash >> prefix_shift_;
    return (prefixes_[static_cast<size_t>(bit / 64)] >> (bit % 64) & 1) != 0;
  }

  struct Match {
    int32_t id = -1;
    uint32_t bytes = 0;   // of the text
  };
  // The longest control (or unknown) piece within the first `control_bytes` of `text`, or user-defined piece within all
  // of it, whichever is longer, that stands at the beginning of `text`. Looks at kMaxSpecialBytes bytes at most; *steps
  // grows by what was looked at.
  Match match_special(std::string_view text, size_t control_bytes, bool user_defined, uint64_t* steps) const;
  bool may_start_special(char c) const {
    const auto byte = static_cast<unsigned char>(c);
    return (starts_[byte / 64] >> (byte % 64) & 1) != 0;
  }

 private:
  static constexpr uint8_t kTypeMask = 7, kEndMark = 0x80;
  static constexpr uint64_t kLengthBytes = 8;   // GGUF puts the length of a string before it
  struct Special {
    uint32_t offset;   // into special_text_
    uint32_t bytes;
    uint32_t id;
  };

  Status check_piece(uint32_t id, std::string_view piece, PieceType type, uint64_t* special_bytes) const;
  Status index_pieces(const gguf::Entry& tokens);
  Status index_error(uint32_t id, int64_t there) const;
  bool has_prefixes() const { return kind_ == TokenizerKind::unigram || kind_ == TokenizerKind::word_pieces; }
  uint64_t hash_with_prefixes(std::string_view piece);
  void collect_specials();
  bool has_special_text(PieceType type) const {
    return type == PieceType::control || type == PieceType::unknown || type == PieceType::user_defined;
  }
  uint8_t special_byte(uint32_t index, uint32_t depth) const {
    return static_cast<uint8_t>(special_text_[specials_[index].offset + depth]);
  }

  TokenizerKind kind_ = TokenizerKind::byte_level;
  const char* pieces_ = nullptr;
  uint32_t size_ = 0, longest_bytes_ = 0;
  std::span<uint32_t> offsets_;   // [size + 1] of the pieces' texts from pieces_
  std::span<uint8_t> types_;
  SlotTable index_;
  std::span<uint64_t> prefixes_;   // bits, numbered by the upper end of a hash
  uint32_t prefix_shift_ = 0;
  std::span<Special> specials_;   // sorted by text
  std::span<char> special_text_;
  std::array<uint64_t, 4> starts_{};   // bytes that begin a special piece
};

}   // namespace mote
