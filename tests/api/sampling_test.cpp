// Sampling as a session does it: keyed by seed and place in the stream, its settings changed on the way.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>

#include "tests/api/scripted_model.h"
#include "tests/api/snapshots.h"

namespace mote::test {
namespace {

constexpr mote_sampler kWarm[] = {{MOTE_SAMPLER_TEMPERATURE, 0, 1.0, 0}};

mote_session_options warm(uint64_t seed, uint32_t context = 128) {
  mote_session_options options = session_options(context, 16);
  options.samplers = kWarm;
  options.n_samplers = 1;
  options.seed = seed;
  return options;
}

TEST_CASE("One seed gives one text, whatever the threads and batches; another seed another one", "[api][sampling]") {
  const auto run = [](uint32_t threads, uint32_t batch, uint64_t seed) {
    const Engine engine("cpu", threads);
    const Model model(engine, toy_llama());
    mote_session_options options = warm(seed);
    options.max_batch = batch;
    const Session session(model, options);
    feed(session, some_tokens(20, 300));
    return generate(session, 40);
  };
  const Tokens first = run(1, 16, 11);
  CHECK(first.size() == 40);
  CHECK(std::set<int32_t>(first.begin(), first.end()).size() > 10);
  CHECK(run(3, 1, 11) == first);
  CHECK(run(2, 7, 11) == first);
  CHECK(run(1, 16, 12) != first);
}

TEST_CASE("Rewinding repeats the text", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama());
  const Session session(model, warm(3));
  feed(session, some_tokens(20, 300));
  const Tokens first = generate(session, 30);
  REQUIRE(mote_rewind(session, 20, nullptr) == MOTE_OK);
  CHECK(generate(session, 30) == first);
  REQUIRE(mote_rewind(session, 33, nullptr) == MOTE_OK);
  CHECK(generate(session, 17) == Tokens(first.begin() + 13, first.end()));
  // The same tokens by another way.
  Tokens whole = some_tokens(20, 300);
  whole.insert(whole.end(), first.begin(), first.begin() + 13);
  const Session other(model, warm(3));
  feed(other, whole);
  CHECK(generate(other, 17) == Tokens(first.begin() + 13, first.end()));
}

TEST_CASE("Slides do not lower the place in the stream", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  mote_session_options sliding = warm(9, 12);
  sliding.on_full = MOTE_ON_FULL_SLIDE;
  const Session with_slides(model, sliding), without(model, warm(9, 400));
  feed(with_slides, {1, 2, 3});
  feed(without, {1, 2, 3});
  CHECK(generate(with_slides, 200) == generate(without, 200));
}

TEST_CASE("Rewinding before the first slide repeats the text too", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama({.n_layers = 1}));
  mote_session_options sliding = warm(9, 24);
  sliding.on_full = MOTE_ON_FULL_SLIDE;
  sliding.keep = 6;
  const Session session(model, sliding);
  const Tokens prompt = some_tokens(6, 300);
  feed(session, prompt);
  const Tokens first = generate(session, 80);
  for (const size_t to : {size_t{6}, size_t{3}, size_t{0}}) {
    REQUIRE(mote_rewind(session, to, nullptr) == MOTE_OK);
    feed(session, Tokens(prompt.begin() + static_cast<std::ptrdiff_t>(to), prompt.end()));
    CAPTURE(to);
    CHECK(generate(session, 80) == first);
  }
  size_t reused = 0, done = 0;
  REQUIRE(mote_prompt(session, prompt.data(), prompt.size(), &reused, &done, nullptr) == MOTE_OK);
  CHECK(reused == 5);
  CHECK(generate(session, 80) == first);
}

TEST_CASE("Penalties see the kept tokens only", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  constexpr mote_sampler kNew[] = {{MOTE_SAMPLER_FREQUENCY_PRESENCE, 0, 0, 1.0}, {MOTE_SAMPLER_GREEDY, 0, 0, 0}};
  mote_session_options options = session_options(8, 8);
  options.samplers = kNew;
  options.n_samplers = 2;
  options.on_full = MOTE_ON_FULL_SLIDE;
  options.keep = 1;
  const Session session(model, options);
  feed(session, {3, 0, 1});
  for (int i = 0; i < 60; ++i) {
    step(session);   // slides, where a token stands one over
    const Tokens before = history(session);
    int32_t expected = 0;   // the lowest id that is not in the history
    while (std::count(before.begin(), before.end(), expected) != 0) ++expected;
    CAPTURE(i, before);
    REQUIRE(next(session) == expected);
  }
}

