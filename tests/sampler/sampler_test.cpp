// The sampler's promises one by one: checks, penalties, windows, bad logits, memory, draws.
#include "core/sampler/sampler.h"

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/sampler/philox.h"
#include "tests/golden/sampler_cases.h"

namespace {

using namespace mote;
using mote::test::generated_logits;
using mote::test::OwnSampler;
using K = SamplerKind;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kSeven = {0.5f, -1.5f, 2.0f, -0.25f, 1.0f, 0.0f, 3.0f};

std::vector<Candidate> run(std::vector<SamplerStage> chain, const std::vector<float>& logits,
                           const std::vector<int32_t>& history = {}, const std::vector<TokenBias>& biases = {}) {
  OwnSampler sampler({static_cast<uint32_t>(logits.size()), static_cast<uint32_t>(biases.size())});
  REQUIRE(sampler->set(chain, biases).ok());
  REQUIRE(sampler->apply(logits, history, 0).ok());
  std::vector<Candidate> all(sampler->candidate_count());
  REQUIRE(sampler->candidates(all) == all.size());
  return all;
}
bool same_bits(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Candidate& x, const Candidate& y) {
           return x.token == y.token &&
                  std::bit_cast<uint64_t>(x.probability) == std::bit_cast<uint64_t>(y.probability);
         });
}
double probability_of(const std::vector<Candidate>& candidates, int32_t token) {
  for (const Candidate& c : candidates)
    if (c.token == token) return c.probability;
  return 0;
}

TEST_CASE("parameters out of range are refused with the stage, the value and the range", "[sampler][check]") {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    SamplerStage stage;
    const char* says;
  };
  const std::vector<Case> bad = {
      {{K::temperature, 0, -0.1}, "sampler stage 1: temperature is -0.1, allowed is 0 or more"},
      {{K::temperature, 0, nan}, "sampler stage 1: temperature is nan, allowed is 0 or more"},
      {{K::temperature, 0, inf}, "sampler stage 1: temperature is inf, allowed is 0 or more"},
      {{K::top_p, 0, 1.01}, "sampler stage 1: top_p is 1.01, allowed is 0 to 1"},
      {{K::top_p, 0, -0.01}, "sampler stage 1: top_p is -0.01, allowed is 0 to 1"},
      {{K::top_p, 0, nan}, "sampler stage 1: top_p is nan, allowed is 0 to 1"},
      {{K::min_p, 0, 2}, "sampler stage 1: min_p is 2, allowed is 0 to 1"},
      {{K::min_p, 0, -0.1}, "sampler stage 1: min_p is -0.1, allowed is 0 to 1"},
      {{K::typical_p, 0, 1.5}, "sampler stage 1: typical_p is 1.5, allowed is above 0, up to 1"},
      {{K::epsilon, 0, -1}, "sampler stage 1: epsilon is -1, allowed is 0 to below 1"},
      {{K::eta, 0, 1}, "sampler stage 1: eta is 1, allowed is 0 to below 1"},
      {{K::typical_p, 0, 0}, "sampler stage 1: typical_p is 0, allowed is above 0, up to 1"},
      {{K::epsilon, 0, 1}, "sampler stage 1: epsilon is 1, allowed is 0 to below 1"},
      {{K::eta, 0, -1}, "sampler stage 1: eta is -1, allowed is 0 to below 1"},
      {{K::no_repeat_ngram, 65}, "sampler stage 1: no_repeat_ngram is 65, allowed is 0 to 64"},
      {{K::no_repeat_ngram, -1}, "sampler stage 1: no_repeat_ngram is -1, allowed is 0 to 64"},
      {{K::repetition_penalty, 0, 0}, "sampler stage 1: repetition_penalty is 0, allowed is above 0"},
      {{K::repetition_penalty, -1, 1.1}, "sampler stage 1: the window is -1 tokens, allowed is 0 (all) or more"},
      {{K::frequency_presence, 0, nan, 0}, "sampler stage 1: frequency is nan, allowed is a finite number"},
      {{K::frequency_presence, 0, 0, inf}, "sampler stage 1: presence is inf, allowed is a finite number"},
      {{static_cast<K>(0)}, "sampler stage 1 is of kind 0, known are 1 to 12"},
      {{static_cast<K>(13)}, "sampler stage 1 is of kind 13, known are 1 to 12"},
  };
  OwnSampler sampler({7, 2});
  for (const Case& c : bad) {
    const SamplerStage chain[] = {{K::top_k, 3}, c.stage};
    const Status status = sampler->set(chain, {});
    CHECK(status.code() == Code::invalid_argument);
    CHECK(std::string(status.message()) == c.says);
  }
  CHECK(sampler->set(std::vector<SamplerStage>(16, {K::top_k, 3}), {}).ok());
  CHECK(std::string(sampler->set(std::vector<SamplerStage>(17, {K::top_k, 3}), {}).message()) ==
        "the sampler chain has 17 stages, at most 16 are allowed");
}

