// Weights of NaN give a status, never a text that looks right, wherever they lie.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "tests/api/scripted_model.h"

namespace mote::test {
namespace {

// The weight at `index` of an f32 tensor becomes NaN.
void spoil(GgufBuilder& file, std::string_view tensor, size_t index) {
  const float nan = NAN;
  std::memcpy(file.tensor(tensor).data.data() + index * sizeof nan, &nan, sizeof nan);
}

// What a prompt of 40 tokens and the token after it come to. Token 7 stands at position 23 alone.
Outcome answered(const GgufBuilder& file, const char* backend, uint32_t threads, uint32_t batch) {
  const Engine engine(backend, threads);
  const Model model(engine, file);
  const Session session(model, session_options(64, batch));
  Tokens prompt(40, 9);
  prompt[23] = 7;
  const Outcome fed =
      outcome([&](mote_error* error) { return mote_feed(session, prompt.data(), prompt.size(), nullptr, error); });
  if (fed.status != MOTE_OK) return fed;
  int32_t token = 0;
  return outcome([&](mote_error* error) { return mote_next(session, &token, error); });
}

TEST_CASE("A NaN in any one weight of a layer is a status on every backend", "[api][hostile]") {
  size_t tried = 0;
  for (const char* backend : host_backends()) {
    for (const char* name :
         {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}) {
      GgufBuilder file = toy_llama();
      spoil(file, std::string("blk.1.") + name + ".weight", 5);
      const Outcome said = answered(file, backend, 1, 16);
      CAPTURE(backend, name, said.sentence);
      CHECK(said.status == MOTE_NOT_FINITE);
      const bool cached = contains(name, "attn_k") || contains(name, "attn_v") || contains(name, "attn_norm");
      CHECK(contains(said.sentence, "keys or values of layer 1 at position 0 hold a NaN") == cached);
      ++tried;
    }
  }
  CHECK(tried == 9 * host_backends().size());
}

// What an input, and then tokens of a decoder that reads it, come to.
Outcome read_by(const GgufBuilder& file, const char* backend) {
  const Engine engine(backend);
  const Model model(engine, file);
  const mote_session_options options = session_options(64, 16);
  const int32_t input[] = {4, 5, 6};
  mote_session* session = nullptr;
  mote_error error{};
  must(mote_session_open(model, &options, {}, &session, &error), error);
  Outcome said = outcome([&](mote_error* e) { return mote_encode(session, input, 3, e); });
  if (said.status == MOTE_OK) said = outcome([&](mote_error* e) { return mote_feed(session, input, 3, nullptr, e); });
  mote_session_close(session, nullptr);
  return said;
}

TEST_CASE("A NaN of a model with two stacks is told by its own", "[api][hostile][encoder]") {
  struct Spoilt {
    ToyModel toy;
    const char* tensor;
    const char* whose;
  };
  const std::string kv = "the keys or values of ", end = "layer 1 at position 0 hold a NaN";
  for (const char* backend : {"cpu", "reference"}) {
    for (const auto& [toy, tensor, whose] :
         {Spoilt{toy_t5, "enc.blk.1.attn_k.weight", "the encoder's "},
          {toy_t5, "dec.blk.1.cross_attn_v.weight", "cross-attention in "},
          {toy_t5, "dec.blk.1.attn_k.weight", ""},
          {toy_transducer, "dec.blk.1.cross_attn_k.weight", "cross-attention in "}}) {
      GgufBuilder file = toy({});
      spoil(file, tensor, 5);
      const Outcome said = read_by(file, backend);
      CAPTURE(backend, tensor);
      CHECK(said.status == MOTE_NOT_FINITE);
      CHECK(said.sentence == kv + whose + end);
    }
    GgufBuilder file = toy_classifier({});
    spoil(file, "blk.1.rnn_in.weight", 5);
    CHECK(read_by(file, backend).sentence == "the recurrent vector of the encoder's layer 1 at position 0 holds a NaN");
  }
}

TEST_CASE("The sentence names the first position with a NaN, for any batches and threads", "[api][hostile][threads]") {
  GgufBuilder file = toy_llama();
  spoil(file, "token_embd.weight", 7 * 64 + 3);
  for (const char* backend : host_backends()) {
    for (const uint32_t threads : {1U, 3U}) {
      for (const uint32_t batch : {1U, 7U, 64U}) {
        const Outcome said = answered(file, backend, threads, batch);
        CAPTURE(backend, threads, batch);
        CHECK(said.status == MOTE_NOT_FINITE);
        CHECK(said.sentence == "the keys or values of layer 0 at position 23 hold a NaN");
      }
    }
  }
}

TEST_CASE("After a NaN the session goes on with what was in before", "[api][hostile]") {
  GgufBuilder file = toy_llama();
  spoil(file, "token_embd.weight", 7 * 64 + 3);
  const Engine engine("cpu");
  const Model model(engine, file);
  const Session spoilt(model, session_options(64, 16)), fresh(model, session_options(64, 16));
  feed(spoilt, {1, 2, 3, 4});
  const int32_t bad[] = {5, 7, 5};
  size_t done = 99;
  CHECK(mote_feed(spoilt, bad, 3, &done, nullptr) == MOTE_NOT_FINITE);
  CHECK(done == 0);
  CHECK(logits_after(spoilt, {6, 8}) == logits_after(fresh, {1, 2, 3, 4, 6, 8}));
}

}   // namespace
}   // namespace mote::test
