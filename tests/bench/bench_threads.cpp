// What more threads than cores cost: milliseconds per token with 1, 2, 4 and 8 times as many threads as this process
// may run at once, and eight threads on one core, each against as many threads as cores. A benchmark: it measures and
// does not judge, but that the logits are the same bits is checked.
//
//   bench_threads [MODEL] [-n TOKENS] [-r ROUNDS]      without a model: a toy of 20 layers that is made here
//
// On a machine that does other things, many short rounds (-n 4 -r 200) say more than a few long ones.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "platform/cpu_features.h"
#include "tests/api/kit.h"

namespace mote::test {
namespace {

constexpr uint32_t kPromptRows = 16;

struct Measured {
  double decode_ms = 1e300, prompt_ms = 1e300;   // per token, the best round
  std::vector<float> logits;
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// One engine with its session, so that rounds of different engines can take turns: then all see the same machine.
class Contender {
 public:
  Contender(const mote_source& source, uint32_t threads) : engine_("cpu", threads), threads_(threads) {
    mote_error error{};
    must(mote_model_open(engine_, &source, nullptr, {}, &model_, &error), error);
    const mote_session_options options = session_options(512, 64);
    must(mote_session_open(model_, &options, {}, &session_, &error), error);
  }
  ~Contender() {
    mote_session_close(session_, nullptr);
    mote_model_close(model_, nullptr);
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  void round(uint32_t n_tokens) {
    mote_error error{};
    must(mote_rewind(session_, 0, &error), error);
    const Tokens prompt = some_tokens(kPromptRows + 1, 300);
    auto start = std::chrono::steady_clock::now();
    feed(session_, prompt);
    best_.prompt_ms = std::min(best_.prompt_ms, milliseconds_since(start) / kPromptRows);
    step(session_);
    start = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < n_tokens; ++i) next(session_);
    best_.decode_ms = std::min(best_.decode_ms, milliseconds_since(start) / n_tokens);
    best_.logits = step(session_);
  }
  uint32_t threads() const { return threads_; }
  const Measured& best() const { return best_; }

 private:
  Engine engine_;
  uint32_t threads_;
  mote_model* model_ = nullptr;
  mote_session* session_ = nullptr;
  Measured best_;
};

// Prints a line for each; false if their bits differ.
bool compare(const mote_source& source, const std::vector<uint32_t>& threads, uint32_t n_tokens, uint32_t rounds) {
  std::vector<std::unique_ptr<Contender>> all;
  for (const uint32_t count : threads) all.push_back(std::make_unique<Contender>(source, count));
  for (uint32_t i = 0; i < rounds; ++i)
    for (const auto& each : all) each->round(n_tokens);
  const Measured& first = all[0]->best();
  bool same = true;
  for (const auto& each : all) {
    const Measured& best = each->best();
    std::printf("| %3u | %8.3f | %5.2f | %8.3f | %5.2f |\n", each->threads(), best.decode_ms,
                best.decode_ms / first.decode_ms, best.prompt_ms, best.prompt_ms / first.prompt_ms);
    same = same && bit_difference(best.logits, first.logits).empty();
  }
  std::fflush(stdout);
  return same;
}

void heading(const char* what) {
  std::printf("%s\n| threads | ms/token | x | prompt ms/token | x |\n| --- | --- | --- | --- | --- |\n", what);
}

int run(int count, char** words) {
  mote_source source{};
  source.struct_bytes = sizeof source;
  uint32_t n_tokens = 8, rounds = 20;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if ((word == "-n" || word == "-r") && i + 1 < count)
      (word == "-n" ? n_tokens : rounds) = static_cast<uint32_t>(std::stoul(words[++i]));
    else
      source.path = words[i];
  }
  Bytes toy;
  if (source.path == nullptr) {
    toy = toy_llama({.n_layers = 20, .d_model = 256, .d_ff = 512, .matrices = Format::q8_0}).bytes();
    source.data = toy.data();
    source.data_bytes = toy.size();
  }
  const CpuLimits limits = probe_cpu_limits();
  const uint32_t cores = limits.quota != 0 && limits.quota < limits.affinity ? limits.quota : limits.affinity;
  heading("all cores");
  bool same = compare(source, {cores, 2 * cores, 4 * cores, 8 * cores}, n_tokens, rounds);
  cpu_set_t before, one;
  if (sched_getaffinity(0, sizeof before, &before) == 0) {
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) {
      heading("one core");
      same = compare(source, {1, 2, 8}, n_tokens, rounds) && same;
    }
  }
  std::printf(same ? "the logits are the same bits\n" : "THE LOGITS DIFFER\n");
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
