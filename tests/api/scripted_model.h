// Models whose greedy answer is written down: each token has one successor. The states and the attention are there and
// count for nothing, so a text is what the map says.
#pragma once
#include <map>
#include <string_view>

#include "tests/api/kit.h"

namespace mote::test {

// Ids of the byte-level toy tokenizer: a byte's piece has the byte's number.
inline constexpr uint32_t kScriptedVocab = 304;
inline constexpr int32_t kEndOfText = 301, kImStart = 302, kImEnd = 303;

// After token `first` of a pair its `second` is the most probable one; after a token without a pair, `otherwise`.
GgufBuilder scripted_llama(const std::map<int32_t, int32_t>& successors, int32_t otherwise = kImEnd);
// Says the bytes of `text`, no byte of it twice, after its first byte was fed; then `otherwise`.
GgufBuilder saying_llama(std::string_view text, int32_t otherwise = kImEnd);
// All logits are equal, whatever was fed.
GgufBuilder uniform_llama();

}   // namespace mote::test