TEST_CASE("biases on tokens that are not there, NaN and too many are refused", "[sampler][check]") {
  OwnSampler sampler({7, 2});
  const auto says = [&](const std::vector<TokenBias>& biases) {
    return std::string(sampler->set({}, biases).message());
  };
  CHECK(says({{7, 1}}) == "logit bias 0 is on token 7, the vocabulary has tokens 0 to 6");
  CHECK(says({{0, 1}, {-1, 1}}) == "logit bias 1 is on token -1, the vocabulary has tokens 0 to 6");
  CHECK(says({{3, kNaN}}) == "logit bias 0 on token 3 is nan, it must be finite or -inf");
  CHECK(says({{3, kInf}}) == "logit bias 0 on token 3 is inf, it must be finite or -inf");
  CHECK(says({{1, 1}, {2, 1}, {3, 1}}) == "3 logit biases were given, the session was opened for 2");
  CHECK(says({{6, -kInf}, {0, 3.4e38f}}) == "");
}

TEST_CASE("a refused chain leaves the old one in place", "[sampler][check]") {
  OwnSampler sampler({7, 1});
  REQUIRE(sampler->set(std::vector<SamplerStage>{{K::top_k, 2}}, std::vector<TokenBias>{{0, 1}}).ok());
  REQUIRE_FALSE(sampler->set(std::vector<SamplerStage>{{K::top_k, 3}, {K::top_p, 0, 7}}, {}).ok());
  REQUIRE(sampler->apply(kSeven, {}, 0).ok());
  CHECK(sampler->candidate_count() == 2);
}

TEST_CASE("bad logits are a status that names the first bad one and the position", "[sampler][check]") {
  OwnSampler sampler({7, 0});
  const auto says = [&](std::vector<float> logits) {
    const Result<int32_t> result = sampler->sample(logits, {}, 1, 42);
    CHECK(result.status().code() == Code::not_finite);
    CHECK(sampler->candidate_count() == 0);
    CHECK(sampler->draw(1, 42) == -1);
    return std::string(result.status().message());
  };
  CHECK(says({0, 1, kNaN, 2, kInf, 3, 4}) == "the logit of token 2 at position 42 is nan");
  CHECK(says({0, -kInf, 1, 2, kInf, kNaN, 4}) == "the logit of token 4 at position 42 is inf");
  CHECK(says(std::vector<float>(7, -kInf)) == "all 7 logits at position 42 are -inf, the first is that of token 0");
  CHECK(sampler->apply(std::vector<float>(6, 0.0f), {}, 0).code() == Code::invalid_argument);
  CHECK(sampler->apply(kSeven, {}, 0).ok());   // and the sampler is none the worse for it
}

TEST_CASE("a repetition penalty counts each distinct token once, whatever its sign", "[sampler][penalty]") {
  for (const int times : {1, 80}) {
    const std::vector<int32_t> history(static_cast<size_t>(times), 6), negative(static_cast<size_t>(times), 1);
    std::vector<float> expected = kSeven;
    expected[6] = 3.0f / 1.5f;
    CHECK(same_bits(run({{K::repetition_penalty, 0, 1.5}}, kSeven, history), run({}, expected)));
    expected = kSeven;
    expected[1] = -1.5f * 1.5f;
    CHECK(same_bits(run({{K::repetition_penalty, 0, 1.5}}, kSeven, negative), run({}, expected)));
  }
}

