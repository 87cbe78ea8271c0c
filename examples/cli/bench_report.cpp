#include "examples/cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/cli/bench_warnings.h"
#include "examples/cli/printable.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of a sample; 0 for a single one, as llama-bench has it.
double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// "%.1f" of a number.
std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string percent(double share) { return formatted("%.1f %%", share * 100); }

std::string csv_field(const Json& value) {
  if (value.is_null()) return "\"\"";
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

Json profile_json(const std::vector<ProfileRow>& rows) {
  Json list = Json::array();
  for (const ProfileRow& row : rows)
    list.push_back({{"op", row.op},
                    {"format", row.format},
                    {"steps", row.steps},
                    {"ns", row.nanoseconds},
                    {"share_of_time", row.share_of_time},
                    {"bytes", row.read_bytes},
                    {"value_bytes", row.value_bytes},
                    {"int8_operations", row.int8_operations},
                    {"f32_operations", row.f32_operations},
                    {"share_of_limit", row.share_of_limit > 0 ? Json(row.share_of_limit) : Json(nullptr)}});
  return list;
}

std::string profile_table(const BenchTest& test) {
  std::string text = "\n" + test.name() + ", " + test.threads() + " threads, ";
  text += test.is_prompt() ? "the whole prompt:\n\n" : "one token:\n\n";
  text +=
      "| op | format | steps | ms | of the time | MB read | MB values | int8 Gop | f32 Gop | of the limit |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const ProfileRow& row : test.profile) {
    const auto scaled = [](uint64_t amount, double by) {
      return amount == 0 ? std::string() : formatted("%.3f", static_cast<double>(amount) * by);
    };
    text += "| " + row.op + " | " + row.format + " | " + (row.steps == 0 ? "" : std::to_string(row.steps)) + " | " +
            formatted("%.4f", row.nanoseconds * 1e-6) + " | " + percent(row.share_of_time) + " | " +
            scaled(row.read_bytes, 1e-6) + " | " + scaled(row.value_bytes, 1e-6) + " | " +
            scaled(row.int8_operations, 1e-9) + " | " + scaled(row.f32_operations, 1e-9) + " | " +
            (row.share_of_limit > 0 ? percent(row.share_of_limit) : "") + " |\n";
  }
  return text;
}

std::string limits_text(const BenchTest& test) {
  const mote_dev_limits limits = median_limits(test.limits);
  return "- " + test.name() + ", " + std::to_string(test.n_threads) + " threads: read " +
         formatted("%.2f GB/s", limits.read_bytes_per_second * 1e-9) + " (" + limits.read_loop + "), int8 " +
         formatted("%.1f Gop/s", limits.int8_operations_per_second * 1e-9) + " (" + limits.int8_loop + "), f32 " +
         formatted("%.1f Gop/s", limits.f32_operations_per_second * 1e-9) + " (" + limits.f32_loop + ")\n";
}

}   // namespace

std::string BenchTest::name() const {
  std::string text = n_prompt != 0 ? "pp" + std::to_string(n_prompt) : "tg" + std::to_string(n_gen);
  return n_depth == 0 ? text : text + " @ d" + std::to_string(n_depth);
}

std::string BenchTest::threads() const {
  const bool some = !is_prompt() && n_decode_threads < n_threads;
  return (some ? std::to_string(n_decode_threads) + " of " : "") + std::to_string(n_threads);
}

std::vector<std::string> BenchTest::warnings() const {
  Doubts doubts = {samples_ns, {}, bandwidth_shares, compute_shares, others.waited, others.stolen};
  const bool in_int8 = cost && cost->int8_operations != 0;
  for (const mote_dev_limits& round : limits)
    doubts.own_limits.push_back(!is_prompt() ? round.read_bytes_per_second
                                : in_int8    ? round.int8_operations_per_second
                                             : round.f32_operations_per_second);
  return warnings_of(doubts);
}

BenchReport::BenchReport(const std::string& format, BenchModel model) : format_(format), model_(std::move(model)) {}

