// What the machine gives while something is measured: its limits, measured in turns with the work, and who else had it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "examples/cli/common.h"

namespace cli {

// Limits of the machine, measured before the first run and behind each: those of a run are the better ones on either
// side of it.
class MachineLimits {
 public:
  // The block is about as large as what is read at once, so that caches help the yardstick as they help the work; at
  // most 256 MiB. Its memory is this process's own while this object lives.
  MachineLimits(const mote_engine* engine, uint64_t read_bytes);
  ~MachineLimits();
  MachineLimits(const MachineLimits&) = delete;
  MachineLimits& operator=(const MachineLimits&) = delete;

  // False, once and for all: this build or machine cannot be measured, or the memory is not to be had.
  bool measure();
  const std::vector<mote_dev_limits>& rounds() const { return rounds_; }
  mote_dev_limits around(size_t run) const;

 private:
  const mote_engine* engine_;
  void* block_ = nullptr;
  size_t block_bytes_ = 0;
  std::vector<mote_dev_limits> rounds_;
};
// The medians of some rounds, with the names of the last.
mote_dev_limits median_limits(const std::vector<mote_dev_limits>& rounds);

// Time that went elsewhere, in all since the machine or the process began; empty where the system does not say.
struct TimeCounters {
  double cpu_ns = 0;                         // that this process has used
  std::optional<double> waited_ns;           // that its threads were ready to run and did not: others had the core
  std::optional<double> stolen, all_ticks;   // of the machine's processors, by its host
};
TimeCounters time_counters();
double process_cpu_ns();
struct TimeShares {
  double cpu_ns = 0;
  std::optional<double> waited;   // of the time that this process ran or was ready to
  std::optional<double> stolen;   // of the machine's time; with too little of it to say, empty
};
TimeShares shares_between(const TimeCounters& before, const TimeCounters& after);

std::string cpu_name();
// "0-1,4": the processors that this process may run on; empty where that is not known.
std::string affinity_text();

}   // namespace cli
