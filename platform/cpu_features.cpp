// Everything here is the processor's own manual, so it holds on every system; only the ARM words come from the system.
#include "platform/cpu_features.h"

#include <bit>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace mote {
namespace {

bool bit(uint64_t word, uint32_t index) { return (word >> index & 1) != 0; }

}   // namespace

// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID; volume 1, section 13.3 (XCR0).
CpuFeatures features_from_cpuid(const CpuidWords& words) {
  CpuFeatures f;
  f.sse2 = bit(words.leaf1_edx, 26);
  f.ssse3 = bit(words.leaf1_ecx, 9);
  const bool xgetbv = bit(words.leaf1_ecx, 27);
  const bool ymm_saved = xgetbv && (words.xcr0 & 0x6) == 0x6;        // SSE and AVX state
  const bool zmm_saved = ymm_saved && (words.xcr0 & 0xe0) == 0xe0;   // opmask, high halves, registers 16-31
  f.avx = ymm_saved && bit(words.leaf1_ecx, 28);
  f.fma = f.avx && bit(words.leaf1_ecx, 12);
  f.f16c = f.avx && bit(words.leaf1_ecx, 29);
  f.avx2 = f.avx && bit(words.leaf7_ebx, 5);
  f.avx_vnni = f.avx2 && bit(words.leaf7_1_eax, 4);
  f.avx512f = f.avx2 && zmm_saved && bit(words.leaf7_ebx, 16);
  f.avx512dq = f.avx512f && bit(words.leaf7_ebx, 17);
  f.avx512bw = f.avx512f && bit(words.leaf7_ebx, 30);
  f.avx512vl = f.avx512f && bit(words.leaf7_ebx, 31);
  f.avx512vbmi = f.avx512f && bit(words.leaf7_ecx, 1);
  f.avx512vnni = f.avx512f && bit(words.leaf7_ecx, 11);
  f.avx512bf16 = f.avx512f && bit(words.leaf7_1_eax, 5);
  return f;
}

// Linux, Documentation/arch/arm64/elf_hwcaps.rst; the bit numbers are part of its ABI.
CpuFeatures features_from_aarch64_hwcap(uint64_t hwcap, uint64_t hwcap2) {
  CpuFeatures f;
  f.neon = bit(hwcap, 1);
  f.dotprod = f.neon && bit(hwcap, 20);
  f.i8mm = f.neon && bit(hwcap2, 13);
  return f;
}

#if defined(__x86_64__) || defined(__i386__)

CpuFeatures probe_cpu_features() {
  CpuidWords words;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return {};
  words.leaf1_ecx = c;
  words.leaf1_edx = d;
  if (bit(c, 27)) {
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = uint64_t{high} << 32 | low;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    words.leaf7_ebx = b;
    words.leaf7_ecx = c;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) words.leaf7_1_eax = a;
  }
  return features_from_cpuid(words);
}

#else

CpuFeatures probe_cpu_features() {
  CpuFeatures f;
#if defined(__aarch64__)
  uint64_t hwcap = 0, hwcap2 = 0;
  if (read_hwcap(&hwcap, &hwcap2)) return features_from_aarch64_hwcap(hwcap, hwcap2);
#endif
  // No way to ask: what the compiler was told it may use anyway.
#if defined(__ARM_NEON)
  f.neon = true;
#endif
#if defined(__ARM_FEATURE_DOTPROD)
  f.dotprod = true;
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
  f.i8mm = true;
#endif
  return f;
}

#endif

uint32_t CpuSet::count() const {
  uint32_t total = 0;
  for (uint64_t word : words) total += static_cast<uint32_t>(std::popcount(word));
  return total;
}

uint32_t default_threads(const CpuLimits& limits) {
  uint32_t least = 0;
  const uint32_t known[] = {limits.affinity, limits.quota, limits.performance_cores};
  for (uint32_t limit : known)
    if (limit != 0 && (least == 0 || limit < least)) least = limit;
  return least == 0 ? 1 : least;
}

bool parse_cpu_list(const char* text, CpuSet* set) {
  *set = {};
  auto number = [&](uint32_t* value) {
    if (*text < '0' || *text > '9') return false;
    for (*value = 0; *text >= '0' && *text <= '9'; ++text) {
      *value = *value * 10 + static_cast<uint32_t>(*text - '0');
      if (*value > 1'000'000) return false;
    }
    return true;
  };
  while (true) {
    uint32_t first = 0, last = 0;
    if (!number(&first)) return false;
    last = first;
    if (*text == '-' && (++text, !number(&last) || last < first)) return false;
    for (uint32_t cpu = first; cpu <= last && cpu < CpuSet::kCapacity; ++cpu) set->add(cpu);
    if (*text == ',') {
      ++text;
      continue;
    }
    if (*text == '\n') ++text;
    return *text == 0;
  }
}

}   // namespace mote
