// Input: which vocabulary, flags, then text. The text becomes ids, the ids become text again, whole and as a stream;
// then the same bytes are taken as ids.
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/support/toy_model.h"

namespace mote::fuzz {
namespace {

using test::ToyOptions;
using test::ToyTokenizer;

mote_model* vocabulary(const ToyOptions& options) {
  test::GgufBuilder builder;
  builder.set_string("general.architecture", "llama");
  test::add_toy_tokenizer(builder, options);
  static std::vector<test::Bytes> kept;   // a model reads its bytes as long as it lives
  kept.push_back(builder.bytes());
  mote_source source{};
  source.struct_bytes = sizeof source;
  source.data = kept.back().data();
  source.data_bytes = kept.back().size();
  mote_model_options vocabulary_only{};
  vocabulary_only.struct_bytes = sizeof vocabulary_only;
  vocabulary_only.vocabulary_only = 1;
  mote_model* model = nullptr;
  mote_error error{};
  if (mote_model_open(engine(), &source, &vocabulary_only, {}, &model, &error) != MOTE_OK) wrong(error.message);
  return model;
}

std::span<mote_model* const> vocabularies() {
  static const std::vector<mote_model*> all = [] {
    std::vector<mote_model*> models;
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"})
      models.push_back(vocabulary({.pre = pre, .add_bos = models.empty()}));
    for (const ToyTokenizer kind : {ToyTokenizer::sentencepiece, ToyTokenizer::unigram, ToyTokenizer::word_pieces})
      models.push_back(vocabulary({.tokenizer = kind, .add_bos = kind == ToyTokenizer::sentencepiece}));
    return models;
  }();
  return all;
}

std::string text_of(const mote_model* model, std::span<const int32_t> ids) {
  size_t bytes = 0;
  mote_error error{};
  const mote_status status = mote_detokenize(model, ids.data(), ids.size(), nullptr, 0, &bytes, &error);
  if (status != MOTE_OK && status != MOTE_BUFFER_TOO_SMALL) {
    fine(status, error);
    return {};
  }
  std::string text(bytes, '\0');
  if (mote_detokenize(model, ids.data(), ids.size(), text.data(), text.size(), &bytes, &error) != MOTE_OK)
    wrong(error.message);
  return text;
}

void run(Cursor input) {
  const auto models = vocabularies();
  const mote_model* model = models[input.byte() % models.size()];
  const uint32_t flags = input.byte() % 4;
  const ExactBytes text(input.rest());
  const char* bytes = reinterpret_cast<const char*>(text.span().data());
  const size_t size = text.span().size();
  mote_error error{};
  size_t n = 0;
  // A buffer too small for one id says how many there are; exactly that many are enough.
  std::vector<int32_t> ids;
  mote_status status = mote_tokenize(model, bytes, size, flags, {}, nullptr, 0, &n, &error);
  if (status == MOTE_BUFFER_TOO_SMALL) {
    ids.resize(n);
    status = mote_tokenize(model, bytes, size, flags, {}, ids.data(), n, &n, &error);
  }
  if (fine(status, error)) {
    if (n != ids.size()) wrong("another number of ids than was said");
    const std::string again = text_of(model, ids);
    // What is in no vocabulary becomes the name of the unknown piece, "[UNK]" and a space for a single byte.
    if (again.size() > 6 * size + 64) wrong("more text than six bytes for each");
  }
  ids.clear();
  for (size_t i = 0; i + 1 < size; i += 2)
    ids.push_back(static_cast<int32_t>(text.span()[i] | (text.span()[i + 1] << 8)) - 16);
  (void)text_of(model, ids);
}

}   // namespace
}   // namespace mote::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  (void)mote::fuzz::vocabularies();   // opened outside of the count
  const mote::fuzz::WorkBound bound(bytes, 1000, 20000);
  mote::fuzz::run(mote::fuzz::Cursor({data, bytes}));
  return 0;
}
