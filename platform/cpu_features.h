// What the processor can do and the operating system lets it do, and how many threads are worth having. Nothing is
// kept: the engine asks once and holds the answer.
#pragma once
#include <cstdint>

namespace mote {

// A flag is set only if the system also saves the registers the instructions use (XCR0 on x86, HWCAP on Linux on ARM).
struct CpuFeatures {
  bool sse2 = false, ssse3 = false, avx = false, avx2 = false, fma = false, f16c = false;
  bool avx512f = false, avx512bw = false, avx512vl = false, avx512dq = false, avx512vnni = false, avx512vbmi = false,
       avx512bf16 = false, avx_vnni = false;
  bool neon = false, dotprod = false, i8mm = false;
};

CpuFeatures probe_cpu_features();

// The two readings behind it, as functions of the raw words so that other machines can be tried out in tests.
struct CpuidWords {
  uint32_t leaf1_ecx = 0, leaf1_edx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_1_eax = 0;
  uint64_t xcr0 = 0;   // 0 where the processor has no XGETBV
};
CpuFeatures features_from_cpuid(const CpuidWords& words);
CpuFeatures features_from_aarch64_hwcap(uint64_t hwcap, uint64_t hwcap2);
// AT_HWCAP and AT_HWCAP2 of Linux; false on a system that has no such words.
bool read_hwcap(uint64_t* hwcap, uint64_t* hwcap2);

// A set of CPU numbers.
struct CpuSet {
  static constexpr uint32_t kCapacity = 1024;
  uint64_t words[kCapacity / 64] = {};
  bool has(uint32_t cpu) const { return cpu < kCapacity && (words[cpu / 64] >> (cpu % 64) & 1) != 0; }
  void add(uint32_t cpu) {
    if (cpu < kCapacity) words[cpu / 64] |= uint64_t{1} << (cpu % 64);
  }
  uint32_t count() const;
};

// Where each limit comes from; 0 means that nothing is known about it.
struct CpuLimits {
  uint32_t affinity = 0;            // CPUs this process may run on
  uint32_t quota = 0;               // whole CPUs of time its control groups grant, at least 1
  uint32_t performance_cores = 0;   // the fast ones among those it may run on, hyperthreads of one core counted once
};

// The least limit that is known, at least 1.
uint32_t default_threads(const CpuLimits& limits);

// Reads the limits of this process.
CpuLimits probe_cpu_limits();

// The parts of the probe, with the root of the file tree as a parameter ("" is the real one).
//
// CPU time granted by control groups, version 1 and 2: the tightest quota on the way from the process's group up to the
// mount point, in whole CPUs rounded down, at least 1. Values that make no sense are skipped.
uint32_t read_cgroup_quota(const char* root);
// Fast cores among `allowed`: those with at least half the largest cpu_capacity, or where the system does not tell
// capacities, at least 0.8 of the largest cpuinfo_max_freq. Threads of one core count once.
uint32_t read_performance_cores(const char* root, const CpuSet& allowed);
// "0-3,8,10-11"; false if the text is anything else.
bool parse_cpu_list(const char* text, CpuSet* set);

}   // namespace mote
