// What makes the numbers of a benchmark doubtful.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace cli {

double median_of(std::vector<double> values);   // 0 of none

struct Doubts {
  std::vector<double> samples_ns;   // of the runs
  // What the machine reached alone in what these runs are bound by, before the first of them and behind each.
  std::vector<double> own_limits;
  std::vector<double> bandwidth_shares, compute_shares;   // of that, run by run
  std::optional<double> waited, stolen;                   // TimeShares
};
// In sentences; none where all is well.
std::vector<std::string> warnings_of(const Doubts& doubts);

}   // namespace cli
