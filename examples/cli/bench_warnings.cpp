#include "examples/cli/bench_warnings.h"

#include <algorithm>
#include <cstdio>

namespace cli {
namespace {

constexpr double kMostShare = 1.02;   // of a limit: beyond it the limit is none
constexpr double kMostSpread = 0.10, kMostLimitSpread = 0.15, kMostWaited = 0.02, kMostStolen = 0.01;

std::string as_percent(double share) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

// How far apart they lie, in medians.
double spread_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return (*most - *least) / median_of(values);
}

}   // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<std::string> warnings_of(const Doubts& doubts) {
  std::vector<std::string> found;
  const auto warn = [&](double measured, double most, const char* before, const char* after) {
    if (measured > most) found.push_back(before + as_percent(measured) + after);
  };
  warn(median_of(doubts.bandwidth_shares), kMostShare, "the yardstick is wrong: the work reads at ",
       " of what was measured as the limit");
  warn(median_of(doubts.compute_shares), kMostShare, "the yardstick is wrong: the work computes at ",
       " of what was measured as the limit");
  warn(spread_of(doubts.samples_ns), kMostSpread, "the machine is noisy: the runs lie ", " apart");
  warn(spread_of(doubts.own_limits), kMostLimitSpread, "the machine is throttled or shared: its own limit changed by ",
       " meanwhile");
  warn(doubts.waited.value_or(0), kMostWaited, "the machine is shared: others had the processors for ", " of the time");
  warn(doubts.stolen.value_or(0), kMostStolen, "the machine is shared: its host took ", " of the processors' time");
  return found;
}

}   // namespace cli
