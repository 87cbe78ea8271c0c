// The scan that finds the few logits that matter, against a full sort of the row; and chains that begin with it, over
// rows long enough for several strips and a shorter last one, against the brute-force sampler.
#include "core/sampler/row_scan.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/sampler_cases.h"
#include "tests/sampler/brute_force.h"

namespace {

using namespace mote;
using mote::test::BruteForce;
using mote::test::generated_logits;
using mote::test::OwnSampler;
using K = SamplerKind;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

struct Row {
  const char* name;
  std::vector<float> logits;
};

std::vector<Row> rows_of(size_t n) {
  const std::vector<float> mixed = generated_logits(3, n, 4.0, 1);
  std::vector<Row> rows = {{"mixed", mixed},
                           {"rising", mixed},
                           {"falling", mixed},
                           {"seven values", mixed},
                           {"all equal", std::vector<float>(n, -2.5f)},
                           {"both zeros", std::vector<float>(n)},
                           {"subnormal", mixed},
                           {"half of them -inf", mixed},
                           {"one is finite", std::vector<float>(n, -kInfinite)},
                           {"the ends of float", mixed},
                           {"the largest are neighbours", mixed}};
  std::sort(rows[1].logits.begin(), rows[1].logits.end());
  std::sort(rows[2].logits.begin(), rows[2].logits.end(), std::greater<>());
  for (float& logit : rows[3].logits) logit = std::floor(logit / 4);
  for (size_t i = 0; i < n; ++i) rows[5].logits[i] = i % 3 == 0 ? -0.0f : 0.0f;
  for (float& logit : rows[6].logits) logit *= 1e-44f;
  for (size_t i = 0; i < n; i += 2) rows[7].logits[i] = -kInfinite;
  rows[8].logits[n / 2] = -7;
  for (size_t i = 0; i < n; ++i)
    rows[9].logits[i] = i % 5 == 0 ? 3.4028235e38f : i % 5 == 1 ? -3.4028235e38f : mixed[i];
  for (size_t i = 0; i < n; ++i) rows[10].logits[i] = std::nextafter(30.0f, i % 4 == 0 ? 31.0f : 29.0f);
  return rows;
}

// Without what is marked or -infinity, the largest first.
std::vector<float> sorted_without(const std::vector<float>& logits, const std::vector<bool>& marked) {
  std::vector<float> sorted;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!marked[i] && logits[i] != -kInfinite) sorted.push_back(logits[i]);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  return sorted;
}

struct OwnScan {
  explicit OwnScan(size_t n) : memory(n / 4 + 64), score(n), token(n) {
    Arena arena(memory.data(), memory.size() * sizeof(Line));
    scan.layout(arena, static_cast<uint32_t>(n));
  }
  struct alignas(kArenaAlignment) Line {
    std::byte bytes[kArenaAlignment];
  };
  std::vector<Line> memory;
  std::vector<double> score;
  std::vector<int32_t> token;
  RowScan scan;
};

TEST_CASE("A scan finds every logit that a full sort has among the k largest, and every marked one",
          "[sampler][scan]") {
  std::mt19937 random(5);
  std::string wrong;
  int checked = 0;
  for (const size_t n : {1u, 15u, 16u, 255u, 256u, 257u, 700u, 4096u, 5000u}) {
    OwnScan own(n);
    for (const Row& row : rows_of(n))
      for (const uint32_t k : {1u, 2u, 7u, 40u, 300u, 5000u, 0x7fffffffu})
        for (const size_t n_marks : {size_t{0}, size_t{3}, n / 2}) {
          std::vector<bool> marked(n, false);
          const auto top =
              static_cast<size_t>(std::max_element(row.logits.begin(), row.logits.end()) - row.logits.begin());
          for (size_t i = 0; i < n_marks; ++i) marked[i == 0 ? top : random() % n] = true;
          for (size_t i = 0; i < n; ++i)
            if (marked[i]) own.scan.mark(static_cast<uint32_t>(i));
          REQUIRE(own.scan.run(row.logits));
          const std::vector<float> sorted = sorted_without(row.logits, marked);
          const float least = own.scan.reached_by(k);
          const float largest = own.scan.largest();
          const uint32_t count = own.scan.gather(row.logits, least, own.score, own.token);
          size_t at = 0;
          bool good = largest == (sorted.empty() ? -kInfinite : sorted[0]);
          for (size_t i = 0; i < n; ++i) {
            const bool wanted = marked[i] ? row.logits[i] != -kInfinite : row.logits[i] >= least;
            if (!wanted) continue;
            good = good && at < count && own.token[at] == static_cast<int32_t>(i) &&
                   own.score[at] == static_cast<double>(row.logits[i]);
            ++at;
          }
          good = good && at == count && (sorted.size() < k ? least == RowScan::kAll : least <= sorted[k - 1]);
          // Of distinct ones not many more: each of the maxima that reach it stands for 64 logits at most.
          if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() && n >= 4096 && k <= 40)
            good = good && count <= 64 * (k + k / 4 + 8) + n_marks;
          // A mark is for one scan.
          good = good && own.scan.run(row.logits) &&
                 own.scan.largest() == *std::max_element(row.logits.begin(), row.logits.end());
          ++checked;
          if (!good && wrong.size() < 400)
            wrong += std::string(row.name) + " n " + std::to_string(n) + " k " + std::to_string(k) + " marks " +
                     std::to_string(n_marks) + "\n";
        }
  }
  CHECK(wrong == "");
  CHECK(checked > 1500);
}

