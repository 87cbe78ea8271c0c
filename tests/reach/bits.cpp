// bits: hashes of what the cpu backend computes, one line each, for comparison with those of the same program on other
// processors. The lines are the same on all of them but for those that begin with "this": what ran.
//   this      bits of a pointer; the processor's instruction sets that a kernel may use, or "none"
//   FORMAT    logits after every token of a toy model with matrices, embedding and output in that format
//   rope      the same with yarn, f32 keys and values and enough tokens for a second chunk of positions
//   windows   the same with rings, norms of heads and behind layers, gelu
//   sampled   tokens drawn with all that a chain can do, and the logits behind each
//   text      ids and bytes of a text there and back
//   math      the mathematical functions
//   norm, elementwise, attention      those kernels, with all that no model above asks them for (kernels.cpp)
//   chain, frequencies      what sampler chains leave and the angles' frequencies, in double precision
#include <cstdio>
#include <string>

#include "core/base/math.h"
#include "core/format/format.h"
#include "platform/cpu_features.h"
#include "tests/api/kit.h"
#include "tests/reach/kernels.h"
#include "tests/support/hash.h"
#include "tests/support/toy_weights.h"

using namespace mote::test;

namespace {

int32_t add_rows(void* hash, size_t, size_t rows, const float* logits, size_t n_vocab) {
  static_cast<Hash*>(hash)->add(logits, rows * n_vocab * sizeof(float));
  return 0;
}

void print_evaluation(mote_engine* engine, const ToyOptions& toy, size_t n_tokens, int32_t kv_type, const char* what,
                      ToyModel model_of = toy_llama) {
  const Bytes bytes = model_of(toy).bytes();
  Hash hash;
  hash.add(bytes.data(), bytes.size());   // the same model, before anything is computed with it
  const Model model(engine, bytes);
  mote_session_options options = session_options(static_cast<uint32_t>(n_tokens), 32);
  options.max_output_rows = 32;
  options.kv_type = kv_type;
  const Session session(model, options);
  const Tokens tokens = some_tokens(n_tokens, toy.n_vocab);
  mote_error error{};
  must(mote_evaluate(session, tokens.data(), tokens.size(), add_rows, &hash, nullptr, &error), error);
  hash.print(what);
}

void print_formats(mote_engine* engine, size_t n_tokens) {
  for (const mote::FormatInfo& format : mote::format_table()) {
    if (!format.enabled) continue;
    ToyOptions toy;
    toy.n_layers = 1;
    toy.d_model = toy.d_ff = 256;   // a super-block
    toy.tokenizer = ToyTokenizer::none;
    toy.n_vocab = 64;
    toy.matrices = toy.embedding = toy.output = static_cast<mote::Format>(&format - mote::format_table().data());
    print_evaluation(engine, toy, n_tokens, MOTE_KV_F16, std::string(format.name).c_str());
  }
}

void print_rope(mote_engine* engine, size_t n_tokens) {
  ToyOptions toy;
  toy.d_model = 32;
  toy.n_heads = 2;
  toy.n_kv_heads = 1;
  toy.d_ff = 32;
  toy.n_vocab = 32;
  toy.tokenizer = ToyTokenizer::none;
  toy.rope_scaling = "yarn";
  toy.original_context = 256;
  print_evaluation(engine, toy, n_tokens, MOTE_KV_F32, "rope");
}

void print_windows(mote_engine* engine, size_t n_tokens) {
  ToyOptions toy;
  toy.d_model = toy.d_ff = 64;
  toy.n_vocab = 64;
  toy.tokenizer = ToyTokenizer::none;
  toy.matrices = toy.embedding = mote::Format::q8_0;
  print_evaluation(engine, toy, n_tokens, MOTE_KV_F16, "windows", toy_gemma3);
}

void print_sampled(mote_engine* engine, size_t n_tokens) {
  ToyOptions toy;
  toy.matrices = mote::Format::q4_0;
  const Model model(engine, toy_llama(toy));
  const mote_sampler chain[] = {{MOTE_SAMPLER_REPETITION_PENALTY, 64, 1.1, 0},
                                {MOTE_SAMPLER_TOP_K, 60, 0, 0},
                                {MOTE_SAMPLER_TYPICAL_P, 0, 0.95, 0},
                                {MOTE_SAMPLER_TOP_P, 0, 0.95, 0},
                                {MOTE_SAMPLER_MIN_P, 0, 0.01, 0},
                                {MOTE_SAMPLER_TEMPERATURE, 0, 0.8, 0}};
  mote_session_options options = session_options(static_cast<uint32_t>(n_tokens) + 8);
  options.samplers = chain;
  options.n_samplers = std::size(chain);
  options.seed = 11;
  const Session session(model, options);
  feed(session, {1, 2, 3, 5});
  Hash hash;
  for (size_t i = 0; i < n_tokens; ++i) {
    const std::vector<float> logits = step(session);
    const int32_t token = next(session);
    hash.add(logits.data(), logits.size() * sizeof(float));
    hash.add(&token, sizeof token);
  }
  hash.print("sampled");
}

void print_text(mote_engine* engine) {
  const Model model(engine, toy_llama());
  const std::string text = "Thé 32-bit wörld, ein\tZug: \xFF\xC3 12345 日本語 🙂 hello hello\n";
  Tokens ids(4 * text.size());
  size_t n_ids = 0, n_bytes = 0;
  mote_error error{};
  must(mote_tokenize(model, text.data(), text.size(), 0, {}, ids.data(), ids.size(), &n_ids, &error), error);
  std::string back(16 * text.size(), ' ');
  must(mote_detokenize(model, ids.data(), n_ids, back.data(), back.size(), &n_bytes, &error), error);
  Hash hash;
  hash.add(ids.data(), n_ids * sizeof ids[0]);
  hash.add(back.data(), n_bytes);
  hash.print("text");
}

void print_math() {
  Random random(3);
  Hash hash;
  for (int i = 0; i < 20000; ++i) {
    const float x = random.uniform(-20, 20), y = random.uniform(0, 1000);
    const double results[] = {mote::exp_f64(x),     mote::log_f64(y), mote::pow_f64(y, x), mote::tanh_f64(x / 10),
                              mote::erf_f64(x / 5), mote::sin_f64(y), mote::cos_f64(x * y)};
    const float single[] = {mote::exp_f32(x), mote::log_f32(y), mote::pow_f32(y, x), mote::tanh_f32(x),
                            mote::erf_f32(x), mote::sin_f32(y), mote::cos_f32(x)};
    hash.add(results, sizeof results);
    hash.add(single, sizeof single);
  }
  hash.print("math");
}

void print_this() {
  const mote::CpuFeatures f = mote::probe_cpu_features();
  const struct {
    bool has;
    const char* name;
  } sets[] = {{f.avx2, "avx2"},       {f.fma, "fma"},         {f.f16c, "f16c"},
              {f.avx512f, "avx512f"}, {f.dotprod, "dotprod"}, {f.i8mm, "i8mm"}};
  std::printf("this %u-bit:", static_cast<unsigned>(8 * sizeof(void*)));
  bool any = false;
  for (const auto& set : sets)
    if (set.has) any = std::printf(" %s", set.name) > 0;
  std::printf(any ? "\n" : " none\n");
}

}   // namespace

int main() {
  try {
    print_this();
    const Engine engine("cpu", 2);
    print_formats(engine, 40);
    print_rope(engine, 1100);
    print_windows(engine, 200);
    print_sampled(engine, 200);
    print_text(engine);
    print_math();
    print_kernels();
    print_doubles();
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "%s\n", failure.what()), 1;
  }
}
