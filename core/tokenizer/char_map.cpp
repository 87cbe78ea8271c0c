#include "core/tokenizer/char_map.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/base/slice.h"
#include "core/base/utf8.h"

namespace mote {
namespace {

constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";

// A unit is either the number of a value, with the upper bit set, or a step: the byte that leads to it, where its
// successors are, and whether one of them is a value.
constexpr uint32_t kIsValue = 0x80000000u;
uint32_t label(uint32_t unit) { return unit & (kIsValue | 0xFF); }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.data() + i, text.size() - i);
    if (!c.valid) return false;
    i += c.bytes;
  }
  return true;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}   // namespace

uint64_t CharMap::spelled_bytes(std::string_view value) {
  return value.size() + 2 * static_cast<uint64_t>(std::count(value.begin(), value.end(), ' '));
}

// The caller has checked `at`.
uint32_t CharMap::unit(uint64_t at) const { return load_le<uint32_t>(units_ + 4 * at); }

std::string_view CharMap::value_at(uint32_t offset) const {
  const std::string_view rest = slice(values_, offset, kMaxValueBytes);
  return slice(rest, 0, std::min(rest.find('\0'), rest.size()));
}

Status CharMap::open(const gguf::File& file) {
  gguf::Entry entry;
  if (!file.find(kKey, &entry)) return {};
  const gguf::Type type = entry.element_type == gguf::Type::int8 ? gguf::Type::int8 : gguf::Type::uint8;
  MOTE_ASSIGN_OR_RETURN(entry, file.get_array(kKey, type));
  if (entry.count == 0) return {};
  const uint64_t trie_bytes = entry.count < 4 ? UINT64_MAX : load_le<uint32_t>(entry.value);
  if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > entry.count - 4)
    return Status::error(Code::bad_model, "{} has {} bytes and cannot hold a trie of {}", kKey, entry.count,
                         trie_bytes);
  units_ = entry.value + 4;
  n_units_ = static_cast<uint32_t>(trie_bytes / 4);
  values_ = {reinterpret_cast<const char*>(units_ + trie_bytes), static_cast<size_t>(entry.count - 4 - trie_bytes)};
  for (uint32_t at = 0; at < n_units_; ++at) {
    const uint32_t step = unit(at);
    if ((step & kIsValue) != 0 || !has_value(step)) continue;
    const uint32_t leaf = at ^ offset(step);
    const uint32_t number = leaf < n_units_ ? unit(leaf) & ~kIsValue : UINT32_MAX;
    if (number >= values_.size())
      return Status::error(Code::bad_model, "{}: unit {} leads to a value that is not there", kKey, at);
    const std::string_view value = value_at(number);
    if (slice(values_, number + value.size(), 1) != std::string_view("\0", 1))
      return Status::error(Code::unsupported, "{}: the value at byte {} has over {} bytes, or no end", kKey, number,
                           value.size());
    if (!is_valid_utf8(value))
      return Status::error(Code::bad_model, "{}: the value at byte {} is not UTF-8", kKey, number);
    // A text that ends with a byte beyond ASCII has two bytes or more.
    const uint64_t least_bytes = label(step) < 0x80 ? 1 : 2;
    growth_ = std::max(growth_, (spelled_bytes(value) + least_bytes - 1) / least_bytes);
  }
  return {};
}

CharMap::Match CharMap::walk(std::string_view text, uint64_t* steps, bool want_largest) const {
  Match best;
  if (n_units_ == 0) return best;
  uint64_t at = offset(unit(0));
  const size_t most = std::min<size_t>(text.size(), kMaxKeyBytes);
  for (size_t i = 0; i < most; ++i) {
    ++*steps;
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= n_units_) break;
    const uint32_t step = unit(at);
    if (label(step) != byte) break;
    at ^= offset(step);
    if (!has_value(step) || at >= n_units_) continue;
    // A text that ends inside of a character would leave the rest of it behind.
    if (i + 1 < text.size() && !begins_character(text[i + 1])) continue;
    const Match match{static_cast<uint32_t>(i + 1), value_at(unit(at) & ~kIsValue)};
    if (!want_largest || spelled_bytes(match.value) >= spelled_bytes(best.value)) best = match;
  }
  return best;
}

}   // namespace mote
