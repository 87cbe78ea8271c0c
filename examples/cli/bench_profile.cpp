#include "examples/cli/bench_profile.h"

#include <algorithm>

#include "examples/cli/bench_warnings.h"

namespace cli {
namespace {

mote_dev_step step_of(const mote_model* model, size_t index) {
  mote_dev_step step{};
  mote_error error{};
  check(mote_dev_get_step(model, static_cast<uint32_t>(index), &step, &error), error);
  return step;
}

double seconds_at(uint64_t amount, double per_second) {
  return amount == 0 || per_second <= 0 ? 0 : static_cast<double>(amount) / per_second;
}

}   // namespace

double RunCost::seconds_reading(const mote_dev_limits& limits) const {
  return seconds_at(read_bytes, limits.read_bytes_per_second);
}
double RunCost::seconds_computing(const mote_dev_limits& limits) const {
  return seconds_at(int8_operations, limits.int8_operations_per_second) +
         seconds_at(f32_operations, limits.f32_operations_per_second);
}

StepProfile::StepProfile(const Opened& opened, mote_session* session)
    : opened_(opened), session_(session), sums_(mote_dev_step_count(opened.model.get())) {
  mote_error error{};
  check(mote_dev_profile(session_, sums_.data(), static_cast<uint32_t>(sums_.size()), &error), error);
}

StepProfile::~StepProfile() { mote_dev_profile(session_, nullptr, 0, nullptr); }

void StepProfile::forget() { std::fill(sums_.begin(), sums_.end(), mote_dev_step_profile{}); }

void StepProfile::end_run() {
  runs_.push_back(sums_);
  divide_times(runs_.back());
  forget();
}

RunCost StepProfile::cost() const {
  RunCost cost;
  const std::vector<mote_dev_step_profile>& run = runs_.front();
  for (size_t i = 0; i < run.size(); ++i) {
    cost.batches = std::max(cost.batches, run[i].batches);
    cost.read_bytes += run[i].weight_bytes + run[i].state_bytes;
    if (*step_of(opened_.model.get(), i).format == 0) continue;   // no matrix
    cost.int8_operations += run[i].int8_operations;
    cost.f32_operations += run[i].f32_operations;
  }
  return cost;
}

// A backend may run neighbouring steps of one op as one, which the first of them then accounts for: each gets its part
// of the time by the bytes that it reads.
void StepProfile::divide_times(std::vector<mote_dev_step_profile>& run) const {
  for (size_t first = 0, next = 0; first < run.size(); first = next) {
    const std::string op = step_of(opened_.model.get(), first).op;
    uint64_t bytes = run[first].weight_bytes;
    for (next = first + 1; next < run.size() && run[next].nanoseconds == 0 && run[next].batches != 0 &&
                           step_of(opened_.model.get(), next).op == op;
         ++next)
      bytes += run[next].weight_bytes;
    if (next == first + 1 || bytes == 0) continue;
    const double per_byte = static_cast<double>(run[first].nanoseconds) / static_cast<double>(bytes);
    for (size_t i = first; i < next; ++i)
      run[i].nanoseconds = static_cast<uint64_t>(per_byte * static_cast<double>(run[i].weight_bytes));
  }
}

std::vector<ProfileRow> StepProfile::rows(const std::vector<double>& whole_ns, uint32_t n,
                                          const mote_dev_limits* limits) const {
  std::vector<ProfileRow> rows;
  std::vector<std::vector<double>> times;   // [rows][runs]
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (runs_.front()[i].batches == 0) continue;
    const mote_dev_step step = step_of(opened_.model.get(), i);
    const auto same = [&](const ProfileRow& row) { return row.op == step.op && row.format == step.format; };
    const auto found = std::find_if(rows.begin(), rows.end(), same);
    const auto index = static_cast<size_t>(found - rows.begin());
    if (found == rows.end()) {
      rows.push_back({step.op, step.format});
      times.emplace_back(runs_.size(), 0.0);
    }
    const mote_dev_step_profile& first = runs_.front()[i];
    ProfileRow& row = rows[index];
    ++row.steps;
    row.read_bytes += first.weight_bytes + first.state_bytes;
    row.value_bytes += first.value_bytes;
    row.int8_operations += first.int8_operations;
    row.f32_operations += first.f32_operations;
    for (size_t run = 0; run < runs_.size(); ++run) times[index][run] += static_cast<double>(runs_[run][i].nanoseconds);
  }
  const double whole = median_of(whole_ns) / n;
  double told = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    ProfileRow& row = rows[i];
    row.nanoseconds = median_of(times[i]) / n;
    for (uint64_t* sum : {&row.read_bytes, &row.value_bytes, &row.int8_operations, &row.f32_operations}) *sum /= n;
    row.share_of_time = whole > 0 ? row.nanoseconds / whole : 0;
    told += row.nanoseconds;
    if (limits == nullptr || row.nanoseconds <= 0) continue;
    const RunCost cost = {row.read_bytes, 1, row.int8_operations, row.f32_operations};
    row.share_of_limit =
        std::max(cost.seconds_reading(*limits), cost.seconds_computing(*limits)) * 1e9 / row.nanoseconds;
  }
  std::sort(rows.begin(), rows.end(),
            [](const ProfileRow& a, const ProfileRow& b) { return a.nanoseconds > b.nanoseconds; });
  ProfileRow rest;
  rest.op = "(between steps)";
  rest.nanoseconds = std::max(0.0, whole - told);
  rest.share_of_time = whole > 0 ? rest.nanoseconds / whole : 0;
  rows.push_back(rest);
  return rows;
}

}   // namespace cli