void BenchReport::add(const BenchTest& test) {
  Json whole = record(test);
  if (!whole["peak_bytes"].is_null())
    whole["peak_bytes"] = peak_bytes_ = std::max<uint64_t>(peak_bytes_, whole["peak_bytes"]);
  if (format_ == "json")
    add_json(whole);
  else if (format_ == "csv")
    add_csv(whole);
  else
    add_row(test, whole);
  first_ = false;
  for (const std::string& warning : test.warnings()) write_note("warning: " + test.name() + ": " + warning);
}

void BenchReport::finish() {
  if (format_ == "json") write_output(first_ ? "[]\n" : "\n]\n");
  if (!limits_.empty() || !profiles_.empty()) write_output(limits_ + profiles_);
}

namespace {

// What was reached, and of what.
void add_limits(const BenchTest& test, Json* record) {
  Json& r = *record;
  const double tokens = test.n_prompt + test.n_gen, seconds = mean(test.samples_ns) * 1e-9;
  r["cpu_ns_per_token"] = test.others.cpu_ns / (tokens * static_cast<double>(test.samples_ns.size()));
  if (test.others.waited) r["waited_share"] = *test.others.waited;
  if (test.others.stolen) r["stolen_share"] = *test.others.stolen;
  if (test.cost) {
    const auto operations = static_cast<double>(test.cost->int8_operations + test.cost->f32_operations);
    r["bytes_per_token"] = static_cast<double>(test.cost->read_bytes) / tokens;
    r["int8_operations_per_token"] = static_cast<double>(test.cost->int8_operations) / tokens;
    r["f32_operations_per_token"] = static_cast<double>(test.cost->f32_operations) / tokens;
    r["bytes_per_second"] = static_cast<double>(test.cost->read_bytes) / seconds;
    r["operations_per_second"] = operations / seconds;
  }
  if (test.limits.empty()) return;
  const mote_dev_limits limits = median_limits(test.limits);
  r["limit_bytes_per_second"] = limits.read_bytes_per_second;
  r["limit_int8_operations_per_second"] = limits.int8_operations_per_second;
  r["limit_f32_operations_per_second"] = limits.f32_operations_per_second;
  r["read_loop"] = limits.read_loop;
  r["int8_loop"] = limits.int8_loop;
  r["f32_loop"] = limits.f32_loop;
  r["bandwidth_share"] = median_of(test.bandwidth_shares);
  r["compute_share"] = median_of(test.compute_shares);
}

}   // namespace

// llama-bench's names first, then mote's own. Numbers that are not defined are null.
Json BenchReport::record(const BenchTest& test) const {
  std::vector<double> speeds;
  Json samples_ns = Json::array();
  for (double nanoseconds : test.samples_ns) {
    speeds.push_back((test.n_prompt + test.n_gen) / (nanoseconds * 1e-9));
    samples_ns.push_back(std::llround(nanoseconds));
  }
  Json r = {{"build_version", mote_version()},
            {"cpu_info", model_.cpu_info},
            {"backends", test.backends},
            {"model_filename", model_.filename},
            {"model_type", model_.type},
            {"model_size", model_.weight_bytes},
            {"model_n_params", model_.n_parameters},
            {"n_batch", model_.n_batch},
            {"n_ubatch", model_.n_batch},
            {"n_threads", test.n_threads},
            {"type_k", model_.kv_type},
            {"type_v", model_.kv_type},
            {"use_mmap", true},
            {"n_prompt", test.n_prompt},
            {"n_gen", test.n_gen},
            {"n_depth", test.n_depth},
            {"test_time", test.time},
            {"avg_ns", nullptr},
            {"stddev_ns", nullptr},
            {"avg_ts", nullptr},
            {"stddev_ts", nullptr},
            {"samples_ns", samples_ns},
            {"samples_ts", speeds},
            {"n_decode_threads", test.n_decode_threads},
            {"instruction_set", model_.instruction_set},
            {"cpus", model_.cpus},
            {"load_ms", test.load_ms},
            {"first_token_ms", nullptr},
            {"anonymous_bytes", nullptr},
            {"file_backed_bytes", nullptr},
            {"peak_bytes", nullptr}};
  for (const char* name :
       {"cpu_ns_per_token", "waited_share", "stolen_share", "bytes_per_token", "int8_operations_per_token",
        "f32_operations_per_token", "bytes_per_second", "operations_per_second", "limit_bytes_per_second",
        "limit_int8_operations_per_second", "limit_f32_operations_per_second", "read_loop", "int8_loop", "f32_loop",
        "bandwidth_share", "compute_share"})
    r[name] = nullptr;
  r["warnings"] = test.warnings();
  r["profile"] = profile_json(test.profile);
  r["error"] = nullptr;
  if (!test.samples_ns.empty()) {
    r["avg_ns"] = std::llround(mean(test.samples_ns));
    r["stddev_ns"] = std::llround(deviation(test.samples_ns));
    r["avg_ts"] = mean(speeds);
    r["stddev_ts"] = deviation(speeds);
    add_limits(test, &r);
  }
  if (test.first_token_ms) r["first_token_ms"] = *test.first_token_ms;
  if (test.memory.is_object()) r.update(test.memory);
  if (!test.error.empty()) r["error"] = test.error;
  return r;
}

