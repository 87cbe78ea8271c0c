// Odd values of every stage over a seven-token vocabulary, against the brute-force sampler: every ordered pair of
// stages, and random longer chains.
#include <catch2/catch_test_macros.hpp>
#include <climits>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/golden/sampler_cases.h"
#include "tests/sampler/brute_force.h"

namespace {

using namespace mote;
using mote::test::BruteForce;
using mote::test::OwnSampler;

constexpr uint32_t kTokens = 7, kBiases = 9;
constexpr float kNever = -std::numeric_limits<float>::infinity();

const std::vector<std::vector<float>> kLogits = {
    {0.1f, 2.5f, -1.25f, 0.75f, 2.4f, -3.0f, 1.9f},
    {0, 0, 0, 0, 0, 0, 0},
    {2.5f, -4, 2.5f, -4, 2.5f, -4, -4},
    {kNever, 1, kNever, 0.5f, 1, kNever, -2},
    {kNever, kNever, kNever, -7, kNever, kNever, kNever},
    {-30, -30, 40, -30, -30, -30, -30},
    {3.4e38f, -3.4e38f, 3.4e38f, 0, 1e38f, -1e38f, 1},
    {-3.4e38f, -3.4e38f, 1, 1.5f, -3.4e38f, 0.25f, 2},
    {1e-45f, 0, -0.0f, -1e-45f, 2e-45f, 0, 1e-44f},
    {-0.5f, -1.5f, -2.5f, -0.5f, -3.5f, -0.75f, -9},
};
const std::vector<std::vector<int32_t>> kHistories = {
    {}, {1}, {3, 3, 1, 0, 3, 1}, {6, 5, 4, 3, 2, 1, 0, 6, 5}, {2, 2, 2, 2}};
const std::vector<TokenBias> kBiasList = {{1, 0.5f}, {4, -2.25f}, {6, kNever}, {0, 100.0f}, {1, 0.25f}};

std::vector<SamplerStage> odd_stages() {
  using K = SamplerKind;
  std::vector<SamplerStage> s = {{K::greedy}, {K::logit_bias}};
  for (const double v : {0.0, 1e-310, 1e-30, 0.1, 0.7, 1.0, 1.5, 1e30, 1e308}) s.push_back({K::temperature, 0, v});
  for (const int32_t k : {INT_MIN, -1, 0, 1, 2, 3, 6, 7, 8, INT_MAX}) s.push_back({K::top_k, k});
  for (const double v : {0.0, 0.05, 0.5, 0.9, 0.999, 1.0}) s.push_back({K::top_p, 0, v});
  for (const double v : {0.0, 0.05, 0.3, 1.0}) s.push_back({K::min_p, 0, v});
  for (const double v : {1e-300, 0.2, 0.9, 1.0}) s.push_back({K::typical_p, 0, v});
  for (const double v : {0.0, 0.05, 0.3, 0.999}) s.push_back({K::epsilon, 0, v});
  for (const double v : {0.0, 0.02, 0.3, 0.999}) s.push_back({K::eta, 0, v});
  for (const int32_t n : {0, 1, 2, 3, 64}) s.push_back({K::no_repeat_ngram, n});
  for (const double v : {0.8, 1.0, 1.3, 1e300, 1e-300})
    for (const int32_t window : {0, 1, 3, INT_MAX}) s.push_back({K::repetition_penalty, window, v});
  s.push_back({K::frequency_presence, 0, 0.5, 0});
  s.push_back({K::frequency_presence, 2, 0, 0.7});
  s.push_back({K::frequency_presence, 0, -0.3, 0.4});
  s.push_back({K::frequency_presence, 0, 1e300, -1e300});
  return s;
}

std::string shown(std::span<const SamplerStage> chain, size_t logits, size_t history) {
  std::ostringstream out;
  for (const SamplerStage& s : chain)
    out << "(" << static_cast<int>(s.kind) << " " << s.count << " " << s.value << " " << s.value2 << ") ";
  out << "logits " << logits << " history " << history;
  return out.str();
}

struct Tally {
  long compared = 0, doubtful = 0;
  std::string wrong;   // the first few
};

// Empty if sampler and brute force agree.
std::string disagreement(Sampler& sampler, BruteForce& brute, uint64_t position) {
  std::vector<Candidate> found(kTokens + 3);
  found.resize(sampler.candidates(found));
  const std::vector<Candidate>& expected = brute.sorted();
  if (found.size() != expected.size() || sampler.candidate_count() != expected.size())
    return "kept " + std::to_string(found.size()) + ", expected " + std::to_string(expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].token != expected[i].token) return "order";
    if (!(std::fabs(found[i].probability - expected[i].probability) <= 1e-12)) return "probability";
  }
  const int32_t expected_token = brute.draw(philox_uniform(99, position));
  if (!brute.doubtful() && sampler.draw(99, position) != expected_token) return "draw";
  return "";
}

