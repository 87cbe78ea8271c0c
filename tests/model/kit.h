// What the tests of models share: tables of faults with the sentences that name them, and logits to compare.
#pragma once
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>

#include "tests/api/kit.h"
#include "tests/support/toy_weights.h"

namespace mote::test {

struct Wrong {
  std::string what;
  std::function<void(GgufBuilder&)> change;
  std::vector<std::string> names;   // what the sentence must hold
  mote_status status = MOTE_BAD_MODEL;
};

inline Outcome open(mote_engine* engine, const Bytes& bytes) {
  const mote_source source = source_of(bytes);
  mote_model* model = nullptr;
  const Outcome said = outcome([&](mote_error* e) { return mote_model_open(engine, &source, nullptr, {}, &model, e); });
  mote_model_close(model, nullptr);
  return said;
}

inline Outcome quote(mote_engine* engine, const Bytes& bytes) {
  const mote_source source = source_of(bytes);
  const mote_session_options options = session_options(16, 4);
  mote_quote model{}, session{};
  model.struct_bytes = session.struct_bytes = sizeof model;
  return outcome(
      [&](mote_error* e) { return mote_model_quote(engine, &source, nullptr, &options, &model, &session, e); });
}

inline void check_wrong(const std::vector<Wrong>& table, const ToyOptions& toy = {}, ToyModel model = toy_llama) {
  const Engine engine("reference");
  for (const Wrong& wrong : table) {
    GgufBuilder file = model(toy);
    wrong.change(file);
    const Bytes bytes = file.bytes();
    const Outcome opened = open(engine, bytes), quoted = quote(engine, bytes);
    CAPTURE(wrong.what, opened.sentence);
    CHECK(opened.status == wrong.status);
    CHECK(quoted.status == wrong.status);
    CHECK(quoted.sentence == opened.sentence);
    for (const std::string& name : wrong.names) {
      CAPTURE(name);
      CHECK(contains(opened.sentence, name));
    }
    CHECK(!contains(opened.sentence, "\n"));
  }
}

// A key taken away, and given types that it must not have.
inline std::vector<Wrong> without_and_mistyped(const std::string& key) {
  return {
      {key + " missing", [=](GgufBuilder& f) { f.remove(key); }, {key}},
      {key + " as text", [=](GgufBuilder& f) { f.set_string(key, "seven"); }, {key, "string"}},
      {key + " as texts", [=](GgufBuilder& f) { f.set_strings(key, {"a", "b"}); }, {key}},
      {key + " as bool", [=](GgufBuilder& f) { f.set_bool(key, true); }, {key, "bool"}},
  };
}

inline Wrong count_of(const std::string& key, uint32_t value, std::vector<std::string> names) {
  names.push_back(key);
  names.push_back(std::to_string(value));
  return {key + " " + std::to_string(value), [=](GgufBuilder& f) { f.set_u32(key, value); }, std::move(names)};
}

inline Wrong real_of(const std::string& key, float value, std::vector<std::string> names) {
  names.push_back(key);
  return {key + " " + std::to_string(value), [=](GgufBuilder& f) { f.set_f32(key, value); }, std::move(names)};
}

inline std::vector<float> logits_on(const char* backend, const GgufBuilder& file, uint32_t n_vocab) {
  const Engine engine(backend, 2);
  const Model model(engine, file);
  mote_session_options options = session_options(40, 7);
  options.kv_type = MOTE_KV_F32;
  const Session session(model, options);
  std::vector<float> all = logits_after(session, some_tokens(20, n_vocab));
  const std::vector<float> more = logits_after(session, some_tokens(3, n_vocab, 2));
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The distance in units of 2e-4 x max(1, largest logit).
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 1, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    largest = std::max(largest, std::abs(x));
    worst = std::max(worst, std::abs(x - y));
  }
  return worst / (2e-4 * largest);
}

inline double distance_of_backends(const GgufBuilder& file, uint32_t n_vocab = 320) {
  return distance(logits_on("reference", file, n_vocab), logits_on("cpu", file, n_vocab));
}

inline ToyOptions shape(uint32_t d_model, uint32_t n_heads, uint32_t n_kv_heads, uint32_t d_ff, uint32_t n_vocab) {
  ToyOptions toy;
  toy.d_model = d_model;
  toy.n_heads = n_heads;
  toy.n_kv_heads = n_kv_heads;
  toy.d_ff = d_ff;
  toy.n_vocab = n_vocab;
  toy.tokenizer = ToyTokenizer::none;
  return toy;
}

}   // namespace mote::test
