// Loops that do one thing as fast as the processor can: the yardsticks of benchmarks (mote_dev_measure_limits).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "platform/instruction_sets.h"

namespace mote {

enum class Limit : uint8_t { read, int8, f32 };
inline constexpr uint32_t kLimitCount = 3;

// What a loop of Limit::read reads at once: a multiple of this, at a multiple of 64. The others need a block of so
// much.
inline constexpr size_t kProbeGrain = 4096;

struct ProbeLoop {
  Limit limit;
  const char* name;   // "64 bytes at a time, fetched ahead"
  // read: reads `count` bytes from `block` on, each once; returns their 64-bit words, combined by xor.
  // The others: `count` rounds of arithmetic in registers. On a block of bytes that are all 1 each product is 1, and
  // what is returned is their sum, modulo 2^32.
  uint64_t (*run)(const uint8_t* block, size_t count);
  uint32_t operations;   // of a round; a product and its sum are two. read: 0
};

// The loops of one source, compiled for one instruction set.
struct ProbeTable {
  const ProbeLoop* loops;
  uint32_t count;
};
struct ProbeVariant {
  IsaBits required;
  const char* name;
  const ProbeTable* table;
};

// Defined in backends/registry.cpp: those of the backend `cpu`, none in a build without it. No backend knows them, so
// a program that does not ask for them is linked without.
std::span<const ProbeVariant> probe_variants();

}   // namespace mote
