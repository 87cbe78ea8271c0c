// What choosing one token out of a large vocabulary costs: microseconds of processor time for the usual chains over
// rows of several shapes, the best of several rounds that take turns. A benchmark: it measures and does not judge, but
// what a chain keeps of a row is compared with a full sort of it.
//
//   bench_sampling [-v TOKENS] [-r ROUNDS]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/golden/sampler_cases.h"

namespace mote::test {
namespace {

using K = SamplerKind;

struct Row {
  const char* name;
  std::vector<float> logits;
};

std::vector<Row> make_rows(uint32_t n_vocab) {
  const std::vector<float> generated = generated_logits(5, n_vocab, 5.0, 1);
  std::vector<Row> rows = {{"as models have them", generated}, {"falling", generated}, {"seven values", generated}};
  std::sort(rows[1].logits.begin(), rows[1].logits.end(), std::greater<>());
  for (float& logit : rows[2].logits) logit = std::floor(logit / 5);
  rows.push_back({"all equal", std::vector<float>(n_vocab, 1.0f)});
  rows.push_back({"half of them -inf", generated});
  for (size_t i = 0; i < n_vocab; i += 2) rows.back().logits[i] = -std::numeric_limits<float>::infinity();
  return rows;
}

struct Chain {
  const char* name;
  std::vector<SamplerStage> stages;
};

const Chain kChains[] = {
    {"greedy", {{K::greedy}}},
    {"top-k 40, top-p 0.95", {{K::top_k, 40}, {K::top_p, 0, 0.95}, {K::temperature, 0, 0.8}}},
    {"the same behind a temperature", {{K::temperature, 0, 0.8}, {K::top_k, 40}, {K::top_p, 0, 0.95}}},
    {"the same behind penalties and 50 biases",
     {{K::logit_bias},
      {K::repetition_penalty, 64, 1.1},
      {K::frequency_presence, 64, 0.1, 0.2},
      {K::top_k, 40},
      {K::top_p, 0, 0.95},
      {K::temperature, 0, 0.8}}},
    {"the same behind penalties over 4096 tokens",
     {{K::repetition_penalty, 0, 1.1}, {K::top_k, 40}, {K::top_p, 0, 0.95}, {K::temperature, 0, 0.8}}},
    {"min-p 0.05", {{K::min_p, 0, 0.05}, {K::temperature, 0, 0.8}}},
    {"top-p 0.95", {{K::top_p, 0, 0.95}, {K::temperature, 0, 0.8}}},
    {"typical-p 0.9", {{K::typical_p, 0, 0.9}, {K::temperature, 0, 0.8}}},
    {"temperature alone", {{K::temperature, 0, 0.8}}},
};

double seconds_of_this_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// What top_k keeps, by a full sort.
bool keeps_what_a_sort_keeps(Sampler& sampler, const std::vector<float>& logits, int32_t k) {
  const SamplerStage stage[] = {{K::top_k, k}};
  if (!sampler.set(stage, {}).ok() || !sampler.apply(logits, {}, 0).ok()) return false;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  size_t count = static_cast<size_t>(k);
  while (count < order.size() && logit(order[count]) == logit(order[count - 1])) ++count;
  std::vector<Candidate> kept(sampler.candidate_count());
  if (kept.size() != count || sampler.candidates(kept) != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (kept[i].token != order[i]) return false;
  return true;
}

int run(int count, char** words) {
  uint32_t n_vocab = 262144, rounds = 50;
  for (int i = 1; i + 1 < count; i += 2) {
    const auto value = static_cast<uint32_t>(std::stoul(words[i + 1]));
    (std::strcmp(words[i], "-v") == 0 ? n_vocab : rounds) = value;
  }
  const std::vector<Row> rows = make_rows(n_vocab);
  std::vector<int32_t> history;
  for (uint32_t i = 0; i < 4096; ++i) history.push_back(static_cast<int32_t>(i * i * 2654435761u % n_vocab));
  std::vector<TokenBias> biases;
  for (int32_t i = 0; i < 50; ++i) biases.push_back({i, i % 2 == 0 ? 1.5f : -std::numeric_limits<float>::infinity()});
  OwnSampler sampler({n_vocab, 50});
  std::vector<std::vector<double>> best(std::size(kChains), std::vector<double>(rows.size(), 1e300));
  for (uint32_t round = 0; round < rounds; ++round)
    for (size_t chain = 0; chain < std::size(kChains); ++chain) {
      if (!sampler->set(kChains[chain].stages, biases).ok()) return 1;
      for (size_t row = 0; row < rows.size(); ++row) {
        if (!sampler->sample(rows[row].logits, history, 1, round).ok()) return 1;   // brings the row into the cache
        const double start = seconds_of_this_thread();
        if (!sampler->sample(rows[row].logits, history, 1, round).ok()) return 1;
        best[chain][row] = std::min(best[chain][row], seconds_of_this_thread() - start);
      }
    }
  std::printf("microseconds for a token out of %u\n| chain |", n_vocab);
  for (const Row& row : rows) std::printf(" %s |", row.name);
  std::printf("\n| --- |");
  for (size_t row = 0; row < rows.size(); ++row) std::printf(" --- |");
  for (size_t chain = 0; chain < std::size(kChains); ++chain) {
    std::printf("\n| %s |", kChains[chain].name);
    for (const double seconds : best[chain]) std::printf(" %.1f |", seconds * 1e6);
  }
  bool same = true;
  for (const Row& row : rows)
    for (const int32_t k : {1, 40, 1000}) same = keeps_what_a_sort_keeps(*sampler, row.logits, k) && same;
  std::printf(same ? "\nwhat is kept is what a sort keeps\n" : "\nWHAT IS KEPT IS NOT WHAT A SORT KEEPS\n");
  return same ? 0 : 1;
}

}   // namespace
}   // namespace mote::test

int main(int count, char** words) {
  try {
    return mote::test::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