TEST_CASE("a penalty of 1 and penalties of 0 change no bit", "[sampler][penalty]") {
  const std::vector<int32_t> history = {0, 1, 2, 3, 4, 5, 6, 6, 6};
  CHECK(same_bits(run({{K::repetition_penalty, 0, 1.0}}, kSeven, history), run({}, kSeven)));
  CHECK(same_bits(run({{K::frequency_presence, 0, 0, 0}}, kSeven, history), run({}, kSeven)));
}

TEST_CASE("frequency counts every occurrence, presence once", "[sampler][penalty]") {
  std::vector<float> expected = kSeven;
  expected[6] = 3.0f - 3 * 0.5f - 0.25f;
  expected[2] = 2.0f - 1 * 0.5f - 0.25f;
  CHECK(same_bits(run({{K::frequency_presence, 0, 0.5, 0.25}}, kSeven, {6, 2, 6, 6}), run({}, expected)));
}

TEST_CASE("a window is the end of the history", "[sampler][penalty]") {
  const std::vector<int32_t> history = {6, 6, 2, 4, 4};
  const auto with_window = [&](int32_t window) { return run({{K::repetition_penalty, window, 2.0}}, kSeven, history); };
  const auto last = [&](std::vector<int32_t> tokens) { return run({{K::repetition_penalty, 0, 2.0}}, kSeven, tokens); };
  CHECK(same_bits(with_window(1), last({4})));
  CHECK(same_bits(with_window(3), last({2, 4})));
  CHECK(same_bits(with_window(4), last({6, 2, 4})));
  CHECK(same_bits(with_window(0), last({6, 2, 4})));
  CHECK(same_bits(with_window(1000), last({6, 2, 4})));
  CHECK_FALSE(same_bits(with_window(2), with_window(3)));
}

TEST_CASE("penalties leave nothing behind for the next token", "[sampler][penalty]") {
  OwnSampler sampler({7, 1});
  const std::vector<SamplerStage> chain = {
      {K::no_repeat_ngram, 1}, {K::frequency_presence, 0, 0.5, 0.25}, {K::logit_bias}};
  REQUIRE(sampler->set(chain, std::vector<TokenBias>{{3, -kInf}}).ok());
  REQUIRE(sampler->apply(kSeven, std::vector<int32_t>{6, 2, 3, 6}, 0).ok());
  REQUIRE(sampler->apply(kSeven, {}, 0).ok());
  std::vector<Candidate> all(7);
  all.resize(sampler->candidates(all));
  CHECK(same_bits(all, run({{K::logit_bias}}, kSeven, {}, {{3, -kInf}})));
  CHECK(all.size() == 6);
}

TEST_CASE("tokens of the history outside the vocabulary are passed over", "[sampler][penalty]") {
  const std::vector<int32_t> odd = {-1, 7, INT32_MIN, INT32_MAX, 6}, plain = {6};
  for (const SamplerStage& stage : {SamplerStage{K::repetition_penalty, 0, 2},
                                    SamplerStage{K::frequency_presence, 0, 1, 1}, SamplerStage{K::no_repeat_ngram, 1}})
    for (const SamplerStage& cut : {SamplerStage{K::greedy}, SamplerStage{K::top_k, 3}, SamplerStage{K::top_k}})
      CHECK(same_bits(run({stage, cut}, kSeven, odd), run({stage, cut}, kSeven, plain)));
}

TEST_CASE("n-grams of the history do not come again", "[sampler][penalty]") {
  const std::vector<int32_t> history = {1, 2, 3, 1, 2, 4, 1, 2};
  const auto banned = [&](int32_t n) {
    const std::vector<Candidate> left = run({{K::no_repeat_ngram, n}}, kSeven, history);
    std::vector<int32_t> missing;
    for (int32_t token = 0; token < 7; ++token)
      if (probability_of(left, token) == 0) missing.push_back(token);
    return missing;
  };
  CHECK(banned(1) == std::vector<int32_t>{1, 2, 3, 4});
  CHECK(banned(2) == std::vector<int32_t>{3, 4});
  CHECK(banned(3) == std::vector<int32_t>{3, 4});
  CHECK(banned(4) == std::vector<int32_t>{});
  CHECK(banned(64) == std::vector<int32_t>{});
}

