// Runs a case on a backend the way the engine does: measured, opened in memory of exactly that size that was filled
// with 0xFF, with something to watch around every piece of memory.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "core/ops/backend.h"
#include "tests/conformance/plan_maker.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {

struct RunOptions {
  uint32_t lanes = 1;     // run one after the other, the last first
  bool threads = false;   // run on as many threads instead
  Guard guard = Guard::bands;
  bool in_place = false;                               // the output of the last step lies where its first input lies
  std::vector<uint32_t> cuts;                          // rows of each batch; empty: everything at once
  uint32_t max_batch = 0;                              // 0: the largest cut
  std::atomic<uint32_t>* cancel_in_region = nullptr;   // set when a parallel region begins
  const StepObserver* observer = nullptr;              // of the batches behind the input
};

// A backend opened for a case. Everything that goes wrong is a std::runtime_error with a sentence.
class Rig {
 public:
  Rig(const BackendEntry& entry, const Case& test_case, const RunOptions& options);
  ~Rig();
  Rig(const Rig&) = delete;

  // Whether the backend runs every step of the case; otherwise nothing else may be called. False also where there is
  // no device for it.
  bool supported() const { return supported_; }
  Executor& executor() { return *executor_; }
  // What compiling steps [first, first + count) of the case says, measured; also where it is not supported.
  struct Steps {
    uint32_t first, count;
  };
  Status compile(Steps steps);

  // Runs rows [first, first + rows) of the case's sequence as one batch (begin, run, commit) and keeps what came out.
  void run_batch(uint32_t first, uint32_t rows);
  // The same in parts, for whoever cancels or discards.
  Status run_only(uint32_t first, uint32_t rows, const std::atomic<uint32_t>* cancel = nullptr);
  // The encoder's input of the case, whole.
  Status run_input(const std::atomic<uint32_t>* cancel = nullptr);
  // All batches of the options, behind the input where there is one.
  void run_all();
  // The compared Value [rows, columns] of all batches so far; with Extent::past [rows, columns, the whole sequence].
  const std::vector<float>& output() const { return output_; }
  void forget_output() { output_.clear(); }
  // Whether the last run wrote any of the compared Value, also one that did not get to its end.
  bool wrote_output() const;

  // Positions [0, positions) of a state in the shared form.
  std::vector<std::vector<uint8_t>> export_state(uint16_t state, uint32_t positions);
  uint64_t state_row_bytes(uint16_t state) const;
  // Fails when anything beside the memories, an input or a weight was written.
  void check_memory() const;

 private:
  void wire_plan();
  void lay_out_values();   // as the planner does, with what the backend may read behind them
  void make_backend(const BackendEntry& entry);
  void open();
  void fill_values(uint32_t first, uint32_t rows, Phase phase);
  void collect(uint32_t rows, size_t outputs);
  void collect_past(uint32_t rows);

  const Case& case_;
  RunOptions options_;
  bool supported_ = false;
  SessionShape shape_;
  Parallel parallel_;
  uint32_t most_lanes_ = 1;                 // that the batch may take
  std::vector<Step> steps_, blank_steps_;   // with the pointers wired, and with null vectors as while quoting
  Plan plan_, blank_plan_;
  std::vector<std::pair<GuardedMemory, std::vector<uint8_t>>> constants_;   // weights and what they must stay
  std::vector<GuardedMemory> value_memory_;                                 // by Value::id; empty where aliased
  std::vector<uint64_t> offset_bytes_;
  std::byte* base_ = nullptr;
  GuardedMemory engine_, model_, session_;
  uint32_t over_read_bytes_ = 0;
  Backend* backend_ = nullptr;
  bool shares_backend_ = false;
  Program* program_ = nullptr;
  Executor* executor_ = nullptr;
  size_t last_first_ = 0, last_rows_ = 0;   // of the last batch run
  Phase last_phase_ = Phase::decode;
  std::vector<float> output_;
};

// `executor`'s results of a state as f32, [positions, columns].
std::vector<float> state_values(Rig& rig, const Case& test_case);

// What a case gives on the oracle, everything in one batch.
std::vector<float> oracle(const Case& test_case);

// Empty, or a sentence with the worst element. NaN and infinities of the oracle must be not finite here too. `backend`:
// whose bounds hold, where it has some of its own.
std::string compare(const Case& test_case, const std::vector<float>& expected, const std::vector<float>& found,
                    std::string_view backend = {});
// Empty, or the first element whose bits differ.
std::string compare_bits(const std::vector<float>& expected, const std::vector<float>& found);

const BackendEntry& oracle_entry();

// The backends of the registry that have a device on this machine. MOTE_CONFORMANCE_BACKEND: only the one of that name
// (and an error when it has none).
std::vector<BackendEntry> backends_under_test();
// Otherwise MOTE_CONFORMANCE_BACKEND names one, which need not run every op.
bool tries_all_backends();
// Empty, or why the backend cannot be used here.
std::string why_unusable(const BackendEntry& entry);

}   // namespace mote::test
