#include "examples/cli/bench_report.h"

#include <cmath>
#include <cstdio>

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

std::string csv_field(const Json& value) {
  if (value.is_null()) return "\"\"";
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}   // namespace

std::string BenchTest::name() const {
  std::string text = n_prompt != 0 ? "pp" + std::to_string(n_prompt) : "tg" + std::to_string(n_gen);
  return n_depth == 0 ? text : text + " @ d" + std::to_string(n_depth);
}

BenchReport::BenchReport(const std::string& format, BenchModel model) : format_(format), model_(std::move(model)) {}

void BenchReport::add(const BenchTest& test) {
  const Json whole = record(test);
  if (format_ == "json")
    add_json(whole);
  else if (format_ == "csv")
    add_csv(whole);
  else
    add_row(test, whole);
  first_ = false;
}

void BenchReport::finish() {
  if (format_ == "json") write_output(first_ ? "[]\n" : "\n]\n");
}

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
            {"n_threads", model_.n_threads},
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
            {"instruction_set", model_.instruction_set},
            {"load_ms", model_.load_ms},
            {"first_token_ms", nullptr},
            {"anonymous_bytes", nullptr},
            {"file_backed_bytes", nullptr},
            {"peak_bytes", nullptr},
            {"error", nullptr}};
  if (!test.samples_ns.empty()) {
    r["avg_ns"] = std::llround(mean(test.samples_ns));
    r["stddev_ns"] = std::llround(deviation(test.samples_ns));
    r["avg_ts"] = mean(speeds);
    r["stddev_ts"] = deviation(speeds);
  }
  if (test.first_token_ms) r["first_token_ms"] = *test.first_token_ms;
  if (test.memory.is_object()) r.update(test.memory);
  if (!test.error.empty()) r["error"] = test.error;
  return r;
}

void BenchReport::add_json(const Json& record) { write_output((first_ ? "[\n" : ",\n") + json_text(record, 1)); }

// Without the samples, as llama-bench has it.
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
        "| model | size | params | backend | threads | test | t/s | load ms | first token ms | anonymous | file-backed "
        "|\n"
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  char speed[64] = "failed", load[32], first[32] = "", parameters[32];
  if (test.error.empty())
    std::snprintf(speed, sizeof speed, "%.2f ± %.2f", record["avg_ts"].get<double>(),
                  record["stddev_ts"].get<double>());
  std::snprintf(load, sizeof load, "%.1f", model_.load_ms);
  if (test.first_token_ms) std::snprintf(first, sizeof first, "%.1f", *test.first_token_ms);
  std::snprintf(parameters, sizeof parameters, "%.2f M", static_cast<double>(model_.n_parameters) * 1e-6);
  auto bytes = [&](const char* name) { return record[name].is_null() ? "" : human_bytes(record[name]); };
  text += "| " + printable(model_.type) + " | " + human_bytes(model_.weight_bytes) + " | " + parameters + " | " +
          test.backends + " | " + std::to_string(model_.n_threads) + " | " + test.name() + " | " + speed + " | " +
          load + " | " + first + " | " + bytes("anonymous_bytes") + " | " + bytes("file_backed_bytes") + " |\n";
  write_output(text);
}

}   // namespace cli
