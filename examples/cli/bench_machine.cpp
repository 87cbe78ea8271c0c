#include "examples/cli/bench_machine.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "examples/cli/bench_warnings.h"

namespace cli {
namespace {

constexpr uint64_t kLeastBlock = 64u << 10, kMostBlock = 256u << 20;
constexpr double kLeastTicks = 100;   // a tick is 10 ms; fewer say nothing about a hundredth

double nanoseconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
}

}   // namespace

MachineLimits::MachineLimits(const mote_engine* engine, uint64_t read_bytes) : engine_(engine) {
  block_bytes_ = static_cast<size_t>(std::clamp(read_bytes, kLeastBlock, kMostBlock) / 4096 * 4096);
  void* const block = mmap(nullptr, block_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return;
  block_ = block;
#if defined(MADV_HUGEPAGE)
  madvise(block_, block_bytes_, MADV_HUGEPAGE);   // the limit is the memory, not its pages
#endif
  std::memset(block_, 1, block_bytes_);
}

// The peak of what comes later is then without the block, where Linux lets one say so.
MachineLimits::~MachineLimits() {
  if (block_ == nullptr) return;
  munmap(block_, block_bytes_);
  std::ofstream("/proc/self/clear_refs") << "5";
}

bool MachineLimits::measure() {
  mote_dev_limits limits{};
  if (block_ == nullptr || mote_dev_measure_limits(engine_, block_, block_bytes_, &limits, nullptr) != MOTE_OK)
    return false;
  rounds_.push_back(limits);
  return true;
}

mote_dev_limits MachineLimits::around(size_t run) const {
  mote_dev_limits best = rounds_[run];
  const mote_dev_limits& after = rounds_[std::min(run + 1, rounds_.size() - 1)];
  best.read_bytes_per_second = std::max(best.read_bytes_per_second, after.read_bytes_per_second);
  best.int8_operations_per_second = std::max(best.int8_operations_per_second, after.int8_operations_per_second);
  best.f32_operations_per_second = std::max(best.f32_operations_per_second, after.f32_operations_per_second);
  return best;
}

mote_dev_limits median_limits(const std::vector<mote_dev_limits>& rounds) {
  std::vector<double> read, int8, f32;
  for (const mote_dev_limits& round : rounds) {
    read.push_back(round.read_bytes_per_second);
    int8.push_back(round.int8_operations_per_second);
    f32.push_back(round.f32_operations_per_second);
  }
  mote_dev_limits middle = rounds.back();
  middle.read_bytes_per_second = median_of(read);
  middle.int8_operations_per_second = median_of(int8);
  middle.f32_operations_per_second = median_of(f32);
  return middle;
}

double process_cpu_ns() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? nanoseconds_of(usage.ru_utime) + nanoseconds_of(usage.ru_stime) : 0;
}

TimeCounters time_counters() {
  TimeCounters counters;
  counters.cpu_ns = process_cpu_ns();
  // /proc/<pid>/task/<tid>/schedstat: time on a processor, time ready and waiting, turns
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", none)) {
    double ran = 0, waited = 0;
    if (std::ifstream(task.path() / "schedstat") >> ran >> waited)
      counters.waited_ns = counters.waited_ns.value_or(0) + waited;
  }
  // cpu user nice system idle iowait irq softirq steal ...
  std::ifstream stat("/proc/stat");
  std::string word;
  double ticks[8] = {}, sum = 0;
  if (stat >> word && word == "cpu") {
    for (double& tick : ticks)
      if (stat >> tick) sum += tick;
    if (stat) counters.stolen = ticks[7], counters.all_ticks = sum;
  }
  return counters;
}

TimeShares shares_between(const TimeCounters& before, const TimeCounters& after) {
  TimeShares shares;
  shares.cpu_ns = after.cpu_ns - before.cpu_ns;
  if (before.waited_ns && after.waited_ns) {
    const double waited = std::max(0.0, *after.waited_ns - *before.waited_ns);
    if (shares.cpu_ns + waited > 0) shares.waited = waited / (shares.cpu_ns + waited);
  }
  if (before.all_ticks && after.all_ticks && *after.all_ticks - *before.all_ticks >= kLeastTicks)
    shares.stolen = (*after.stolen - *before.stolen) / (*after.all_ticks - *before.all_ticks);
  return shares;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "";
}

std::string affinity_text() {
  std::ifstream file("/proc/self/status");
  const std::string name = "Cpus_allowed_list:";
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name, 0) == 0) return line.substr(line.find_first_not_of(" \t", name.size()));
  return "";
}

}   // namespace cli
