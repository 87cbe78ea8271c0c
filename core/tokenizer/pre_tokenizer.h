// Splits a text into the words inside which byte-level BPE merges. The references are regular expressions; these are
// hand-written scanners of the same meaning, which never look at a character more than a few times.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/tokenizer/unicode/unicode.h"

namespace mote {

// The reference's expressions; the first alternative that matches wins. L, N: \p{L}, \p{N}.
enum class SplitRule : uint8_t {
  // 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^\sLN]+|\s+(?!\S)|\s+
  gpt2,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nLN]?L+|N{1,3}| ?[^\sLN]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  cl100k_digits3,
  cl100k_digits1,   // the same with N instead of N{1,3}
};

struct PreTokenizer {
  std::string_view name;
  SplitRule rule;
  bool digits_apart, nfc, whole_words, adds_bos;   // see pre_tokenizers.inc
};

// The row of that name, or nullptr.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
// "gpt-2, smollm, ...": all names, for messages.
std::string_view pre_tokenizer_names();

class WordScanner {
 public:
  // `text` is valid UTF-8.
  WordScanner(const PreTokenizer& row, std::string_view text) : row_(&row), text_(text) {}

  // The next word, never empty; false at the end. Words follow each other without gaps.
  bool next(std::string_view* word);

  // Characters looked at so far.
  uint64_t steps() const { return steps_; }

 private:
  struct Character {
    uint32_t code_point;
    uint32_t bytes;
    CharacterClass kind;
  };
  Character at(size_t i);
  bool is(size_t i, CharacterClass kind) { return i < end_ && at(i).kind == kind; }
  size_t skip(size_t i, CharacterClass kind, uint32_t at_most = UINT32_MAX);
  size_t skip_symbols(size_t i);
  size_t end_of_contraction(size_t i, bool any_case);
  size_t end_of_blank(size_t i);
  size_t end_of_gpt2(size_t i);
  size_t end_of_cl100k(size_t i, uint32_t digits);
  void find_fragment();

  const PreTokenizer* row_;
  std::string_view text_;
  size_t at_ = 0, end_ = 0;   // the rule sees the text up to end_
  uint64_t steps_ = 0;
};

}   // namespace mote
