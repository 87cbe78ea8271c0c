// What the memory held before makes no difference: everything is written before it is read.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/memory/shapes.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {
namespace {

struct Run {
  std::vector<float> logits;
  std::string text;
  Tokens tokens;
};

// Everything lives in guarded memory of exactly the quotes, filled with one byte.
Run run_in(uint8_t fill, const char* backend, uint32_t threads, const Bytes& bytes,
           const mote_session_options& options) {
  const std::string backends = with_cpu(backend);
  const mote_engine_options engine_with = engine_options(backends.c_str(), threads);
  const GuardedMemory engine_memory(quote_engine(engine_with).total_bytes, 64, Guard::pages, fill);
  const Engine engine(engine_with, {engine_memory.data(), engine_memory.bytes()});
  const ModelQuotes quotes = quote_model(engine, bytes, options);
  const GuardedMemory model_memory(quotes.model.total_bytes, 64, Guard::pages, fill);
  const GuardedMemory session_memory(quotes.session.total_bytes, 64, Guard::pages, fill);
  const Model model(engine, bytes, {model_memory.data(), model_memory.bytes()});
  const Session session(model, options, {session_memory.data(), session_memory.bytes()});

  const size_t context = options.context == 0 ? 512 : options.context;
  const size_t n_prompt = context > 60 ? 50 : context / 2 + 1;
  Run run;
  if (!use_encoder(session, &run.logits)) return run;
  const auto append = [&](const std::vector<float>& more) {
    run.logits.insert(run.logits.end(), more.begin(), more.end());
  };
  append(logits_after(session, some_tokens(n_prompt, 256)));
  const Answer said = answer(session, 12);
  run.text = said.text;
  run.tokens = said.tokens;
  if (said.finish != MOTE_FINISH_CONTEXT_FULL) append(step(session));
  mote_rewind(session, n_prompt / 2 + 1, nullptr);
  append(step(session));
  return run;
}

TEST_CASE("Logits and text are the same bits whatever the memory held before", "[memory][dirty]") {
  const char* backend = GENERATE(from_range(exact_backends()));
  const uint32_t threads = GENERATE(1u, 3u);
  const ToyModel toy = GENERATE(from_range(kAllToys));
  const Bytes bytes = toy({}).bytes();
  for (const Shape& shape : session_shapes()) {
    if (only_encodes(toy) && shape.options.n_logit_bias != 0) continue;   // there are no logits
    CAPTURE(backend, threads, name_of(toy), shape.name);
    const Run clean = run_in(0x00, backend, threads, bytes, shape.options);
    REQUIRE(!clean.logits.empty());
    for (const uint8_t fill : {uint8_t{0xFF}, uint8_t{0x7F}}) {
      const Run dirty = run_in(fill, backend, threads, bytes, shape.options);
      CHECK(bit_difference(clean.logits, dirty.logits) == "");
      CHECK(dirty.text == clean.text);
      CHECK(dirty.tokens == clean.tokens);
    }
  }
}

TEST_CASE("Every weight format gives the same bits in dirty memory", "[memory][dirty]") {
  const Format format = GENERATE(Format::f16, Format::bf16, Format::q4_0, Format::q8_0, Format::q4_k, Format::q6_k);
  const ToyOptions toy{.n_layers = 1,
                       .d_model = 256,
                       .n_heads = 4,
                       .d_ff = 256,
                       .matrices = format,
                       .embedding = format,
                       .output = format};
  const Bytes bytes = toy_llama(toy).bytes();
  const mote_session_options options = session_options(80, 16);
  const Run clean = run_in(0x00, "cpu", 2, bytes, options), dirty = run_in(0xFF, "cpu", 2, bytes, options);
  REQUIRE(!clean.logits.empty());
  CHECK(bit_difference(clean.logits, dirty.logits) == "");
}

}   // namespace
}   // namespace mote::test
