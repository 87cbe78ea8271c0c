// The kernels of the cpu backend by themselves, on one thread, out of the cache: every variant that this machine runs.
//
//   bench_kernels --benchmark_filter='linear/q4_0/.*/4$'      and the other options of Google Benchmark
//
//   linear/FORMAT/VARIANT/ROWS    a matrix [256, 2048] with ROWS rows of x that are in the kernel's form already
//   input/FORMAT/VARIANT/ROWS     making that form
//   attention/TYPE/VARIANT/HEADS  decoding: one position's HEADS that share keys and values of 64, behind 4096 others
//   sample/CHAIN/VOCABULARY       a token of so many logits
//
// Bytes are those of the weights, or of the keys and values. On a machine that does other things take the least of
// many:
// --benchmark_repetitions=20, and of its lines the smallest.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/kv_state.h"
#include "backends/cpu/linear/linear.h"
#include "core/sampler/sampler.h"
#include "platform/cpu_features.h"
#include "tests/conformance/random.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

constexpr uint32_t kRows = 256, kColumns = 2048, kHeadDim = 64, kPositions = 4096;

// `bytes` at a multiple of 64.
class Aligned {
 public:
  explicit Aligned(uint64_t bytes) : lines_(static_cast<size_t>(bytes / 64 + 1)) {}
  uint8_t* data() { return lines_[0].bytes; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  std::vector<Line> lines_;
};

// Of each iteration, in units of 10^9 a second.
void count(benchmark::State& state, const char* name, double amount) {
  state.counters[name] = benchmark::Counter(amount * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

bool runs_here(IsaBits required) { return (required & ~isa_bits(probe_cpu_features())) == 0; }

struct LinearProblem {
  std::vector<uint8_t> weights;
  std::vector<float> x, y;
  Aligned input, scratch;
  LinearJob job = {};

  LinearProblem(Format format, const LinearKernel& kernel, uint32_t x_rows)
      : input(kernel.form == nullptr ? 0 : kernel.form->bytes(x_rows, kColumns)),
        scratch(kernel.scratch_bytes(kColumns)) {
    CaseRandom random(1);
    weights = random_matrix(format, kRows, kColumns, random);
    x = random.normals(size_t{x_rows} * kColumns);
    y.resize(size_t{x_rows} * kRows);
    job.weights = weights.data();
    job.weight_row_bytes = static_cast<size_t>(row_bytes(format, kColumns));
    job.columns = kColumns;
    job.end_row = kRows;
    job.x_rows = x_rows;
    job.x = x.data();
    job.input = input.data();
    job.y = y.data();
    job.y_columns = kRows;
    job.scratch = scratch.data();
  }
  void make_input(const InputForm& form) { form.make({x.data(), kColumns, job.x_rows, 0, job.x_rows, input.data()}); }
};

void register_linear(Format format, const LinearVariant& variant, uint32_t x_rows) {
  const LinearKernel& kernel = variant.table->by_format[static_cast<size_t>(format)];
  if (kernel.run == nullptr) return;
  const std::string ending = std::string(format_info(format).name) + "/" + variant.name + "/" + std::to_string(x_rows);
  benchmark::RegisterBenchmark(("linear/" + ending).c_str(), [&kernel, format, x_rows](benchmark::State& state) {
    LinearProblem problem(format, kernel, x_rows);
    if (kernel.form != nullptr) problem.make_input(*kernel.form);
    for (auto _ : state) {
      kernel.run(problem.job);
      benchmark::DoNotOptimize(problem.y.data());
      benchmark::ClobberMemory();
    }
    count(state, "GB/s", static_cast<double>(problem.weights.size()));
    count(state, "Gop/s", 2.0 * kRows * kColumns * x_rows);
  });
  if (kernel.form == nullptr) return;
  benchmark::RegisterBenchmark(("input/" + ending).c_str(), [&kernel, format, x_rows](benchmark::State& state) {
    LinearProblem problem(format, kernel, x_rows);
    for (auto _ : state) {
      problem.make_input(*kernel.form);
      benchmark::DoNotOptimize(problem.input.data());
      benchmark::ClobberMemory();
    }
    count(state, "GB/s", static_cast<double>(problem.x.size()) * 4);
  });
}

struct Cache {
  SessionShape shape{1, 1, kPositions, KvType::f16};
  StateInfo info{0, 1, kHeadDim, kHeadDim, 0};
  Aligned memory;
  KvState state;

  explicit Cache(KvType type) : memory(bytes(type)) {
    shape.kv_type = type;
    Arena arena(memory.data(), bytes(type));
    state.take(info, shape, arena);
    state.enter(0, kPositions);
    CaseRandom random(1);
    for (uint32_t position = 0; position < kPositions; ++position)
      state.write_row(position, random.normals(kHeadDim).data(), random.normals(kHeadDim).data());
  }
  uint64_t bytes(KvType type) {
    shape.kv_type = type;
    Arena measuring;
    KvState().take(info, shape, measuring);
    return measuring.used_bytes();
  }
};

void register_attention(KvType type, const AttentionVariant& variant, uint32_t heads) {
  const std::string name =
      std::string("attention/") + (type == KvType::f16 ? "f16/" : "f32/") + variant.name + "/" + std::to_string(heads);
  benchmark::RegisterBenchmark(name.c_str(), [&variant, type, heads](benchmark::State& state) {
    Cache cache(type);
    CaseRandom random(2);
    const std::vector<float> q = random.normals(size_t{heads} * kHeadDim);
    std::vector<float> y(q.size());
    Aligned scratch(attention_scratch_floats(kHeadDim, kHeadDim) * sizeof(float));
    AttentionJob job = {};
    job.keys = cache.state.keys(0);
    job.values = cache.state.values(0);
    job.key_dim = job.value_dim = kHeadDim;
    job.capacity = cache.state.capacity();
    job.scale = 0.125F;
    job.end_chunk = kPositions / kAttentionChunk;
    job.items = heads;
    for (uint32_t i = 0; i < heads; ++i) {
      job.q[i] = q.data() + size_t{i} * kHeadDim;
      job.position[i] = kPositions - 1;
      job.y[i] = y.data() + size_t{i} * kHeadDim;
    }
    job.scratch = reinterpret_cast<float*>(scratch.data());
    const auto attend = type == KvType::f16 ? variant.table->attend_f16 : variant.table->attend_f32;
    for (auto _ : state) {
      attend(job);
      benchmark::DoNotOptimize(y.data());
      benchmark::ClobberMemory();
    }
    count(state, "GB/s", static_cast<double>(kPositions) * kHeadDim * 2 * (type == KvType::f16 ? 2 : 4));
    count(state, "Gop/s", 4.0 * kPositions * kHeadDim * heads);
  });
}

void register_sampling(const char* chain, std::vector<SamplerStage> stages, uint32_t vocabulary) {
  const std::string name = std::string("sample/") + chain + "/" + std::to_string(vocabulary);
  benchmark::RegisterBenchmark(name.c_str(), [stages, vocabulary](benchmark::State& state) {
    Arena measuring;
    Sampler().layout(measuring, {vocabulary, 0});
    Aligned memory(measuring.used_bytes());
    Arena arena(memory.data(), measuring.used_bytes());
    Sampler sampler;
    sampler.layout(arena, {vocabulary, 0});
    if (!sampler.set(stages, {}).ok()) return state.SkipWithError("the chain is refused");
    CaseRandom random(3);
    const std::vector<float> logits = random.normals(vocabulary, 3);
    uint64_t position = 0;
    for (auto _ : state) {
      const Result<int32_t> token = sampler.sample(logits, {}, 1, position++);
      benchmark::DoNotOptimize(token.ok());
    }
    count(state, "GB/s", static_cast<double>(vocabulary) * 4);
  });
}

void register_all() {
  for (const Format format : enabled_formats())
    for (const LinearVariant& variant : linear_variants())
      for (const uint32_t x_rows : {1U, 4U, 512U})
        if (runs_here(variant.required)) register_linear(format, variant, x_rows);
  for (const KvType type : {KvType::f16, KvType::f32})
    for (const AttentionVariant& variant : attention_variants())
      for (const uint32_t heads : {1U, 4U, 8U})
        if (runs_here(variant.required)) register_attention(type, variant, heads);
  const SamplerStage top_k{SamplerKind::top_k, 40}, top_p{SamplerKind::top_p, 0, 0.95},
      temperature{SamplerKind::temperature, 0, 0.8};
  for (const uint32_t vocabulary : {49'152U, 262'144U}) {
    register_sampling("greedy", {{SamplerKind::greedy}}, vocabulary);
    register_sampling("top-k 40, top-p 0.95", {top_k, top_p, temperature}, vocabulary);
    register_sampling("top-p 0.95", {top_p, temperature}, vocabulary);
  }
}

}   // namespace
}   // namespace mote::test

int main(int count, char** words) {
  benchmark::Initialize(&count, words);
  if (benchmark::ReportUnrecognizedArguments(count, words)) return 1;
  mote::test::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
