// What the steps of a run are worth and what each kind of them takes.
#pragma once
#include <string>
#include <vector>

#include "examples/cli/common.h"

namespace cli {

// What a run of a test has to read and to compute at least.
struct RunCost {
  uint64_t read_bytes = 0;   // weights, keys and values: each once a batch
  uint64_t batches = 0;
  // Products and sums of the matrix multiplications alone, two for a pair: of blocks in int8, of single elements in f32
  uint64_t int8_operations = 0, f32_operations = 0;

  // Seconds that they take at these limits.
  double seconds_reading(const mote_dev_limits& limits) const;
  double seconds_computing(const mote_dev_limits& limits) const;
};

// The steps of one kind, together: in the run of a prompt, or for one token of those that follow each other.
struct ProfileRow {
  std::string op, format;
  uint32_t steps = 0;
  double nanoseconds = 0;                                                              // the median of the runs
  uint64_t read_bytes = 0, value_bytes = 0, int8_operations = 0, f32_operations = 0;   // as mote_dev_step_profile
  double share_of_time = 0;
  // Of the machine's limit: what its reading or its computing would take at least, whichever is more, over what it
  // took. Steps that do neither of what is counted have none.
  double share_of_limit = 0;
};

// Has a session's runs added up while it lives.
class StepProfile {
 public:
  StepProfile(const Opened& opened, mote_session* session);
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  void forget();    // what was added since the last run
  void end_run();   // that was a run
  RunCost cost() const;
  // `whole_ns`: what the runs took, one by one; what no step accounts for is the last row. A run counts as `n` things
  // that are alike.
  std::vector<ProfileRow> rows(const std::vector<double>& whole_ns, uint32_t n, const mote_dev_limits* limits) const;

 private:
  void divide_times(std::vector<mote_dev_step_profile>& run) const;
  const Opened& opened_;
  mote_session* session_;
  std::vector<mote_dev_step_profile> sums_;
  std::vector<std::vector<mote_dev_step_profile>> runs_;
};

}   // namespace cli
