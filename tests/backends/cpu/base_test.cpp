// What all kernels build on: 16 fused multiply-adds at once, half conversion, the choice of a row.
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/elementwise/elementwise.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_base.h"
#include "backends/cpu/linear/linear.h"
#include "backends/cpu/norm/norm.h"
#include "backends/cpu/probe/probe.h"
#include "core/base/half.h"
#include "tests/backends/cpu/canonical.h"
#include "tests/conformance/random.h"

namespace mote::test {
namespace {

// Numbers whose products and sums often lie half way between two floats, are subnormal, cancel, or overflow.
float hard_number(CaseRandom& random) {
  switch (random.below(6)) {
    case 0:
      return static_cast<float>(static_cast<int>(random.below(33)) - 16);
    case 1:
      return std::bit_cast<float>(static_cast<uint32_t>(random.next()));   // anything, NaN and infinities too
    case 2:
      return std::ldexp(static_cast<float>(1 + random.below(4096)), static_cast<int>(random.below(60)) - 150);
    case 3:
      return 1.0F + static_cast<float>(random.below(3)) * 0x1p-23F;
    case 4:
      return -std::ldexp(1.0F + static_cast<float>(random.below(3)) * 0x1p-12F,
                         static_cast<int>(random.below(50)) - 25);
    default:
      return random.below(2) != 0 ? 0.0F : -0.0F;
  }
}

template <class Variant>
std::string choices(std::span<const Variant> variants) {
  std::string wrong;
  if (variants.empty() || variants[0].required != kIsaBaseline) wrong += "the first variant requires something; ";
  // Only plain NEON asks for as little as the first.
  const Variant& plain = choose_kernel(variants.data(), static_cast<uint32_t>(variants.size()), kIsaBaseline);
  if (&plain != &variants[0] && std::string_view(plain.name) != "neon")
    wrong += "without instruction sets another variant than the first; ";
  for (IsaBits available = 0; available < 2 * kIsaI8mm; ++available) {
    const Variant& chosen = choose_kernel(variants.data(), static_cast<uint32_t>(variants.size()), available);
    if ((chosen.required & ~available) != 0) wrong += std::string("an illegal instruction in ") + chosen.name + "; ";
    for (const Variant& variant : variants)
      if (&variant > &chosen && (variant.required & ~available) == 0)
        wrong += std::string("not the last usable variant: ") + variant.name + "; ";
  }
  return wrong;
}

}   // namespace

TEST_CASE("sixteen fused multiply-adds are those of libm, in ties, subnormals and infinities", "[cpu][base]") {
  CaseRandom random(1);
  std::vector<float> expected, found;
  for (int round = 0; round < 40'000; ++round) {
    float a[16], b[16], sum[16];
    for (int i = 0; i < 16; ++i) {
      a[i] = hard_number(random), b[i] = hard_number(random), sum[i] = hard_number(random);
      expected.push_back(std::fma(a[i], b[i], sum[i]));
    }
    fma_lanes(sum, a, b);
    found.insert(found.end(), sum, sum + 16);
  }
  // A product that falls short of half a step of `step` by less than a double sees beside `c`: rounded twice, an odd
  // multiple goes up. Ordinary numbers, and subnormal ones, whose step does not shrink with them.
  for (const auto& [c, step] : {std::pair{1 + 0x1p-23F, 0x1p-23F},
                                {-3 - 0x1p-22F, 0x1p-22F},
                                {0x1.000002p-127F, 0x1p-149F},
                                {0x3p-149F, 0x1p-149F},
                                {-0x1.00000ap-128F, 0x1p-149F}}) {
    float a[16], b[16], sum[16];
    for (int i = 0; i < 16; ++i) {
      a[i] = std::ldexp(1 + 0x1p-23F, i - 70), b[i] = std::ldexp(1 - 0x1p-23F, std::ilogb(step) - 1 - (i - 70));
      if (i % 2 == 1) a[i] = -a[i];
      sum[i] = c;
      expected.push_back(std::fma(a[i], b[i], sum[i]));
    }
    fma_lanes(sum, a, b);
    found.insert(found.end(), sum, sum + 16);
  }
  CHECK(compare_floats(expected, found) == "");
}

TEST_CASE("the kernels' half conversion is that of core/base for every half", "[cpu][base]") {
  std::vector<uint16_t> halves;
  std::vector<float> expected, found(0x10000);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    halves.push_back(static_cast<uint16_t>(bits));
    expected.push_back(f16_to_f32(static_cast<uint16_t>(bits)));
  }
  halves_to_floats(halves.data(), 0x10000, found.data());
  CHECK(compare_floats(expected, found) == "");
}