// Huge penalties push scores to the end of double, where the sampler keeps them at 1e300: no comparison there.
bool leaves_double(std::span<const SamplerStage> chain, const std::vector<float>& logits) {
  double largest = 0;
  for (const float l : logits)
    if (std::isfinite(l)) largest = std::max(largest, std::fabs(static_cast<double>(l)));
  largest = std::max(largest, 100.0);
  int exponent = static_cast<int>(std::log10(largest)) + 1, small = 45;
  for (const SamplerStage& s : chain) {
    const double v = std::max(std::fabs(s.value), 1e-320);
    const int change = static_cast<int>(std::fabs(std::log10(v))) + 1;
    if (s.kind == SamplerKind::temperature && s.value != 0) exponent += v < 1 ? change : 0, small += v > 1 ? change : 0;
    if (s.kind == SamplerKind::repetition_penalty) exponent += change, small += change;
    if (s.kind == SamplerKind::frequency_presence) exponent = std::max(exponent, change + 1);
  }
  return exponent > 299 || small > 299;
}

void compare(Sampler& sampler, std::span<const SamplerStage> chain, size_t logits, size_t history, Tally& tally) {
  const Status status = sampler.apply(kLogits[logits], kHistories[history], 0);
  std::string wrong;
  if (!status.ok()) {
    wrong = std::string(status.message());
  } else if (leaves_double(chain, kLogits[logits])) {
    std::vector<Candidate> all(kTokens);
    double sum = 0;
    all.resize(sampler.candidates(all));
    for (const Candidate& c : all) sum += c.probability;
    if (all.empty() || !(std::fabs(sum - 1) < 1e-12)) wrong = "probabilities do not sum to 1";
  } else {
    BruteForce brute(kLogits[logits], kHistories[history], chain, kBiasList);
    if (brute.doubtful()) {
      ++tally.doubtful;
      return;
    }
    wrong = disagreement(sampler, brute, static_cast<uint64_t>(tally.compared));
  }
  ++tally.compared;
  if (!wrong.empty() && tally.wrong.size() < 600) tally.wrong += wrong + ": " + shown(chain, logits, history) + "\n";
}

TEST_CASE("every ordered pair of stages with odd values does what the brute-force sampler does", "[sampler][brute]") {
  OwnSampler sampler({kTokens, kBiases});
  const std::vector<SamplerStage> stages = odd_stages();
  Tally tally;
  for (const SamplerStage& a : stages)
    for (const SamplerStage& b : stages) {
      const SamplerStage chain[] = {a, b};
      REQUIRE(sampler->set(chain, kBiasList).ok());
      for (size_t logits = 0; logits < kLogits.size(); ++logits)
        compare(*sampler, chain, logits, (logits + static_cast<size_t>(tally.compared)) % kHistories.size(), tally);
    }
  CHECK(tally.wrong == "");
  CHECK(tally.compared > 30000);
  CHECK(tally.doubtful < tally.compared / 20);
}

TEST_CASE("random chains of odd values do what the brute-force sampler does", "[sampler][brute]") {
  OwnSampler sampler({kTokens, kBiases});
  const std::vector<SamplerStage> stages = odd_stages();
  std::mt19937 random(17);
  Tally tally;
  for (int i = 0; i < 30000; ++i) {
    std::vector<SamplerStage> chain(random() % (kMaxSamplerStages + 1));
    for (SamplerStage& stage : chain) stage = stages[random() % stages.size()];
    REQUIRE(sampler->set(chain, kBiasList).ok());
    compare(*sampler, chain, random() % kLogits.size(), random() % kHistories.size(), tally);
  }
  CHECK(tally.wrong == "");
  CHECK(tally.compared > 20000);
}

TEST_CASE("with a greedy stage or temperature 0 anywhere the largest logit wins, lowest id among equals", "[sampler]") {
  OwnSampler sampler({kTokens, kBiases});
  long wrong = 0;
  for (const SamplerStage& other : odd_stages()) {
    if (other.kind >= SamplerKind::no_repeat_ngram && other.kind <= SamplerKind::logit_bias) continue;
    for (const SamplerStage& decides :
         {SamplerStage{SamplerKind::greedy}, SamplerStage{SamplerKind::temperature, 0, 0.0}})
      for (const bool first : {false, true}) {
        const SamplerStage chain[] = {first ? decides : other, first ? other : decides};
        REQUIRE(sampler->set(chain, {}).ok());
        for (const auto& logits : kLogits) {
          int32_t best = 0;
          for (int32_t i = 1; i < static_cast<int32_t>(kTokens); ++i)
            if (logits[static_cast<size_t>(i)] > logits[static_cast<size_t>(best)]) best = i;
          for (uint64_t position = 0; position < 5; ++position)
            wrong += sampler->sample(logits, {}, 7, position).value() != best;
        }
      }
  }
  CHECK(wrong == 0);
}

}   // namespace
