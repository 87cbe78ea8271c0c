#include "tests/api/scripted_model.h"

#include <stdexcept>

#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

void zero(GgufBuilder& file, std::string_view tensor) {
  for (uint8_t& byte : file.tensor(tensor).data) byte = 0;
}

// A layer that adds nothing.
GgufBuilder still_llama(uint32_t d_model) {
  GgufBuilder file = toy_llama(
      {.n_layers = 1, .d_model = d_model, .n_heads = 2, .n_kv_heads = 1, .d_ff = 32, .n_vocab = kScriptedVocab});
  zero(file, "blk.0.attn_output.weight");
  zero(file, "blk.0.ffn_down.weight");
  return file;
}

}   // namespace

GgufBuilder scripted_llama(const std::map<int32_t, int32_t>& successors, int32_t otherwise) {
  GgufBuilder file = still_llama(kScriptedVocab);
  std::vector<float> embedding(size_t{kScriptedVocab} * kScriptedVocab), output(embedding.size());
  for (uint32_t id = 0; id < kScriptedVocab; ++id) {
    embedding[size_t{id} * kScriptedVocab + id] = 1;
    const auto found = successors.find(static_cast<int32_t>(id));
    const int32_t next = found == successors.end() ? otherwise : found->second;
    output[static_cast<size_t>(next) * kScriptedVocab + id] = 1;
  }
  file.tensor("token_embd.weight").data = float_weights(Format::f32, embedding);
  file.tensor("output.weight").data = float_weights(Format::f32, output);
  return file;
}

GgufBuilder saying_llama(std::string_view text, int32_t otherwise) {
  std::map<int32_t, int32_t> successors;
  for (size_t i = 0; i + 1 < text.size(); ++i)
    if (!successors.emplace(static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i + 1])).second)
      throw std::invalid_argument("a byte comes twice");
  return scripted_llama(successors, otherwise);
}

GgufBuilder uniform_llama() {
  GgufBuilder file = still_llama(32);
  zero(file, "output.weight");
  return file;
}

}   // namespace mote::test
