// The records of mote bench, as a table, as JSON or as CSV.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "examples/cli/common.h"

namespace cli {

struct BenchModel {
  std::string filename, type, kv_type, cpu_info, instruction_set;
  uint64_t weight_bytes = 0, n_parameters = 0;
  uint32_t n_threads = 0, n_batch = 0;
  double load_ms = 0;
};

struct BenchTest {
  uint32_t n_prompt = 0, n_gen = 0, n_depth = 0;
  std::string time{};                       // when it began, UTC
  std::string backends{};                   // that ran its end; empty where it failed
  std::vector<double> samples_ns{};         // one per timed run
  std::optional<double> first_token_ms{};   // loading and the first, cold run of a prompt
  nlohmann::ordered_json memory = nullptr;
  std::string error{};   // not empty: the test failed

  std::string name() const;   // "pp512 @ d1024"
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

  std::string format_;
  BenchModel model_;
  bool first_ = true;
};

}   // namespace cli
