#include "tests/reach/kernels.h"

#include <algorithm>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/norm/norm.h"
#include "core/base/half.h"
#include "core/model/weights.h"
#include "core/sampler/sampler.h"
#include "tests/support/hash.h"
#include "tests/support/toy_model.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

template <class Variant>
const auto& chosen(std::span<const Variant> variants) {
  return *choose_kernel(variants.data(), static_cast<uint32_t>(variants.size()), isa_bits(probe_cpu_features())).table;
}

std::vector<float> normals(Random& random, size_t count, float size = 1) {
  std::vector<float> values(count);
  for (float& value : values) value = size * random.normal();
  return values;
}

void print_norms() {
  const NormTable& table = chosen(norm_variants());
  Random random(21);
  Hash hash;
  for (const uint32_t count : {1U, 17U, 64U, 576U}) {
    const std::vector<float> x = normals(random, count, 3), weight = normals(random, count),
                             bias = normals(random, count);
    std::vector<float> y(count);
    table.rms_norm({x.data(), weight.data(), nullptr, y.data(), count, 1e-5F});
    hash.add(y);
    table.layer_norm({x.data(), weight.data(), bias.data(), y.data(), count, 1e-5F});
    hash.add(y);
  }
  hash.print("norm");
}

void print_elementwise() {
  const ElementwiseTable& table = chosen(elementwise_variants());
  Random random(22);
  Hash hash;
  const std::vector<float> a = normals(random, 5000, 4), b = normals(random, 5000);
  std::vector<float> y(a.size());
  const auto run = [&](ElementwiseKernel kernel) {
    kernel({a.data(), b.data(), y.data(), a.size(), 7.5F});
    hash.add(y);
  };
  for (const ElementwiseKernel kernel : table.activate) run(kernel);
  for (const ElementwiseKernel kernel : table.gate) run(kernel);
  for (const ElementwiseKernel kernel : {table.add, table.scale, table.softcap}) run(kernel);
  for (const RopePairing pairing : {RopePairing::neighbours, RopePairing::halves}) {
    table.rope({a.data(), b.data(), y.data(), {60, 80, 64, pairing}});
    hash.add(y);
  }
  hash.print("elementwise");
}

// Four queries at the end of a cache of 1152 positions: two chunks.
template <class Element>
void add_attention(Hash& hash, void (*attend)(const AttentionJob&), void (*weigh)(const AttentionJob&),
                   const std::vector<float>& keys, const std::vector<float>& values, const std::vector<float>& q,
                   uint32_t window, float softcap) {
  constexpr uint32_t kKeyDim = 24, kValueDim = 20, kPositions = 1152;
  const auto kept = [](const std::vector<float>& from) {
    std::vector<Element> to(from.size());
    std::transform(from.begin(), from.end(), to.begin(), [](float value) {
      if constexpr (sizeof(Element) == 2)
        return f32_to_f16(value);
      else
        return value;
    });
    return to;
  };
  const std::vector<Element> kept_keys = kept(keys), kept_values = kept(values);
  std::vector<float> y(4 * kValueDim), scratch(attention_scratch_floats(kKeyDim, kValueDim) + 16);
  AttentionJob job = {};
  job.keys = kept_keys.data(), job.values = kept_values.data();
  job.key_dim = kKeyDim, job.value_dim = kValueDim, job.capacity = kPositions;
  job.window = window, job.scale = 0.2F, job.softcap = softcap;
  job.first_chunk = window == 0 ? 0 : (kPositions - 4 - window) / kAttentionChunk, job.end_chunk = 2, job.items = 4;
  for (uint32_t i = 0; i < 4; ++i)
    job.q[i] = q.data() + size_t{i} * kKeyDim, job.position[i] = kPositions - 4 + i,
    job.y[i] = y.data() + i * kValueDim;
  job.scratch = scratch.data();
  while (reinterpret_cast<uintptr_t>(job.scratch) % 64 != 0) ++job.scratch;
  attend(job);
  hash.add(y);
  std::vector<float> weights(size_t{4} * kPositions);
  job.n_positions = kPositions;
  for (uint32_t i = 0; i < 4; ++i) job.y[i] = weights.data() + i * kPositions;
  weigh(job);
  hash.add(weights);
}