TEST_CASE("a stage that would remove every candidate leaves the largest", "[sampler]") {
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6};
  CHECK(run({{K::no_repeat_ngram, 1}}, kSeven, all).size() == 1);
  CHECK(run({{K::no_repeat_ngram, 1}}, kSeven, all)[0].token == 6);
  std::vector<TokenBias> bans;
  for (const int32_t token : all) bans.push_back({token, -kInf});
  CHECK(run({{K::logit_bias}}, kSeven, {}, bans)[0].token == 6);
  CHECK(run({{K::epsilon, 0, 0.999}}, kSeven)[0].token == 6);
}

TEST_CASE("among equals at the border of top_p the lowest ids stay", "[sampler]") {
  const std::vector<Candidate> left = run({{K::top_p, 0, 0.5}}, std::vector<float>(8, 1.0f));
  REQUIRE(left.size() == 4);
  for (int32_t i = 0; i < 4; ++i) CHECK(left[static_cast<size_t>(i)].token == i);
}

TEST_CASE("biases add up, and a ban is for ever", "[sampler]") {
  std::vector<float> expected = kSeven;
  expected[1] = 1.0f;
  expected[5] = -kInf;
  CHECK(same_bits(run({{K::logit_bias}}, kSeven, {}, {{1, 2.0f}, {5, -kInf}, {1, 0.5f}, {5, 100.0f}}),
                  run({}, expected)));
}

TEST_CASE("fewer candidates can be asked for than there are", "[sampler]") {
  const std::vector<float> logits = generated_logits(9, 5000, 4.0, 0);
  OwnSampler sampler({5000, 0});
  REQUIRE(sampler->set({}, {}).ok());
  REQUIRE(sampler->apply(logits, {}, 0).ok());
  std::vector<Candidate> all(6000), few(20), one(1);
  CHECK(sampler->candidates(all) == 5000);
  CHECK(sampler->candidates(few) == 20);
  CHECK(sampler->candidates(one) == 1);
  CHECK(sampler->candidates({}) == 0);
  all.resize(20);
  CHECK(same_bits(all, few));
  all.resize(1);
  CHECK(same_bits(all, one));
}

TEST_CASE("of equal candidates as many are told as there is room behind the better ones", "[sampler]") {
  OwnSampler sampler({7, 0});
  REQUIRE(sampler->apply(std::vector<float>{1, 1, 1, 1, 1, 1, 3}, {}, 0).ok());
  Candidate two[2];
  REQUIRE(sampler->candidates(two) == 2);
  CHECK(two[0].token == 6);
  CHECK(two[1].token == 0);
}

TEST_CASE("a temperature too small for double leaves the largest score alone", "[sampler]") {
  OwnSampler sampler({7, 0});
  REQUIRE(sampler->set(std::vector<SamplerStage>{{K::temperature, 0, 1e-310}}, {}).ok());
  REQUIRE(sampler->apply(std::vector<float>{1, 2, 3, 1, 2, 2.5f, 0}, {}, 0).ok());
  Candidate one[1];
  REQUIRE(sampler->candidates(one) == 1);
  CHECK(one[0].token == 2);
  CHECK(one[0].probability == 1.0);
}

TEST_CASE("a draw depends on logits, history, seed and position alone, and follows the probabilities",
          "[sampler][random]") {
  OwnSampler a({7, 0}), b({7, 0});
  const SamplerStage chain[] = {{K::temperature, 0, 0.9}, {K::top_p, 0, 0.95}};
  REQUIRE(a->set(chain, {}).ok());
  REQUIRE(b->set(chain, {}).ok());
  const std::vector<Candidate> expected = run({chain[0], chain[1]}, kSeven);
  constexpr int kDraws = 40000;
  std::vector<double> seen(7);
  int different = 0;
  for (int i = kDraws - 1; i >= 0; --i) {   // backwards: no state is carried along
    const auto position = static_cast<uint64_t>(i);
    const int32_t token = a->sample(kSeven, {}, 11, position).value();
    ++seen[static_cast<size_t>(token)];
    if (i % 100 == 0) different += b->sample(kSeven, {}, 11, position).value() != token;
  }
  CHECK(different == 0);
  double chi_square = 0;
  for (const Candidate& c : expected) {
    const double mean = c.probability * kDraws, difference = seen[static_cast<size_t>(c.token)] - mean;
    chi_square += difference * difference / mean;
    seen[static_cast<size_t>(c.token)] = 0;
  }
  CHECK(std::accumulate(seen.begin(), seen.end(), 0.0) == 0);   // nothing outside the set was drawn
  CHECK(chi_square < 30);                                       // 5 degrees of freedom: 1 in 70,000
}