void BenchReport::add_json(const Json& record) { write_output((first_ ? "[\n" : ",\n") + json_text(record, 1)); }

// Without the lists, as llama-bench has it.
void BenchReport::add_csv(const Json& record) {
  std::string names, values;
  for (const auto& [name, value] : record.items()) {
    if (value.is_array()) continue;
    names += (names.empty() ? "" : ",") + name;
    values += (values.empty() ? "" : ",") + csv_field(value);
  }
  write_output((first_ ? names + "\n" : "") + values + "\n");
}

void BenchReport::add_row(const BenchTest& test, const Json& record) {
  std::string text;
  if (first_)
    text =
        "| model | size | params | backend | threads | test | t/s | reached | of the limit | load ms | first token ms "
        "| anonymous | file-backed |\n"
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  std::string speed = "failed", reached, share;
  if (test.error.empty())
    speed = formatted("%.2f", record["avg_ts"].get<double>()) + formatted(" ± %.2f", record["stddev_ts"].get<double>());
  if (test.error.empty() && test.cost)
    reached = test.is_prompt() ? formatted("%.1f Gop/s", record["operations_per_second"].get<double>() * 1e-9)
                               : formatted("%.2f GB/s", record["bytes_per_second"].get<double>() * 1e-9);
  if (test.error.empty() && !test.limits.empty()) {
    const char* kind = !test.is_prompt() ? " of reading" : test.cost->int8_operations != 0 ? " of int8" : " of f32";
    share = percent(record[test.is_prompt() ? "compute_share" : "bandwidth_share"].get<double>()) + kind;
  }
  auto bytes = [&](const char* name) { return record[name].is_null() ? "" : human_bytes(record[name]); };
  text += "| " + printable(model_.type) + " | " + human_bytes(model_.weight_bytes) + " | " +
          formatted("%.2f M", static_cast<double>(model_.n_parameters) * 1e-6) + " | " + test.backends + " | " +
          test.threads() + " | " + test.name() + " | " + speed + " | " + reached + " | " + share + " | " +
          formatted("%.1f", test.load_ms) + " | " +
          (test.first_token_ms ? formatted("%.1f", *test.first_token_ms) : "") + " | " + bytes("anonymous_bytes") +
          " | " + bytes("file_backed_bytes") + " |\n";
  write_output(text);
  if (!test.limits.empty())
    limits_ += (limits_.empty() ? "\nLimits of this machine, between the runs:\n\n" : "") + limits_text(test);
  if (!test.profile.empty()) profiles_ += profile_table(test);
}

}   // namespace cli
