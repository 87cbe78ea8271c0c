// Weights of attention through mote.h: what they are, that they change nothing, and when there are some.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>

#include "core/mote_dev.h"
#include "tests/api/hooked_backend.h"
#include "tests/api/snapshots.h"

namespace mote::test::taps {   // names of its own: tests are compiled several files at once
namespace {

const ToyOptions kSmall{.n_layers = 2, .d_model = 32, .n_heads = 4, .n_kv_heads = 2, .d_ff = 48};
constexpr uint32_t kAll = MOTE_TAP_DECODER_ATTENTION | MOTE_TAP_ENCODER_ATTENTION | MOTE_TAP_CROSS_ATTENTION;
constexpr uint32_t kHeads = 4, kWindow = 8;   // kWindow: of toy_phi3's layer 0

mote_model_options tapping(uint32_t taps = kAll, uint32_t first = 0, uint32_t layers = 0) {
  mote_model_options options{};
  options.struct_bytes = sizeof options;
  options.taps = taps;
  options.tap_first_layer = first;
  options.tap_layers = layers;
  return options;
}

struct Weights {
  std::vector<float> values;   // [rows, heads, positions]
  size_t rows = 0, heads = 0, positions = 0;
};
Outcome try_attention(mote_session* session, int32_t tap, uint32_t layer, Weights* found = nullptr) {
  const float* values = nullptr;
  Weights weights;
  const Outcome said = outcome([&](mote_error* e) {
    return mote_attention(session, tap, layer, &values, &weights.rows, &weights.heads, &weights.positions, e);
  });
  if (said.status == MOTE_OK && found != nullptr) {
    weights.values.assign(values, values + weights.rows * weights.heads * weights.positions);
    *found = weights;
  }
  return said;
}
Weights attention(mote_session* session, int32_t tap, uint32_t layer) {
  Weights found;
  const Outcome said = try_attention(session, tap, layer, &found);
  if (said.status != MOTE_OK) throw std::runtime_error(said.sentence);
  return found;
}

// The weights of all `tokens`, as wide as the last row, from batches of `batch`.
Weights all_rows(mote_session* session, int32_t tap, uint32_t layer, const Tokens& tokens, size_t batch) {
  Weights all{{}, 0, kHeads, 0};
  std::vector<Weights> pieces;
  for (size_t fed = 0; fed < tokens.size();) {
    const size_t n = std::min(tokens.size() - fed, batch + (fed == 0 ? 1 : 0));
    feed(session, Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(fed),
                         tokens.begin() + static_cast<std::ptrdiff_t>(fed + n)));
    fed += n;
    if (fed > 1) pieces.push_back(attention(session, tap, layer));
  }
  step(session);
  pieces.push_back(attention(session, tap, layer));
  all.positions = pieces.back().positions;
  for (const Weights& piece : pieces) {
    REQUIRE(piece.heads == kHeads);
    all.rows += piece.rows;
    for (size_t item = 0; item < piece.rows * kHeads; ++item) {
      const auto from = piece.values.begin() + static_cast<std::ptrdiff_t>(item * piece.positions);
      all.values.insert(all.values.end(), from, from + static_cast<std::ptrdiff_t>(piece.positions));
      all.values.insert(all.values.end(), all.positions - piece.positions, 0.0f);
    }
  }
  return all;
}

// "" or the first row whose sum is not 1, or that has a weight where it sees nothing or none where it does.
// sees(row, position)
template <class Sees>
std::string fault(const Weights& weights, Sees sees) {
  for (size_t item = 0; item < weights.rows * weights.heads; ++item) {
    const size_t row = item / weights.heads;
    double sum = 0;
    for (size_t p = 0; p < weights.positions; ++p) {
      const float weight = weights.values[item * weights.positions + p];
      const std::string place = "row " + std::to_string(row) + " position " + std::to_string(p);
      if (sees(row, p) ? !(weight > 0) : weight != 0) return place + ": " + std::to_string(weight);
      sum += double{weight};
    }
    if (!(std::abs(sum - 1) <= 1e-6)) return "row " + std::to_string(row) + " adds up to " + std::to_string(sum);
  }
  return {};
}

double farthest_apart(const Weights& a, const Weights& b) {
  double apart = a.values.size() == b.values.size() ? 0 : 1;
  for (size_t i = 0; i < a.values.size() && apart < 1; ++i)
    apart = std::max(apart, std::abs(double{a.values[i]} - double{b.values[i]}));
  return apart;
}

mote_session_options of_session(uint32_t max_batch) {
  mote_session_options options = session_options(64, max_batch);
  options.kv_type = MOTE_KV_F32;
  return options;
}

TEST_CASE("Rows of weights add up to 1 over what they see, the same bits for any cut and threads", "[api][taps]") {
  const ToyModel toy = GENERATE(as<ToyModel>{}, toy_llama, toy_phi3, toy_t5);
  const Bytes bytes = toy(kSmall).bytes();
  const mote_model_options options = tapping();
  const Tokens tokens = some_tokens(41, 300);
  Weights expected[2];   // of `reference`, by layer
  for (const char* backend : {"reference", "cpu"}) {
    Weights first[2];
    for (const uint32_t threads : {1u, 3u}) {
      const Engine engine(backend, threads);
      const Model model(engine, bytes, {}, &options);
      for (const uint32_t batch : {40u, 7u, 1u}) {
        for (const uint32_t layer : {0u, 1u}) {
          CAPTURE(name_of(toy), backend, threads, batch, layer);
          const Session session(model, of_session(std::max(batch, 8u)));
          const Weights all = all_rows(session, MOTE_TAP_DECODER_ATTENTION, layer, tokens, batch);
          REQUIRE((all.rows == 41 && all.positions == 41));
          const bool has_window = toy == toy_phi3 && layer == 0;
          CHECK(fault(all, [&](size_t row, size_t p) { return p <= row && (!has_window || p + kWindow > row); }) == "");
          if (first[layer].rows == 0) first[layer] = all;
          CHECK(bit_difference(all.values, first[layer].values) == "");
        }
      }
    }
    for (const uint32_t layer : {0u, 1u}) {
      if (expected[layer].rows == 0) expected[layer] = first[layer];
      CHECK(farthest_apart(first[layer], expected[layer]) < 1e-5);
    }
  }
}

TEST_CASE("An encoder's rows see all of the input, and so do a decoder's", "[api][taps]") {
  const ToyModel toy = GENERATE(as<ToyModel>{}, toy_bert, toy_t5, toy_transducer);
  const Bytes bytes = toy(kSmall).bytes();
  const mote_model_options options = tapping();
  const auto sees_all = [](size_t, size_t) { return true; };
  Weights expected[2];
  for (const char* backend : {"reference", "cpu"}) {
    const Engine engine(backend, 2);
    const Model model(engine, bytes, {}, &options);
    const mote_session_options fresh = of_session(32);
    mote_session* unread = nullptr;
    REQUIRE(mote_session_open(model, &fresh, {}, &unread, nullptr) == MOTE_OK);
    CHECK(try_attention(unread, MOTE_TAP_ENCODER_ATTENTION, 0).status == MOTE_WRONG_STATE);
    CHECK(mote_session_close(unread, nullptr) == MOTE_OK);
    const Session session(model, of_session(32));
    encode(session, some_tokens(19, 300));
    Weights own;   // of the last layer in the end
    for (const uint32_t layer : {0u, 1u}) {
      own = attention(session, MOTE_TAP_ENCODER_ATTENTION, layer);
      CHECK((own.rows == 19 && own.heads == kHeads && own.positions == 19));
      CHECK(fault(own, sees_all) == "");
      if (expected[layer].rows == 0) expected[layer] = own;
      CHECK(farthest_apart(own, expected[layer]) < 1e-5);
    }
    if (toy == toy_bert) continue;
    CHECK(try_attention(session, MOTE_TAP_CROSS_ATTENTION, 0).status == MOTE_WRONG_STATE);
    const Weights across = all_rows(session, MOTE_TAP_CROSS_ATTENTION, 1, some_tokens(11, 300, 2), 4);
    CHECK((across.rows == 11 && across.positions == 19));
    CHECK(fault(across, sees_all) == "");
    // The encoder's stay while the decoder runs.
    CHECK(bit_difference(attention(session, MOTE_TAP_ENCODER_ATTENTION, 1).values, own.values) == "");
  }
}

TEST_CASE("Taps change no bit of anything else, and come and go with the rows that were run", "[api][taps]") {
  const ToyModel toy = GENERATE(as<ToyModel>{}, toy_llama, toy_phi3, toy_t5);
  const Engine engine("cpu", 2);
  const Bytes bytes = toy(kSmall).bytes();
  const mote_model_options options = tapping();
  const Model plain(engine, bytes), tapped(engine, bytes, {}, &options);
  const Session without(plain, of_session(8)), with(tapped, of_session(8));
  const Tokens tokens = some_tokens(21, 300);
  const auto status = [&] { return try_attention(with, MOTE_TAP_DECODER_ATTENTION, 0).status; };
  CHECK(status() == MOTE_WRONG_STATE);
  CHECK(bit_difference(logits_after(with, tokens), logits_after(without, tokens)) == "");
  const Weights last = attention(with, MOTE_TAP_DECODER_ATTENTION, 1);
  CHECK((last.rows == 1 && last.positions == 21));

  REQUIRE(mote_rewind(with, 9, nullptr) == MOTE_OK);
  CHECK(status() == MOTE_WRONG_STATE);
  REQUIRE(mote_rewind(without, 9, nullptr) == MOTE_OK);
  CHECK(bit_difference(logits_after(with, tokens), logits_after(without, tokens)) == "");
  CHECK(attention(with, MOTE_TAP_DECODER_ATTENTION, 1).positions == 30);

  mote_cancel(with);
  CHECK(mote_feed(with, tokens.data(), 5, nullptr, nullptr) == MOTE_CANCELLED);
  CHECK(status() == MOTE_WRONG_STATE);
  feed(with, tokens);
  CHECK(status() == MOTE_OK);
  mote_cancel(with);   // what a batch has not written yet is still the last one's
  CHECK(mote_step(with, nullptr) == MOTE_CANCELLED);
  CHECK(status() == MOTE_WRONG_STATE);
  REQUIRE(mote_rewind(with, 0, nullptr) == MOTE_OK);
  logits_after(with, tokens);
  CHECK(bit_difference(attention(with, MOTE_TAP_DECODER_ATTENTION, 1).values, last.values) == "");

  // A snapshot holds none, and fits a session with taps as well as one without.
  const Bytes snapshot = take_snapshot(with);
  restore(without, snapshot);
  CHECK(take_snapshot(without) == snapshot);
  restore(with, snapshot);
  CHECK(status() == MOTE_WRONG_STATE);
  CHECK(bit_difference(go_on(with).logits, go_on(without).logits) == "");
  CHECK(status() == MOTE_OK);
}

TEST_CASE("A session that slides has weights by the positions that are left", "[api][taps]") {
  const Engine engine("cpu");
  const mote_model_options options = tapping(MOTE_TAP_DECODER_ATTENTION);
  const Model model(engine, toy_llama(kSmall).bytes(), {}, &options);
  mote_session_options sliding = session_options(16, 4);
  sliding.on_full = MOTE_ON_FULL_SLIDE;
  sliding.keep = 2;
  const Session session(model, sliding), fresh(model, sliding);
  logits_after(session, some_tokens(15, 300));
  logits_after(session, some_tokens(9, 300, 2));
  const Weights slid = attention(session, MOTE_TAP_DECODER_ATTENTION, 0);
  logits_after(fresh, history(session));
  CHECK(slid.positions == history(session).size());
  CHECK(bit_difference(slid.values, attention(fresh, MOTE_TAP_DECODER_ATTENTION, 0).values) == "");
}

TEST_CASE("Where a backend fails, the next one's weights are there", "[api][taps][fallback]") {
  HookedBackend first("reference", "first"), second("cpu", "second");
  void* extra[] = {static_cast<Backend*>(&first), static_cast<Backend*>(&second)};
  mote_engine_options with = engine_options("first,second");
  with.extra_backends = extra;
  with.n_extra_backends = 2;
  const Engine engine(with), cpu("cpu");
  const Bytes bytes = toy_llama(kSmall).bytes();
  const mote_model_options options = tapping();
  const Model model(engine, bytes, {}, &options), on_cpu(cpu, bytes, {}, &options);
  const Session session(model, of_session(8)), other(on_cpu, of_session(8));
  feed(session, some_tokens(12, 300));
  first.hooks.on_run = [] { return Status::error(Code::backend_failed, "told to fail"); };
  step(session);
  logits_after(other, some_tokens(12, 300));
  CHECK(bit_difference(attention(session, MOTE_TAP_DECODER_ATTENTION, 1).values,
                       attention(other, MOTE_TAP_DECODER_ATTENTION, 1).values) == "");
}

TEST_CASE("A backend without the weights leaves the layers that are tapped to the next one, and no others",
          "[api][taps]") {
  const std::string backend = GENERATE(from_range(host_backends()));
  const Bytes bytes = toy_llama({.n_layers = 3, .d_model = 32, .n_heads = 4, .n_kv_heads = 2, .d_ff = 48}).bytes();
  const mote_model_options options = tapping(MOTE_TAP_DECODER_ATTENTION, 1, 1);
  const Engine engine(with_cpu(backend.c_str()).c_str(), 2);
  const Model model(engine, bytes, {}, &options);
  const Session session(model, of_session(8));
  logits_after(session, some_tokens(12, 300));
  const Weights weights = attention(session, MOTE_TAP_DECODER_ATTENTION, 1);
  CHECK(fault(weights, [](size_t, size_t) { return true; }) == "");
  const bool has_op = backend != "xnnpack";
  size_t n_weights = 0;
  for (uint32_t i = 0; i < mote_dev_step_count(model); ++i) {
    mote_dev_step step{};
    REQUIRE(mote_dev_get_step(model, i, &step, nullptr) == MOTE_OK);
    const std::string op = step.op, text = step.text;
    if (op != "attention_weights" && op != "attention" && op != "append") continue;
    const bool is_tapped = contains(text, "of layer 1");
    CAPTURE(backend, text, step.backend);
    CHECK(step.backend == (has_op || !is_tapped ? backend : "cpu"));
    n_weights += op == "attention_weights";
  }
  CHECK(n_weights == 1);
  if (has_op) return;
  const Engine alone(backend.c_str());
  mote_model* refused = nullptr;
  const mote_source source = source_of(bytes);
  const Outcome said =
      outcome([&](mote_error* e) { return mote_model_open(alone, &source, &options, {}, &refused, e); });
  CHECK(said.status == MOTE_UNSUPPORTED);
  CHECK(contains(said.sentence, "attention_weights of layer 1"));
}

TEST_CASE("A tap that is not there says why", "[api][taps]") {
  const Engine engine("cpu");
  const Bytes bytes = toy_llama({.n_layers = 3, .d_model = 32, .n_heads = 4, .d_ff = 48}).bytes();
  const mote_model_options second = tapping(kAll, 1, 1);
  const Model plain(engine, bytes), some(engine, bytes, {}, &second);
  const Session without(plain, session_options(16, 8)), with(some, session_options(16, 8));
  logits_after(without, {1, 2, 3}), logits_after(with, {1, 2, 3});
  struct Refusal {
    mote_session* session;
    int32_t tap;
    uint32_t layer;
    mote_status status;
    const char* sentence;
  };
  const Refusal table[] = {
      {without, MOTE_TAP_DECODER_ATTENTION, 0, MOTE_UNSUPPORTED,
       "layer 0 of the decoder's attention is not tapped: mote_model_options.taps"},
      {with, MOTE_TAP_DECODER_ATTENTION, 2, MOTE_UNSUPPORTED,
       "layer 2 of the decoder's attention is not tapped: tap_first_layer"},
      {with, MOTE_TAP_DECODER_ATTENTION, 3, MOTE_INVALID_ARGUMENT, "layer is 3; the decoder's attention has 3"},
      {with, MOTE_TAP_CROSS_ATTENTION, 0, MOTE_UNSUPPORTED, "no cross attention"},
      {with, MOTE_TAP_ENCODER_ATTENTION, 0, MOTE_UNSUPPORTED, "no encoder's attention"},
      {with, 0, 0, MOTE_INVALID_ARGUMENT, "tap is 0"},
      {with, 3, 0, MOTE_INVALID_ARGUMENT, "tap is 3"},
      {with, 8, 0, MOTE_INVALID_ARGUMENT, "tap is 8"},
  };
  for (const Refusal& refusal : table) {
    const Outcome said = try_attention(refusal.session, refusal.tap, refusal.layer);
    CAPTURE(said.sentence, refusal.sentence);
    CHECK(said.status == refusal.status);
    CHECK(contains(said.sentence, refusal.sentence));
  }
  CHECK(try_attention(with, MOTE_TAP_DECODER_ATTENTION, 1).status == MOTE_OK);
  const Outcome null = outcome([&](mote_error* e) {
    return mote_attention(with, MOTE_TAP_DECODER_ATTENTION, 1, nullptr, nullptr, nullptr, nullptr, e);
  });
  CHECK(null.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(null.sentence, "weights, n_rows, n_heads or n_positions is NULL"));

  struct Wrong {
    mote_model_options options;
    const char* sentence;
  };
  for (const auto& [options, sentence] :
       {Wrong{tapping(9), "taps are 9; the bits of all mote_taps are 7"},
        Wrong{tapping(MOTE_TAP_CROSS_ATTENTION), "no such attention"}, Wrong{tapping(kAll, 3), "tap_first_layer 3"},
        Wrong{tapping(kAll, UINT32_MAX, UINT32_MAX), "no such"}}) {
    mote_model* model = nullptr;
    const mote_source source = source_of(bytes);
    const Outcome said =
        outcome([&](mote_error* e) { return mote_model_open(engine, &source, &options, {}, &model, e); });
    CHECK(said.status == MOTE_INVALID_ARGUMENT);
    CHECK(contains(said.sentence, sentence));
  }
}

}   // namespace
}   // namespace mote::test::taps
