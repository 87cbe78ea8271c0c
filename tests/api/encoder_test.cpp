// Encoders through mote.h: what each call says to a model that it does not fit, what an input is to a sequence, and
// what comes out. (The suites of the other folders walk toy models of every kind.)
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <limits>

#include "tests/api/hooked_backend.h"
#include "tests/api/snapshots.h"
#include "tests/support/toy_weights.h"

namespace mote::test::encoder_calls {   // names of its own: tests are compiled several files at once
namespace {

const ToyOptions kSmall{.n_layers = 2, .d_model = 32, .n_heads = 2, .d_ff = 48};

Outcome try_encode(mote_session* session, const Tokens& tokens) {
  return outcome([&](mote_error* e) { return mote_encode(session, tokens.data(), tokens.size(), e); });
}
Outcome try_feed(mote_session* session, const Tokens& tokens) {
  return outcome([&](mote_error* e) { return mote_feed(session, tokens.data(), tokens.size(), nullptr, e); });
}
Outcome try_embedding(mote_session* session, uint32_t flags = 0) {
  const float* values = nullptr;
  size_t count = 0;
  return outcome([&](mote_error* e) { return mote_embedding(session, flags, &values, &count, e); });
}
std::vector<float> embedding(mote_session* session, uint32_t flags) {
  const float* values = nullptr;
  size_t count = 0;
  mote_error error{};
  must(mote_embedding(session, flags, &values, &count, &error), error);
  return {values, values + count};
}

TEST_CASE("A call that does not fit the kind of model says which one does, and changes nothing", "[api][encoder]") {
  const Engine engine("cpu");
  const Model llama(engine, toy_llama(kSmall)), bert(engine, toy_bert(kSmall)), t5(engine, toy_t5(kSmall));
  const Session decoder(llama, session_options(32, 8)), encoder(bert, session_options(32, 8));
  feed(decoder, {1, 2, 3});
  encode(encoder, {4, 5});
  const std::vector<float> before = encoded(encoder);

  Outcome said = try_encode(decoder, {1});
  CHECK(said.status == MOTE_UNSUPPORTED);
  CHECK(said.sentence == "this model has no encoder: mote_feed takes its tokens");
  CHECK(history(decoder) == Tokens{1, 2, 3});
  CHECK(try_embedding(decoder).status == MOTE_UNSUPPORTED);
  size_t n_rows = 0, d_model = 0;
  const float* hidden = nullptr;
  said = outcome([&](mote_error* e) { return mote_hidden(decoder, &hidden, &n_rows, &d_model, e); });
  CHECK(said.status == MOTE_UNSUPPORTED);
  CHECK(contains(said.sentence, "no encoder"));

  for (const Outcome& refused : {try_feed(encoder, {1}), outcome([&](mote_error* e) { return mote_step(encoder, e); }),
                                 outcome([&](mote_error* e) { return mote_next(encoder, nullptr, e); })}) {
    CHECK(refused.status == MOTE_UNSUPPORTED);
    CHECK(refused.sentence == "this model only encodes: mote_encode takes its tokens");
  }
  CHECK(bit_difference(encoded(encoder), before) == "");
  CHECK(history(encoder).empty());

  mote_session* both = nullptr;   // one that has no input yet, which the kit's would have
  const mote_session_options options = session_options(32, 8);
  REQUIRE(mote_session_open(t5, &options, {}, &both, nullptr) == MOTE_OK);
  said = try_feed(both, {1});
  CHECK(said.status == MOTE_WRONG_STATE);
  CHECK(contains(said.sentence, "mote_encode"));
  said = outcome([&](mote_error* e) { return mote_hidden(both, &hidden, &n_rows, &d_model, e); });
  CHECK(said.status == MOTE_WRONG_STATE);
  mote_session_close(both, nullptr);
}

TEST_CASE("An input is refused by its length and its tokens, with the numbers", "[api][encoder]") {
  const Engine engine("cpu");
  const Model model(engine, GENERATE(from_range(kEncoderToys))(kSmall));
  const Session session(model, session_options(32, 8));
  encode(session, {4, 5});
  const std::vector<float> before = encoded(session);
  Outcome said = try_encode(session, some_tokens(9, 300));
  CHECK(said.status == MOTE_CONTEXT_FULL);
  CHECK(contains(said.sentence, "9"));
  CHECK(contains(said.sentence, "max_batch of 8"));
  said = try_encode(session, {});
  CHECK(said.status == MOTE_INVALID_ARGUMENT);
  said = try_encode(session, {1, 320});
  CHECK(said.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(said.sentence, "320 at index 1"));
  CHECK(bit_difference(encoded(session), before) == "");
  CHECK(try_encode(session, some_tokens(8, 300)).status == MOTE_OK);
}

TEST_CASE("An encoder's batch is not longer than learned positions reach", "[api][encoder]") {
  const Engine engine("cpu");
  ToyOptions toy = kSmall;
  toy.context = 6;
  const Model model(engine, toy_bert(toy));
  const Session session(model, session_options(16, 6));
  CHECK(try_encode(session, some_tokens(6, 300)).status == MOTE_OK);
  const mote_session_options options = session_options(16, 7);
  mote_session* none = nullptr;
  const Outcome said = outcome([&](mote_error* e) { return mote_session_open(model, &options, {}, &none, e); });
  CHECK(said.status == MOTE_INVALID_ARGUMENT);
  CHECK(said.sentence == "inputs of 7 tokens are asked for; position_embd.weight has 6 positions");
}

TEST_CASE("Pooled vectors are the mean, the first and the last of the hidden states, as the caller or the file says",
          "[api][encoder]") {
  const Engine engine(GENERATE("cpu", "reference"));
  const ToyModel toy = GENERATE(as<ToyModel>{}, toy_bert, toy_t5, toy_transducer);
  const Bytes bytes = toy(kSmall).bytes();
  const Tokens tokens = some_tokens(7, 300);
  for (const int32_t pooling :
       {MOTE_POOLING_OF_MODEL, MOTE_POOLING_NONE, MOTE_POOLING_MEAN, MOTE_POOLING_CLS, MOTE_POOLING_LAST}) {
    mote_model_options options{};
    options.struct_bytes = sizeof options;
    options.pooling = pooling;
    const Model model(engine, bytes, {}, &options);
    const Session session(model, session_options(16, 16));
    encode(session, tokens);
    size_t n_rows = 0, d_model = 0;
    const float* hidden = nullptr;
    REQUIRE(mote_hidden(session, &hidden, &n_rows, &d_model, nullptr) == MOTE_OK);
    REQUIRE(n_rows == 7);
    REQUIRE(d_model == 32);
    CAPTURE(name_of(toy), pooling);
    if (pooling == MOTE_POOLING_NONE || (pooling == MOTE_POOLING_OF_MODEL && toy != toy_bert)) {
      CHECK(try_embedding(session).status == MOTE_UNSUPPORTED);
      continue;
    }
    const std::vector<float> raw = embedding(session, MOTE_EMBEDDING_RAW), unit = embedding(session, 0);
    REQUIRE(raw.size() == 32);
    double squares = 0, length = 0, off = 0;
    for (size_t i = 0; i < 32; ++i) {
      double expected = hidden[(pooling == MOTE_POOLING_CLS ? 0 : 6) * 32 + i];
      if (pooling == MOTE_POOLING_MEAN || pooling == MOTE_POOLING_OF_MODEL) {
        expected = 0;
        for (size_t row = 0; row < 7; ++row) expected += hidden[row * 32 + i] / 7.0;
      }
      off = std::max(off, std::abs(raw[i] - expected));
      squares += double{raw[i]} * double{raw[i]};
    }
    for (size_t i = 0; i < 32; ++i) {
      length += double{unit[i]} * double{unit[i]};
      off = std::max(off, std::abs(unit[i] - raw[i] / std::sqrt(squares)));
    }
    CHECK(off < 1e-6);
    CHECK(std::abs(length - 1) < 1e-6);
  }
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  mote_model* model = nullptr;
  const mote_source source = source_of(bytes);
  for (const int32_t pooling : {-1, 5}) {
    options.pooling = pooling;
    const Outcome said =
        outcome([&](mote_error* e) { return mote_model_open(engine, &source, &options, {}, &model, e); });
    CHECK(said.status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(said.sentence, "pooling is " + std::to_string(pooling)));
  }
}

TEST_CASE("A vector that is not finite is a status, one of zeros stays one", "[api][encoder]") {
  const Engine engine("cpu");
  GgufBuilder file = toy_bert(kSmall);
  const auto fill = [&](const char* tensor, float value) {
    Bytes& data = file.tensor(tensor).data;
    data = float_weights(Format::f32, std::vector<float>(data.size() / 4, value));
  };
  fill("blk.1.layer_output_norm.weight", 0);
  fill("blk.1.layer_output_norm.bias", 0);
  {
    const Model model(engine, file);
    const Session session(model, session_options(16, 16));
    encode(session, {1, 2, 3});
    CHECK(embedding(session, 0) == std::vector<float>(32, 0.0f));
  }
  fill("blk.1.layer_output_norm.bias", std::numeric_limits<float>::infinity());
  const Model model(engine, file);
  const Session session(model, session_options(16, 16));
  encode(session, {1, 2, 3});
  const Outcome said = try_embedding(session);
  CHECK(said.status == MOTE_NOT_FINITE);
  CHECK(contains(said.sentence, "value 0 of the embedding"));
}

// The logits that a fresh session gives for an input and decoder tokens.
std::vector<float> fresh(mote_model* model, const Tokens& input, const Tokens& tokens) {
  const Session session(model, session_options(48, 16));
  encode(session, input);
  return logits_after(session, tokens);
}

TEST_CASE("A new input is a new sequence, and the old one leaves no trace", "[api][encoder]") {
  const char* backend = GENERATE(from_range(exact_backends()));
  const Engine engine(with_cpu(backend).c_str(), 2);
  const Model model(engine, toy_t5(kSmall));
  const Session session(model, session_options(48, 16));
  const Tokens first = some_tokens(15, 300), second = some_tokens(4, 300, 2), tokens = some_tokens(20, 300, 3);
  const std::vector<float> after_first = fresh(model, first, tokens), after_second = fresh(model, second, tokens);
  CHECK(bit_difference(after_first, after_second) != "");
  encode(session, first);
  CHECK(bit_difference(logits_after(session, tokens), after_first) == "");
  encode(session, second);   // shorter than what the states held
  CHECK(history(session).empty());
  CHECK(bit_difference(logits_after(session, tokens), after_second) == "");
  // Rewound, the same input is answered anew; a prompt keeps what it shares.
  REQUIRE(mote_rewind(session, 0, nullptr) == MOTE_OK);
  CHECK(bit_difference(logits_after(session, tokens), after_second) == "");
  Tokens longer = tokens;
  longer.push_back(7);
  size_t reused = 0;
  REQUIRE(mote_prompt(session, longer.data(), longer.size(), &reused, nullptr, nullptr) == MOTE_OK);
  CHECK(reused == 19);
  CHECK(bit_difference(step(session), fresh(model, second, longer)) == "");
  // The hidden states stay there while the decoder runs.
  const std::vector<float> hidden = encoded(session);
  generate(session, 3);
  CHECK(bit_difference(encoded(session), hidden) == "");
}

TEST_CASE("A cancelled input leaves a session without one", "[api][encoder]") {
  const Engine engine("cpu");
  const Model model(engine, GENERATE(from_range(kEncoderToys))(kSmall));
  const Session session(model, session_options(48, 16));
  encode(session, {1, 2, 3});
  mote_cancel(session);
  CHECK(try_encode(session, {4, 5}).status == MOTE_CANCELLED);
  size_t n_rows = 0, d_model = 0;
  const float* hidden = nullptr;
  CHECK(mote_hidden(session, &hidden, &n_rows, &d_model, nullptr) == MOTE_WRONG_STATE);
  encode(session, {4, 5});
  const Session other(model, session_options(48, 16));
  encode(other, {4, 5});
  CHECK(bit_difference(encoded(session), encoded(other)) == "");
}

TEST_CASE("A snapshot holds the input: encoded again it gives the same bits", "[api][encoder][snapshot]") {
  const char* backend = GENERATE(from_range(exact_backends()));
  const ToyModel toy = GENERATE(from_range(kEncoderToys));
  const Engine engine(with_cpu(backend).c_str(), 1), other_engine(with_cpu(backend).c_str(), 3);
  const Bytes bytes = toy(kSmall).bytes();
  const Model model(engine, bytes), other_model(other_engine, bytes);
  const Session session(model, session_options(48, 16)), other(other_model, session_options(64, 12));
  encode(session, some_tokens(11, 300));
  if (!only_encodes(toy)) logits_after(session, some_tokens(9, 300, 2));
  const std::vector<float> results = encoded(session);
  const Bytes snapshot = take_snapshot(session);
  encode(other, {1, 2, 3});
  restore(other, snapshot);
  CHECK(bit_difference(encoded(other), results) == "");
  CHECK(take_snapshot(other) == snapshot);
  if (!only_encodes(toy)) CHECK(bit_difference(go_on(other).logits, go_on(session).logits) == "");
  const Session small(model, session_options(48, 10));
  const Outcome said = try_restore(small, snapshot);
  CHECK(said.status == MOTE_CONTEXT_FULL);
  CHECK(contains(said.sentence, "input of 11 tokens is more than the 10"));
}

TEST_CASE("A snapshot whose input contradicts the model is noticed", "[api][encoder][snapshot]") {
  const Engine engine("cpu");
  const Model model(engine, toy_t5(kSmall)), bert(engine, toy_bert(kSmall));
  const Session session(model, session_options(48, 16)), pooled(bert, session_options(48, 16));
  encode(session, {1, 2, 3});
  feed(session, {4});
  encode(pooled, {1, 2, 3});
  struct Forgery {
    mote_session* session;
    size_t at;   // in the sequence's part
    uint32_t value;
    const char* sentence;
  };
  const Forgery forgeries[] = {
      {session, SnapshotPlaces::kInput, 0, "behind an input of 0"},
      {session, SnapshotPlaces::kInput, 17, "input of 17 tokens"},
      {session, SnapshotPlaces::kInput, 4, "bytes"},
      {session, SnapshotPlaces::kZero, 1, "must be 0"},
      {pooled, SnapshotPlaces::kHistory, 1, "which this model does not run"},
  };
  for (const Forgery& forgery : forgeries) {
    Bytes snapshot = take_snapshot(forgery.session);
    std::memcpy(snapshot.data() + SnapshotPlaces::kText + forgery.at, &forgery.value, sizeof forgery.value);
    const Outcome said = try_restore(forgery.session, sealed(snapshot));
    CAPTURE(forgery.sentence, said.sentence);
    CHECK(said.status != MOTE_OK);
    CHECK(contains(said.sentence, forgery.sentence));
  }
  // A token of the input that is none.
  Bytes snapshot = take_snapshot(pooled);
  const size_t first_token = SnapshotPlaces::kText + SnapshotPlaces::kStateShapes + 24;   // one state
  const int32_t bad = 320;
  std::memcpy(snapshot.data() + first_token, &bad, sizeof bad);
  const Outcome said = try_restore(pooled, sealed(snapshot));
  CHECK(said.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(said.sentence, "input token 320 at index 0"));
}

TEST_CASE("A restore whose encoding is cancelled encodes in the next call", "[api][encoder][snapshot]") {
  HookedBackend backend("cpu");
  void* extra[] = {static_cast<Backend*>(&backend)};
  mote_engine_options options = engine_options("hooked");
  options.extra_backends = extra;
  options.n_extra_backends = 1;
  const Engine engine(options);
  const Model model(engine, toy_t5(kSmall));
  const Session session(model, session_options(48, 16)), restored(model, session_options(48, 16));
  const std::vector<float> logits = logits_after(session, some_tokens(9, 300));
  const Bytes snapshot = take_snapshot(session);
  backend.hooks.on_run = [&] {
    mote_cancel(restored);
    return Status();
  };
  restore(restored, snapshot);
  backend.hooks.on_run = [] { return Status(); };
  CHECK(mote_step(restored, nullptr) == MOTE_CANCELLED);
  CHECK(bit_difference(step(restored), logits) == "");
}

TEST_CASE("Where a backend fails under a decoder, the next one encodes the input again", "[api][encoder][fallback]") {
  HookedBackend first("reference", "first"), second("cpu", "second");
  void* extra[] = {static_cast<Backend*>(&first), static_cast<Backend*>(&second)};
  mote_engine_options options = engine_options("first,second");
  options.extra_backends = extra;
  options.n_extra_backends = 2;
  const Engine engine(options), cpu("cpu");
  const Bytes bytes = toy_t5(kSmall).bytes();
  const Model model(engine, bytes), on_cpu(cpu, bytes);
  const Session session(model, session_options(48, 16));
  const Tokens input = some_tokens(11, 300), tokens = some_tokens(20, 300, 2);
  encode(session, input);
  feed(session, tokens);
  first.hooks.on_run = [] { return Status::error(Code::backend_failed, "told to fail"); };
  CHECK(bit_difference(step(session), fresh(on_cpu, input, tokens)) == "");
  CHECK(second.counts.executors == 1);
}

}   // namespace
}   // namespace mote::test::encoder_calls
