// mote_dev.h: what the machine reaches at most, by the loops of core/ops/probe_loop.h on the engine's threads.
#include <algorithm>

#include "core/handles.h"
#include "core/mote_dev.h"
#include "core/ops/probe_loop.h"
#include "platform/clock.h"

namespace mote {
namespace {

constexpr uint64_t kSampleNanoseconds = 300'000;   // a sample is at least so long, however small the block is
constexpr uint64_t kLoopNanoseconds = 4'000'000;   // and each loop has so much time for its samples
constexpr uint32_t kLeastSamples = 2;

class Measuring {
 public:
  Measuring(const Parallel& parallel, const uint8_t* block, size_t bytes)
      : parallel_(parallel), block_(block), bytes_(bytes / kProbeGrain * kProbeGrain) {
    // Some pieces for each lane, so that a slow core does not hold up the others.
    piece_bytes_ = std::max<size_t>(bytes_ / parallel.lanes / 8 / kProbeGrain, 1) * kProbeGrain;
  }

  // Bytes or operations a second, the best of some samples.
  double best(const ProbeLoop& loop) {
    const size_t unit = loop.limit == Limit::read ? 1 : kFirstRounds * parallel_.lanes * 8;
    size_t repeats = unit, done = 0;
    double best = 0;
    for (uint64_t spent = 0; spent < kLoopNanoseconds || done < kLeastSamples;) {
      const uint64_t start = monotonic_nanoseconds();
      const double work = loop.limit == Limit::read ? read(loop, repeats) : compute(loop, repeats);
      const uint64_t took = monotonic_nanoseconds() - start;
      spent += took;
      if (took < kSampleNanoseconds && repeats < SIZE_MAX / 4) {
        repeats *= 2;   // too short to trust
        continue;
      }
      ++done;
      best = std::max(best, work / static_cast<double>(took) * 1e9);
    }
    return best;
  }

 private:
  static constexpr size_t kFirstRounds = 256;

  double read(const ProbeLoop& loop, size_t repeats) {
    const size_t pieces = (bytes_ + piece_bytes_ - 1) / piece_bytes_;
    share(pieces * repeats, [&](size_t index) {
      const size_t first = index % pieces * piece_bytes_;
      return loop.run(block_ + first, std::min(piece_bytes_, bytes_ - first));
    });
    return static_cast<double>(bytes_) * static_cast<double>(repeats);
  }

  double compute(const ProbeLoop& loop, size_t rounds) {
    const size_t pieces = size_t{parallel_.lanes} * 8;
    share(pieces, [&](size_t) { return loop.run(block_, rounds / pieces); });
    return static_cast<double>(rounds / pieces * pieces) * loop.operations;
  }

  template <class Body>
  void share(size_t pieces, Body body) {
    std::atomic<size_t> next{0};
    parallel_.region([&](uint32_t) {
      uint64_t sum = 0;
      for (size_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) sum ^= body(piece);
      sink_.fetch_xor(static_cast<uint32_t>(sum), std::memory_order_relaxed);
    });
  }

  const Parallel& parallel_;
  const uint8_t* block_;
  size_t bytes_, piece_bytes_;
  std::atomic<uint32_t> sink_{0};
};

struct BestLoop {
  double per_second = 0;
  const char* variant = "";
  const char* loop = "";

  void write(double* per_second_to, char (&name)[64]) const {
    *per_second_to = per_second;
    const FormatArgument arguments[] = {FormatArgument(variant), FormatArgument(loop)};
    format_sentence(name, static_cast<uint32_t>(sizeof name), "{}: {}", arguments, 2);
  }
};

Status measure_limits(const mote_engine* engine, const void* block, size_t block_bytes, mote_dev_limits* limits) {
  if (engine == nullptr || block == nullptr || limits == nullptr)
    return Status::error(Code::invalid_argument, "engine, block or limits is NULL");
  if (block_bytes < kProbeGrain || reinterpret_cast<uintptr_t>(block) % 64 != 0)
    return Status::error(Code::invalid_argument,
                         "a block of {} bytes; it must have {} or more and begin at a multiple of 64", block_bytes,
                         kProbeGrain);
  const std::span<const ProbeVariant> variants = probe_variants();
  if (variants.empty())
    return Status::error(Code::unsupported, "this build cannot measure the machine: it lacks the backend cpu");
  if (monotonic_nanoseconds() == kNoClock)
    return Status::error(Code::unsupported, "the machine cannot be measured without a clock");
  const IsaBits available = isa_bits(probe_cpu_features()) & engine->services.instruction_sets;
  Measuring measuring(engine->services.parallel, static_cast<const uint8_t*>(block), block_bytes);
  BestLoop best[kLimitCount];
  for (const ProbeVariant& variant : variants) {
    if ((variant.required & ~available) != 0) continue;
    for (uint32_t i = 0; i < variant.table->count; ++i) {
      const ProbeLoop& loop = variant.table->loops[i];
      BestLoop& so_far = best[static_cast<uint8_t>(loop.limit)];
      const double per_second = measuring.best(loop);
      if (per_second > so_far.per_second) so_far = {per_second, variant.name, loop.name};
    }
  }
  best[static_cast<uint8_t>(Limit::read)].write(&limits->read_bytes_per_second, limits->read_loop);
  best[static_cast<uint8_t>(Limit::int8)].write(&limits->int8_operations_per_second, limits->int8_loop);
  best[static_cast<uint8_t>(Limit::f32)].write(&limits->f32_operations_per_second, limits->f32_loop);
  return {};
}

}   // namespace
}   // namespace mote

extern "C" mote_status mote_dev_measure_limits(const mote_engine* engine, const void* block, size_t block_bytes,
                                               mote_dev_limits* limits, mote_error* error) {
  return mote::report(mote::measure_limits(engine, block, block_bytes, limits), error);
}
