#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>
#include <string>

#include "platform/cpu_features.h"
#include "tests/support/emulated.h"

using mote::CpuFeatures;
using mote::CpuidWords;

namespace {

CpuidWords all_of_x86() { return {~0u, ~0u, ~0u, ~0u, ~0u, ~uint64_t{0}}; }

}   // namespace

TEST_CASE("wide registers count only where the system saves them", "[platform][cpu]") {
  CpuidWords words = all_of_x86();
  CpuFeatures f = mote::features_from_cpuid(words);
  CHECK((f.sse2 && f.ssse3 && f.avx && f.avx2 && f.fma && f.f16c && f.avx_vnni));
  CHECK((f.avx512f && f.avx512bw && f.avx512vl && f.avx512dq && f.avx512vnni && f.avx512vbmi && f.avx512bf16));
  CHECK_FALSE((f.neon || f.dotprod || f.i8mm));

  words.xcr0 = 0x7;   // x87, SSE, AVX, but not the AVX-512 state
  f = mote::features_from_cpuid(words);
  CHECK((f.avx && f.avx2 && f.fma && f.f16c));
  CHECK_FALSE((f.avx512f || f.avx512bw || f.avx512vl || f.avx512dq || f.avx512vnni || f.avx512vbmi || f.avx512bf16));
  words.xcr0 = 0xa7;   // the high halves are missing
  CHECK_FALSE(mote::features_from_cpuid(words).avx512f);

  words.xcr0 = 0x3;   // no AVX state
  f = mote::features_from_cpuid(words);
  CHECK((f.sse2 && f.ssse3));
  CHECK_FALSE((f.avx || f.avx2 || f.fma || f.f16c || f.avx_vnni || f.avx512f));

  words = all_of_x86();
  words.leaf1_ecx &= ~(1u << 27);   // no XGETBV: xcr0 means nothing
  CHECK_FALSE(mote::features_from_cpuid(words).avx);
}

TEST_CASE("a processor without AVX2 has none of what builds on it", "[platform][cpu]") {
  CpuidWords words = all_of_x86();
  words.leaf7_ebx &= ~(1u << 5);
  const CpuFeatures f = mote::features_from_cpuid(words);
  CHECK((f.avx && f.fma && f.f16c));
  CHECK_FALSE((f.avx2 || f.avx_vnni || f.avx512f || f.avx512vnni));
}

TEST_CASE("ARM words are read by their bit numbers", "[platform][cpu]") {
  CHECK(mote::features_from_aarch64_hwcap(uint64_t{1} << 1, 0).neon);
  const CpuFeatures all = mote::features_from_aarch64_hwcap(uint64_t{1} << 1 | uint64_t{1} << 20, uint64_t{1} << 13);
  CHECK((all.neon && all.dotprod && all.i8mm));
  const CpuFeatures none = mote::features_from_aarch64_hwcap(~uint64_t{0} & ~(uint64_t{1} << 1), ~uint64_t{0});
  CHECK_FALSE((none.neon || none.dotprod || none.i8mm));
}

#if defined(__x86_64__) && defined(__linux__)
TEST_CASE("the probe agrees with the kernel", "[platform][cpu]") {
  if (mote::test::is_emulated()) SKIP("the kernel tells of the machine's processor, not of the emulated one");
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags;
  while (flags.empty() && std::getline(file, line))
    if (line.rfind("flags", 0) == 0) flags = line + " ";
  REQUIRE_FALSE(flags.empty());
  auto has = [&](const char* name) { return flags.find(std::string(" ") + name + " ") != std::string::npos; };
  const CpuFeatures f = mote::probe_cpu_features();
  CHECK(f.sse2 == has("sse2"));
  CHECK(f.ssse3 == has("ssse3"));
  CHECK(f.avx == has("avx"));
  CHECK(f.avx2 == has("avx2"));
  CHECK(f.fma == has("fma"));
  CHECK(f.f16c == has("f16c"));
  CHECK(f.avx512f == has("avx512f"));
  CHECK(f.avx512bw == has("avx512bw"));
  CHECK(f.avx512vl == has("avx512vl"));
  CHECK(f.avx512dq == has("avx512dq"));
  CHECK(f.avx512vnni == has("avx512_vnni"));
  CHECK(f.avx512vbmi == has("avx512vbmi"));
  CHECK(f.avx512bf16 == has("avx512_bf16"));
  CHECK(f.avx_vnni == has("avx_vnni"));
}
#endif
