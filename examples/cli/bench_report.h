// The records of mote bench, as a table, as JSON or as CSV. Names that llama-bench has mean what they mean there. Of
// the others, null where they are not known:
//
//   n_decode_threads              of the n_threads, those that run batches of one token
//   load_ms, first_token_ms       opening engine and model; that and the first, cold run of the prompt
//   anonymous_bytes ...           of the process, after the first run; peak_bytes: so far
//   cpus, cpu_ns_per_token        where the process may run; the CPU time of the timed runs
//   limit_..., read_loop ...      the machine's limits between the runs on all n_threads, the median, and the loops
//                                 that reached them: reading a block about as large as what a token reads (64 KiB to
//                                 256 MiB), products and sums of int8 and of f32, two operations a pair
//   bytes_per_token, .._second    of the weights that are used and of the keys and values that are seen or written,
//   each
//                                 once a batch
//   .._operations_per_token ...   2 x the values of a matrix x the rows that it multiplies, in int8 for block formats,
//   in
//                                 f32 for f32, f16 and bf16; attention does not count. The last token of a prompt is a
//                                 batch of its own, whose weights count again
//   bandwidth_share               what reading these bytes takes at least, at limit_bytes_per_second, over what it took
//   compute_share                 the same of the operations. Each run is compared with the better of the limits that
//   were
//                                 measured on either side of it; the median of the runs counts
//   waited_share, stolen_share    time in which others had the processors, as Linux's schedstat and /proc/stat count it
//   warnings                      what makes the numbers doubtful (bench_warnings.cpp); also on standard error
//   profile                       with --profile, from as many more runs: of one prompt, or of one token, by op and
//   format,
//                                 `ns` (the median), `bytes` as above, `value_bytes` (f32 in and out), operations with
//                                 attention's, `share_of_limit`: the greater of the two shares; null for what only
//                                 moves values. What comes out of caches may pass 1
//
// To add one: in BenchReport::record or add_limits, here, and in Bench.FIELDS of tests/cli/bench_test.py.
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
  uint32_t n_prompt = 0, n_gen = 0, n_depth = 0, n_threads = 0, n_decode_threads = 0;
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

  std::string name() const;      // "pp512 @ d1024"
  std::string threads() const;   // "2", or "1 of 2" that decode
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
