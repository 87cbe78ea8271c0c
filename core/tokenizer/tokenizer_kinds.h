// The rows of tokenizer_kinds.inc. What belongs to a kind that is not built in (MOTE_TOKENIZERS) is never called, so
// that a linker leaves it out.
#pragma once
#include <string_view>

#include "core/tokenizer/vocabulary.h"
#include "mote_build.h"

namespace mote {

struct TokenizerRow {
  std::string_view model, what;
  TokenizerKind kind;
  bool is_built, adds_bos, adds_eos;
};

inline constexpr TokenizerRow kTokenizerRows[] = {
#define MOTE_TOKENIZER(model, kind, what, adds_bos, adds_eos) \
  {#model, what, TokenizerKind::kind, MOTE_TOKENIZER_##model != 0, adds_bos, adds_eos},
#include "core/tokenizer/tokenizer_kinds.inc"
#undef MOTE_TOKENIZER
};

constexpr bool is_built(TokenizerKind kind) {
  for (const TokenizerRow& row : kTokenizerRows)
    if (row.kind == kind) return row.is_built;
  return false;
}

}   // namespace mote
