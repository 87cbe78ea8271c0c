// mote bench: speed, load time and memory, under the field names of llama-bench.
//
// pp N: N tokens of a prompt at once; tg N: N tokens one after the other; each after a depth of D tokens that are not
// timed. Tokens are pseudo-random, since speed does not depend on which they are.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>

#include "examples/cli/bench_report.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

struct BenchOptions {
  CommonOptions common;
  std::vector<std::string> prompts = {"512"}, generations = {"128"}, depths = {"0"};
  uint32_t batch = 512, repetitions = 5;
  bool no_warmup = false;
  std::string output = "md";
};

std::vector<int32_t> random_tokens(uint32_t count, uint32_t n_vocab) {
  std::vector<int32_t> ids(count);
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (int32_t& id : ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;   // Knuth's linear congruential generator
    id = static_cast<int32_t>((state >> 33) % n_vocab);
  }
  return ids;
}

class Bench {
 public:
  Bench(const BenchOptions& options, const Opened& opened, BenchTest& test)
      : options_(options), opened_(opened), test_(test) {
    mote_session_options session_options = session_options_of(options.common, MOTE_KV_F16);
    const uint32_t needed = test.n_depth + test.n_prompt + test.n_gen;
    session_options.context = std::max(options.common.context, needed);
    session_options.max_batch = std::min(options.batch, session_options.context);
    session_ = open_session(opened, session_options);
    prompt_ = random_tokens(test.n_prompt, opened.info.n_vocab);
    depth_ = random_tokens(test.n_depth, opened.info.n_vocab);
  }

  void run() {
    const CancelOnInterrupt cancel(session_.get());
    if (!depth_.empty()) feed(depth_);
    if (!options_.no_warmup) {
      const double nanoseconds = once();
      if (test_.n_prompt != 0) test_.first_token_ms = opened_.load_ms + nanoseconds * 1e-6;
    }
    Progress progress(test_.name());
    for (uint32_t i = 0; i < options_.repetitions; ++i) {
      test_.samples_ns.push_back(once());
      progress.show(i + 1, options_.repetitions);
    }
    test_.memory = process_memory();
    for (const std::string& name : backends_of(session_.get()))
      test_.backends += (test_.backends.empty() ? "" : ",") + name;
  }

 private:
  // Nothing stays pending, so that what is timed is exactly the tokens of the test.
  void feed(const std::vector<int32_t>& ids) {
    mote_error error{};
    check(mote_feed(session_.get(), ids.data(), ids.size(), nullptr, &error), error);
    check(mote_step(session_.get(), &error), error);
  }
  double once() {
    mote_error error{};
    check(mote_rewind(session_.get(), test_.n_depth, &error), error);
    if (test_.n_depth != 0) check(mote_step(session_.get(), &error), error);
    const Clock::time_point start = Clock::now();
    if (test_.n_prompt != 0) feed(prompt_);
    for (uint32_t i = 0; i < test_.n_gen; ++i) {
      const int32_t id = static_cast<int32_t>(i * 7919u % opened_.info.n_vocab);
      check(mote_feed(session_.get(), &id, 1, nullptr, &error), error);
      check(mote_step(session_.get(), &error), error);
    }
    return milliseconds_since(start) * 1e6;
  }

  const BenchOptions& options_;
  const Opened& opened_;
  BenchTest& test_;
  Session session_;
  std::vector<int32_t> prompt_, depth_;
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "";
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  if (gmtime_r(&now, &parts) == nullptr || std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return "";
  return text;
}

// Name, largest weight format and counts: what llama-bench calls model_type.
std::string model_type(const Opened& opened) {
  std::vector<std::pair<uint64_t, std::string>> formats;
  for (uint32_t i = 0; i < opened.info.n_tensors; ++i) {
    mote_tensor tensor{};
    tensor.struct_bytes = sizeof tensor;
    mote_error error{};
    check(mote_model_tensor(opened.model.get(), i, &tensor, &error), error);
    const auto found =
        std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.second == tensor.format; });
    if (found == formats.end())
      formats.emplace_back(tensor.bytes, tensor.format);
    else
      found->first += tensor.bytes;
  }
  std::string type = opened.info.architecture == nullptr ? "" : opened.info.architecture;
  if (!formats.empty()) type += " " + std::max_element(formats.begin(), formats.end())->second;
  return type;
}

BenchModel describe(const BenchOptions& options, const Opened& opened) {
  BenchModel model;
  model.filename = options.common.model;
  model.type = model_type(opened);
  model.weight_bytes = opened.info.weight_bytes;
  model.n_parameters = opened.info.n_parameters;
  model.load_ms = opened.load_ms;
  model.cpu_info = cpu_name();
  model.n_threads = mote_engine_threads(opened.engine.get());
  model.n_batch = options.batch;
  const bool f32 = session_options_of(options.common, MOTE_KV_F16).kv_type == MOTE_KV_F32;
  model.instruction_set = instruction_set_of(options.common);
  model.kv_type = f32 ? "f32" : "f16";
  return model;
}

std::vector<BenchTest> list_tests(const BenchOptions& options) {
  std::vector<BenchTest> tests;
  for (uint32_t depth : parse_counts(options.depths)) {
    for (uint32_t n : parse_counts(options.prompts))
      if (n != 0) tests.push_back({n, 0, depth});
    for (uint32_t n : parse_counts(options.generations))
      if (n != 0) tests.push_back({0, n, depth});
  }
  if (tests.empty()) throw Failure{kWrongUsage, "-p and -n are 0: there is nothing to measure"};
  return tests;
}

void run(const BenchOptions& options) {
  std::vector<BenchTest> tests = list_tests(options);
  const Opened opened = open_text_model(options.common);
  BenchReport report(options.output, describe(options, opened));
  bool failed = false;
  for (BenchTest& test : tests) {
    test.time = now_text();
    try {
      Bench(options, opened, test).run();
    } catch (const Failure& failure) {
      if (failure.exit_code == kInterrupted) {
        report.finish();
        throw;
      }
      failed = true;
      test.error = failure.message;
      write_note("mote: " + test.name() + ": " + failure.message);
    }
    report.add(test);
  }
  report.finish();
  if (failed) throw Failure{kFailed, ""};   // each has been told
}

}   // namespace

void add_bench(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure speed, load time and memory, like llama-bench");
  add_common_options(*command, options->common);
  auto list = [&](const char* name, std::vector<std::string>& values, const char* help) {
    command->add_option(name, values, help)->check(counts_between(0, 1u << 24))->capture_default_str();
  };
  list("-p,--n-prompt", options->prompts, "Lengths of prompts; 0: none");
  list("-n,--n-gen", options->generations, "Numbers of generated tokens; 0: none");
  list("-d,--n-depth", options->depths, "Tokens already in the session");
  command->add_option("-b,--batch", options->batch, "Tokens computed at once")
      ->transform(decimal(1, 1u << 20))
      ->capture_default_str();
  command->add_option("-r,--repetitions", options->repetitions, "Timed runs of each test")
      ->transform(decimal(1, 1000000))
      ->capture_default_str();
  command->add_flag("--no-warmup", options->no_warmup, "Skip the first run that is not counted");
  command->add_option("-o,--output", options->output, "How the results are written")
      ->check(CLI::IsMember({"md", "json", "csv"}))
      ->capture_default_str();
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, false}; });
}

}   // namespace cli