TEST_CASE("a token whose probability has rounded to 0 is never drawn", "[sampler][random]") {
  std::vector<float> logits(1000, -2000.0f);
  logits[500] = 1.0f;
  OwnSampler sampler({1000, 0});
  REQUIRE(sampler->set({}, {}).ok());
  REQUIRE(sampler->apply(logits, {}, 0).ok());
  int wrong = 0;
  for (uint64_t position = 0; position < 10000; ++position) wrong += sampler->draw(3, position) != 500;
  CHECK(wrong == 0);
}

TEST_CASE("a large vocabulary gives what sorting it would give", "[sampler]") {
  constexpr uint32_t kCount = 50000;
  std::vector<float> logits = generated_logits(77, kCount, 5.0, 1);
  for (size_t i = 0; i < kCount; i += 3) logits[i] = std::round(logits[i] * 8) / 8;   // many ties
  std::vector<int32_t> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  std::vector<double> weights;
  for (const int32_t token : order)
    weights.push_back(std::exp(static_cast<double>(logit(token)) - static_cast<double>(logit(order[0]))));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);

  const std::vector<Candidate> all = run({}, logits);
  REQUIRE(all.size() == kCount);
  int wrong = 0;
  for (size_t i = 0; i < kCount; ++i)
    wrong += all[i].token != order[i] || !(std::fabs(all[i].probability * total / weights[i] - 1) < 1e-9);
  CHECK(wrong == 0);
  CHECK(run({{K::top_k, 1000}}, logits).size() ==
        static_cast<size_t>(
            std::count_if(order.begin(), order.end(), [&](int32_t t) { return logit(t) >= logit(order[999]); })));
  double sum = 0;
  size_t kept = 0;
  while (sum < 0.9 * total) sum += weights[kept++];
  CHECK(run({{K::top_p, 0, 0.9}}, logits).size() == kept);

  OwnSampler sampler({kCount, 0});
  REQUIRE(sampler->set({}, {}).ok());
  REQUIRE(sampler->apply(logits, {}, 0).ok());
  for (uint64_t position = 0; position < 200; ++position) {
    size_t at = 0;
    for (double mass = weights[0]; mass <= philox_uniform(5, position) * total && at + 1 < kCount;)
      mass += weights[++at];
    wrong += sampler->draw(5, position) != order[at];
  }
  CHECK(wrong == 0);
}

TEST_CASE("memory is what the layout measures, and one byte less is a status", "[sampler][memory]") {
  const SamplerShape shape{1000, 10};
  Arena measure;
  Sampler().layout(measure, shape);
  CHECK(measure.used_bytes() == 8000 + 4032 + 4032 + 128 + 64 + 128);
  struct alignas(kArenaAlignment) Line {
    std::byte bytes[kArenaAlignment];
  };
  std::vector<Line> memory(measure.used_bytes() / sizeof(Line), Line{});
  std::fill_n(memory[0].bytes, measure.used_bytes(), std::byte{0xff});   // what the memory held does not matter
  Arena arena(memory.data(), measure.used_bytes());
  Sampler sampler;
  sampler.layout(arena, shape);
  CHECK(arena.status("the sampler").ok());
  const std::vector<float> logits = generated_logits(1, 1000, 3, 0);
  REQUIRE(sampler.set(std::vector<SamplerStage>{{K::repetition_penalty, 0, 2}, {K::top_k, 5}}, {}).ok());
  CHECK(sampler.apply(logits, std::vector<int32_t>{1, 2, 3}, 0).ok());
  CHECK(sampler.candidate_count() == 5);

  for (const uint64_t bytes : {measure.used_bytes() - 1, uint64_t{12096}, uint64_t{8000}, uint64_t{0}}) {
    Arena small(memory.data(), bytes);
    Sampler broken;
    broken.layout(small, shape);
    CHECK(small.status("the sampler").code() == Code::out_of_memory);
    if (bytes < 16000) CHECK(broken.apply(logits, {}, 0).code() == Code::invalid_argument);   // not a crash
  }
}

}   // namespace
