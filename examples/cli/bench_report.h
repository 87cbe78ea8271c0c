// The records of mote bench, as a table, as JSON or as CSV.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "examples/cli/bench_machine.h"
#include "examples/cli/bench_profile.h"

namespace cli {

struct BenchModel {
  std::string filename, type, kv_type, cpu_info, cpus, instruction_set;
  uint64_t weight_bytes = 0, n_parameters = 0;
  uint32_t n_batch = 0;
};

struct BenchTest {
  uint32_t n_prompt = 0, n_gen = 0, n_depth = 0, n_threads = 0;
  double load_ms = 0;
  std::string time{};                       // when it began, UTC
  std::string backends{};                   // that ran its end; empty where it failed
  std::vector<double> samples_ns{};         // one per timed run
  std::optional<double> first_token_ms{};   // loading and the first, cold run of a prompt
  nlohmann::ordered_json memory = nullptr;
  std::string error{};   // not empty: the test failed

  std::optional<RunCost> cost{};
  std::vector<mote_dev_limits> limits{};   // before the first run and behind each; empty where there are none
  // Of each run: what it would take at least, by the limits around it, over what it took.
  std::vector<double> bandwidth_shares{}, compute_shares{};
  TimeShares others{};
  std::vector<ProfileRow> profile{};

  std::string name() const;   // "pp512 @ d1024"
  bool is_prompt() const { return n_prompt != 0; }
  // What makes its numbers doubtful, in sentences.
  std::vector<std::string> warnings() const;
};

// Writes each record as it comes; what was written is whole after finish().
class BenchReport {
 public:
  BenchReport(const std::string& format, BenchModel model);
  void add(const BenchTest& test);
  void finish();

 private:
  nlohmann::ordered_json record(const BenchTest& test) const;
  void add_json(const nlohmann::ordered_json& record);
  void add_csv(const nlohmann::ordered_json& record);
  void add_row(const BenchTest& test, const nlohmann::ordered_json& record);

  std::string format_, limits_, profiles_;   // the last two come below the table
  BenchModel model_;
  uint64_t peak_bytes_ = 0;   // of the process, so far
  bool first_ = true;
};

}   // namespace cli