TEST_CASE("A NaN or +infinity is seen wherever it stands, -infinity is neither", "[sampler][scan]") {
  constexpr size_t kCount = 700;
  const std::vector<float> logits = generated_logits(1, kCount, 4.0, 0);
  OwnScan own(kCount);
  int missed = 0;
  for (size_t i = 0; i < kCount; ++i)
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), kInfinite}) {
      std::vector<float> row = logits;
      row[i] = bad;
      for (const bool is_marked : {false, true}) {
        if (is_marked) own.scan.mark(static_cast<uint32_t>(i));
        missed += own.scan.run(row) ? 1 : 0;
      }
      row[i] = -kInfinite;
      missed += own.scan.run(row) ? 0 : 1;
    }
  CHECK(missed == 0);
  OwnSampler sampler({kCount, 0});
  for (const SamplerStage& stage :
       {SamplerStage{K::greedy}, SamplerStage{K::top_k, 3}, SamplerStage{K::top_p, 0, 0.5}}) {
    const SamplerStage chain[] = {{K::no_repeat_ngram, 1}, stage};
    REQUIRE(sampler->set(chain, {}).ok());
    std::vector<float> row = logits;
    row[690] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<int32_t> history = {690, 3, 4};
    const Status status = sampler->apply(row, history, 8);
    CHECK(std::string(status.message()) == "the logit of token 690 at position 8 is nan");
    REQUIRE(sampler->apply(logits, {}, 9).ok());   // and the sampler is none the worse for it
  }
}

TEST_CASE("Chains that begin with a scan do what the brute-force sampler does", "[sampler][scan][brute]") {
  constexpr size_t kCount = 700;   // strips of 256, 256 and 188
  const std::vector<Row> rows = rows_of(kCount);
  const std::vector<TokenBias> biases = {{0, 30.0f}, {255, -kInfinite}, {256, 2.5f}, {350, -kInfinite}, {699, -1.0f}};
  const std::vector<std::vector<SamplerStage>> before = {
      {},
      {{K::temperature, 0, 0.7}},
      {{K::logit_bias}, {K::temperature, 0, 1.3}, {K::temperature, 0, 1e-3}},
      {{K::repetition_penalty, 0, 1.5}, {K::frequency_presence, 2, 0.5, 40}},
      {{K::no_repeat_ngram, 1}, {K::top_k, 0}, {K::top_p, 0, 1}, {K::min_p}, {K::temperature, 0, 2}}};
  const std::vector<SamplerStage> cuts = {{K::greedy},         {K::top_k, 1},    {K::top_k, 5},
                                          {K::top_k, 12},      {K::top_k, 600},  {K::top_k, 700},
                                          {K::min_p, 0, 0.05}, {K::min_p, 0, 1}, {K::min_p, 0, 1e-300}};
  OwnSampler sampler({kCount, 5});
  std::string wrong;
  int checked = 0;
  for (const Row& row : rows) {
    const auto top = static_cast<int32_t>(std::max_element(row.logits.begin(), row.logits.end()) - row.logits.begin());
    const std::vector<int32_t> history = {top, 600, -3, 701, top, 1, 1};
    for (const auto& stages : before)
      for (const SamplerStage& cut : cuts) {
        std::vector<SamplerStage> chain = stages;
        chain.push_back(cut);
        chain.push_back({K::top_p, 0, 0.95});
        REQUIRE(sampler->set(chain, biases).ok());
        REQUIRE(sampler->apply(row.logits, history, 0).ok());
        BruteForce brute(row.logits, history, chain, biases);
        if (brute.doubtful()) continue;
        std::vector<Candidate> found(kCount);
        found.resize(sampler->candidates(found));
        bool good = found.size() == brute.sorted().size();
        for (size_t i = 0; i < found.size() && good; ++i)
          good = found[i].token == brute.sorted()[i].token &&
                 std::fabs(found[i].probability - brute.sorted()[i].probability) <= 1e-12;
        ++checked;
        if (!good && wrong.size() < 600)
          wrong += std::string(row.name) + ", " + std::to_string(stages.size()) + " stages, cut " +
                   std::to_string(static_cast<int>(cut.kind)) + " " + std::to_string(cut.count) + "\n";
      }
  }
  CHECK(wrong == "");
  CHECK(checked > 200);
}

TEST_CASE("Where a temperature makes distinct logits equal, all of them are looked at", "[sampler][scan]") {
  constexpr size_t kCount = 700;
  std::vector<float> logits(kCount);
  for (size_t i = 0; i < kCount; ++i) logits[i] = 1e-20f + 1e-26f * static_cast<float>(i);
  OwnSampler sampler({kCount, 0});
  const auto kept = [&](std::vector<SamplerStage> chain, const std::vector<int32_t>& history) {
    REQUIRE(sampler->set(chain, {}).ok());
    REQUIRE(sampler->apply(logits, history, 0).ok());
    return sampler->candidate_count();
  };
  CHECK(kept({{K::temperature, 0, 2}, {K::top_k, 2}}, {}) == 2);
  // Quotients below what double holds are all 0.
  CHECK(kept({{K::temperature, 0, 1e308}, {K::top_k, 2}}, {}) == kCount);
  CHECK(kept({{K::temperature, 0, 1e154}, {K::temperature, 0, 1e154}, {K::top_k, 2}}, {}) == kCount);
  // A reward of 10^300 for one token: as distances from it, all others are the same.
  CHECK(kept({{K::frequency_presence, 0, -1e300}, {K::temperature, 0, 0.5}, {K::top_k, 2}}, {350}) == kCount);
  CHECK(kept({{K::frequency_presence, 0, -1e300}, {K::temperature, 0, 0.5}, {K::min_p, 0, 0.5}}, {350}) == 1);
}

}   // namespace
