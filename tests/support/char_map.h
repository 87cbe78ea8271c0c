// Makes SentencePiece's precompiled character maps: what tokenizer.ggml.precompiled_charsmap holds.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mote::test {

// Texts and what they are replaced by, neither with a zero in it.
std::vector<uint8_t> char_map(const std::map<std::string, std::string>& replacements);

}   // namespace mote::test
