#include "tests/reach/kernels.h"

#include <algorithm>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/norm/norm.h"
#include "core/base/half.h"
#include "tests/support/hash.h"
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
void add_attention(Hash& hash, void (*attend)(const AttentionJob&), const std::vector<float>& keys,
                   const std::vector<float>& values, const std::vector<float>& q, uint32_t window, float softcap) {
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
}

void print_attention() {
  const AttentionTable& table = chosen(attention_variants());
  Random random(23);
  Hash hash;
  const std::vector<float> keys = normals(random, 1152 * 24, 2), values = normals(random, 1152 * 20),
                           q = normals(random, 4 * 24, 2);
  for (const uint32_t window : {0U, 100U, 1100U}) {
    for (const float softcap : {0.0F, 5.0F}) {
      add_attention<uint16_t>(hash, table.attend_f16, keys, values, q, window, softcap);
      add_attention<float>(hash, table.attend_f32, keys, values, q, window, softcap);
    }
  }
  hash.print("attention");
}

}   // namespace

void print_kernels() {
  print_norms();
  print_elementwise();
  print_attention();
}

}   // namespace mote::test