TEST_CASE("every table begins with the scalar variant and never chooses one the processor cannot run",
          "[cpu][dispatch]") {
  CHECK(choices(linear_variants()) == "");
  CHECK(choices(attention_variants()) == "");
  CHECK(choices(norm_variants()) == "");
  CHECK(choices(elementwise_variants()) == "");
  CHECK(choices(cpu_probe_variants()) == "");
}

TEST_CASE("every loop that measures the machine reads all of a block, or does the operations that it counts",
          "[cpu][dispatch]") {
  constexpr size_t kBytes = 3 * kProbeGrain, kRounds = 37;
  alignas(64) static uint8_t random_bytes[kBytes], ones[kProbeGrain];
  CaseRandom random(3);
  uint64_t words = 0;
  for (size_t i = 0; i < kBytes; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(random_bytes + i, &word, 8);
    words ^= word;
  }
  std::memset(ones, 1, sizeof ones);
  uint32_t loops[kLimitCount] = {};
  for (const ProbeVariant& variant : cpu_probe_variants()) {
    if ((variant.required & ~isa_bits(probe_cpu_features())) != 0) continue;
    for (uint32_t i = 0; i < variant.table->count; ++i) {
      const ProbeLoop& loop = variant.table->loops[i];
      CAPTURE(variant.name, loop.name);
      ++loops[static_cast<size_t>(loop.limit)];
      if (loop.limit == Limit::read)
        CHECK(loop.run(random_bytes, kBytes) == words);
      else
        CHECK(loop.run(ones, kRounds) * 2 == kRounds * loop.operations);
    }
  }
  for (const uint32_t count : loops) CHECK(count > 0);
}

TEST_CASE("linear takes the scalar kernel of every format in the build when no instruction set is allowed",
          "[cpu][dispatch]") {
  for (const FormatInfo& info : format_table()) {
    const Format format = static_cast<Format>(&info - format_table().data());
    CAPTURE(info.name);
    const LinearKernel* choice = choose_linear(format, kIsaBaseline);
    CHECK((choice != nullptr) == info.enabled);
    if (choice == nullptr) continue;
    const bool elements = info.block_values == 1;
#if defined(__aarch64__)
    const bool by_neon = elements;   // which every such processor has
#else
    const bool by_neon = false;
#endif
    CHECK(choice == &linear_variants()[by_neon ? 1 : 0].table->by_format[static_cast<size_t>(format)]);
    CHECK((choice->form == nullptr) == (elements && !by_neon));
  }
}

TEST_CASE("each bit of the instruction sets stands for the feature of its name", "[cpu][dispatch]") {
  CpuFeatures features;
  CHECK(isa_bits(features) == kIsaBaseline);
  features.avx2 = true;
  CHECK(isa_bits(features) == kIsaAvx2);
  features.fma = features.f16c = true;
  CHECK(isa_bits(features) == kIsaHaswell);
  features.avx_vnni = true;
  CHECK(isa_bits(features) == kIsaAlderLake);
  features.avx_vnni = false;
  features.avx512f = features.avx512bw = features.avx512vl = true;
  CHECK(isa_bits(features) == kIsaHaswell);   // all four or nothing
  features.avx512dq = true;
  CHECK(isa_bits(features) == kIsaSkylakeX);
  features.avx512vnni = true;
  CHECK(isa_bits(features) == kIsaIceLake);
  features.avx_vnni = true;
  CHECK(isa_bits(features) == (kIsaIceLake | kIsaAvxVnni));
  CpuFeatures arm;
  arm.dotprod = true;
  CHECK(isa_bits(arm) == kIsaDotprod);
  arm.i8mm = true;
  CHECK(isa_bits(arm) == (kIsaDotprod | kIsaI8mm));
}

TEST_CASE("an instruction set is found by its name, and no other word is one", "[cpu][dispatch]") {
  IsaBits allowed = 7;
  CHECK_FALSE(find_instruction_set("", &allowed));
  CHECK_FALSE(find_instruction_set("AUTO", &allowed));
  CHECK_FALSE(find_instruction_set("auto ", &allowed));
  CHECK(allowed == 7);
  CHECK(find_instruction_set("auto", &allowed));
  CHECK(allowed == UINT32_MAX);
  CHECK(find_instruction_set("baseline", &allowed));
  CHECK(allowed == kIsaBaseline);
  CHECK(std::string_view(kInstructionSetNames).starts_with("auto, baseline"));
#if defined(__x86_64__)
  CHECK(find_instruction_set("avx512", &allowed));
  CHECK(allowed == kIsaSkylakeX);
#endif
}

}   // namespace mote::test