TEST_CASE("A request with penalties gives the same tokens cold, behind a shared beginning and after a restore",
          "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama());
  constexpr mote_sampler kPenalties[] = {{MOTE_SAMPLER_REPETITION_PENALTY, 12, 1.5, 0},
                                         {MOTE_SAMPLER_FREQUENCY_PRESENCE, 0, 0.5, 1.0},
                                         {MOTE_SAMPLER_NO_REPEAT_NGRAM, 2, 0, 0},
                                         {MOTE_SAMPLER_TEMPERATURE, 0, 0.7, 0}};
  mote_session_options options = warm(5);
  options.samplers = kPenalties;
  options.n_samplers = std::size(kPenalties);
  const Tokens request = some_tokens(30, 300);
  const auto ask = [&](mote_session* session, const Tokens& tokens, size_t* reused) {
    REQUIRE(mote_prompt(session, tokens.data(), tokens.size(), reused, nullptr, nullptr) == MOTE_OK);
  };
  size_t reused = 99;
  const Session cold(model, options), behind(model, options), restored(model, options), without(model, warm(5));
  ask(cold, request, &reused);
  CHECK(reused == 0);
  const Bytes snapshot = take_snapshot(cold);
  const Tokens expected = generate(cold, 40);

  Tokens other(request.begin(), request.begin() + 17);
  other.insert(other.end(), {7, 7, 7, 8});
  ask(behind, other, &reused);
  generate(behind, 20);
  ask(behind, request, &reused);
  CHECK(reused >= 16);
  CHECK(generate(behind, 40) == expected);

  ask(restored, other, &reused);
  generate(restored, 20);
  restore(restored, snapshot);
  CHECK(generate(restored, 40) == expected);

  ask(without, request, &reused);
  CHECK(generate(without, 40) != expected);   // the penalties do something
}

TEST_CASE("New settings count from the next token on", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  constexpr mote_logit_bias kForce[] = {{42, 5.0f}};
  constexpr mote_logit_bias kTwo[] = {{42, 5.0f}, {43, 9.0f}};
  constexpr mote_sampler kBiased[] = {{MOTE_SAMPLER_LOGIT_BIAS, 0, 0, 0}, {MOTE_SAMPLER_GREEDY, 0, 0, 0}};
  mote_session_options options = session_options(64, 8);
  options.logit_bias = kForce;
  options.n_logit_bias = 1;
  const Session session(model, options);
  feed(session, {7});
  CHECK(next(session) == 0);   // greedy; the bias is no stage of the chain
  options.samplers = kBiased;
  options.n_samplers = 2;
  REQUIRE(mote_set_samplers(session, &options, nullptr) == MOTE_OK);
  CHECK(next(session) == 42);
  options.logit_bias = kTwo;
  options.n_logit_bias = 2;
  const Outcome too_many = outcome([&](mote_error* e) { return mote_set_samplers(session, &options, e); });
  CHECK(too_many.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(too_many.sentence, "opened for 1"));
  CHECK(next(session) == 42);   // the old settings stay
  constexpr mote_sampler kWrong[] = {{MOTE_SAMPLER_GREEDY, 0, 0, 0}, {MOTE_SAMPLER_TOP_P, 0, 2.0, 0}};
  constexpr mote_logit_bias kOther[] = {{17, 5.0f}};
  options.samplers = kWrong;
  options.logit_bias = kOther;
  options.n_logit_bias = 1;
  const Outcome wrong = outcome([&](mote_error* e) { return mote_set_samplers(session, &options, e); });
  CHECK(wrong.status == MOTE_INVALID_ARGUMENT);
  CHECK(contains(wrong.sentence, "top_p"));
  CHECK(next(session) == 42);
  REQUIRE(mote_set_samplers(session, nullptr, nullptr) == MOTE_OK);
  CHECK(next(session) == 0);
}

TEST_CASE("A new seed counts from the next token on", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  const Session changed(model, warm(1)), from_start(model, warm(2));
  feed(changed, {7});
  feed(from_start, {7});
  const Tokens first = generate(changed, 10), second = generate(from_start, 20);
  CHECK(first != Tokens(second.begin(), second.begin() + 10));
  const mote_session_options other = warm(2);
  REQUIRE(mote_set_samplers(changed, &other, nullptr) == MOTE_OK);
  CHECK(generate(changed, 10) == Tokens(second.begin() + 10, second.end()));
}

TEST_CASE("A forbidden token never comes", "[api][sampling]") {
  const Engine engine("cpu");
  const Model model(engine, uniform_llama());
  std::vector<mote_logit_bias> biases;
  for (int32_t token = 0; token < static_cast<int32_t>(kScriptedVocab); ++token)
    if (token % 50 != 0) biases.push_back({token, -INFINITY});
  constexpr mote_sampler kBiased[] = {{MOTE_SAMPLER_LOGIT_BIAS, 0, 0, 0}, {MOTE_SAMPLER_TEMPERATURE, 0, 2.0, 0}};
  mote_session_options options = session_options(128, 8);
  options.samplers = kBiased;
  options.n_samplers = 2;
  options.logit_bias = biases.data();
  options.n_logit_bias = biases.size();
  const Session session(model, options);
  biases.clear();   // copied
  feed(session, {7});
  std::set<int32_t> seen;
  for (const int32_t token : generate(session, 120)) seen.insert(token);
  CHECK(seen == std::set<int32_t>{0, 50, 100, 150, 200, 250, 300});
}

}   // namespace
}   // namespace mote::test