void print_attention() {
  const AttentionTable& table = chosen(attention_variants());
  Random random(23);
  Hash hash;
  const std::vector<float> keys = normals(random, 1152 * 24, 2), values = normals(random, 1152 * 20),
                           q = normals(random, 4 * 24, 2);
  for (const uint32_t window : {0U, 100U, 1100U}) {
    for (const float softcap : {0.0F, 5.0F}) {
      add_attention<uint16_t>(hash, table.attend_f16, table.weigh_f16, keys, values, q, window, softcap);
      add_attention<float>(hash, table.attend_f32, table.weigh_f32, keys, values, q, window, softcap);
    }
  }
  hash.print("attention");
}

// The penalties, and below the factors, are such that a product and a sum rounded at once are another number.
void print_chains() {
  using K = SamplerKind;
  constexpr uint32_t kVocab = 400;
  const SamplerStage repeated{K::repetition_penalty, 16, 1.3}, frequent{K::frequency_presence, 0, 0.7, 1.1};
  const SamplerStage cuts[] = {{K::top_k, 300},        {K::top_p, 0, 0.97},    {K::min_p, 0, 0.001},
                               {K::typical_p, 0, 0.9}, {K::epsilon, 0, 0.002}, {K::eta, 0, 0.01}};
  std::vector<int32_t> history;
  for (int32_t i = 0; i < 300; ++i) history.push_back(i * i % (7 + i % 60));
  alignas(64) static unsigned char room[1 << 16];
  Random random(24);
  Hash hash;
  for (const SamplerStage& cut : cuts) {
    const std::vector<float> logits = normals(random, kVocab, 3);
    Arena arena(room, sizeof room);
    Sampler sampler;
    sampler.layout(arena, {kVocab, 0});
    const SamplerStage chain[] = {repeated, frequent, {K::temperature, 0, 0.83}, cut};
    if (!sampler.set(chain, {}).ok() || !sampler.apply(logits, history, 0).ok()) return;   // no line at all
    std::vector<Candidate> left(kVocab);
    left.resize(sampler.candidates(left));
    for (const Candidate& candidate : left) {
      hash.add(&candidate.token, sizeof candidate.token);
      hash.add(&candidate.probability, sizeof candidate.probability);
    }
  }
  hash.print("chain");
}

void print_frequencies() {
  Hash hash;
  for (const float factor : {0.0F, 2.9F, 4.5F, 6.8F, 11.8F, 21.3F}) {
    ToyOptions toy;
    toy.n_layers = 1;
    toy.d_model = 128;
    toy.n_heads = toy.n_kv_heads = 1;
    toy.rope_scaling = factor == 0 ? "none" : "yarn";
    toy.original_context = 128;
    toy.rope_factor = factor;
    toy.rope_base = 12345;
    for (uint32_t i = 0; i < 64; ++i) toy.rope_factors.push_back(1 + static_cast<float>(i) / 7);
    const std::vector<uint8_t> bytes = toy_llama(toy).bytes();
    alignas(64) static unsigned char room[1 << 16];
    Arena arena(room, sizeof room);
    const Result<gguf::File> file = gguf::File::open(bytes);
    if (!file.ok()) return;
    Result<gguf::TensorIndex> index = gguf::TensorIndex::create(file.value(), arena);
    const Result<Config> config = read_config(file.value(), toy.n_vocab);
    if (!index.ok() || !config.ok()) return;
    const Result<RopeConfig> settings = read_rope(file.value(), config.value());
    if (!settings.ok()) return;
    Weights weights(index.value(), arena);
    const RopeSettings rope = weights.rope(settings.value(), RopePairing::neighbours, "rope_freqs.weight");
    if (!weights.status().ok()) return;
    hash.add(rope.angles.frequency, rope.angles.n_rotated / 2 * sizeof(double));
    hash.add(&rope.angles.magnitude, sizeof(double));
  }
  hash.print("frequencies");
}

}   // namespace

void print_doubles() {
  print_chains();
  print_frequencies();
}

void print_kernels() {
  print_norms();
  print_elementwise();
  print_attention();
}

}   // namespace mote::test
