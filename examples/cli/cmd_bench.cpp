// mote bench: speed, load time and memory, under the field names of llama-bench, and what share of the machine's limits
// that is.
//
// pp N: N tokens of a prompt at once; tg N: N tokens one after the other; each after a depth of D tokens that are not
// timed. Tokens are pseudo-random, since speed does not depend on which they are.
//
// The limits are measured on the same threads before the first run and behind each. A run is compared with the better
// of those on either side: reading with the bytes of all weights that it uses and of the keys and values that it sees,
// each once a batch; computing with two operations for each value of a matrix and each of the rows that it multiplies.
#include <algorithm>
#include <ctime>

#include "examples/cli/bench_report.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

struct BenchOptions {
  CommonOptions common;
  std::vector<std::string> prompts = {"512"}, generations = {"128"}, depths = {"0"}, threads;
  uint32_t batch = 512, repetitions = 5;
  bool no_warmup = false, profile = false;
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
      const double nanoseconds = profiled_runs(1).front();
      if (test_.n_prompt != 0) test_.first_token_ms = opened_.load_ms + nanoseconds * 1e-6;
    }
    if (!options_.no_warmup) test_.memory = process_memory();   // without the block that the limits are measured on
    time_runs();
    if (options_.no_warmup) test_.memory = process_memory();
    if (options_.profile)
      profiled_runs(options_.repetitions);
    else if (!test_.cost)
      profiled_runs(1);
    compare_with_limits();
    for (const std::string& name : backends_of(session_.get()))
      test_.backends += (test_.backends.empty() ? "" : ",") + name;
  }

 private:
  // Nothing stays pending, so that what is timed is exactly the tokens of the test.
  void feed(const std::vector<int32_t>& ids) {
    mote_error error{};
    check(mote_evaluate(session_.get(), ids.data(), ids.size(), nullptr, nullptr, nullptr, &error), error);
  }
  void rewind() {
    mote_error error{};
    check(mote_rewind(session_.get(), test_.n_depth, &error), error);
    if (test_.n_depth != 0) check(mote_step(session_.get(), &error), error);
  }
  double once() {
    mote_error error{};
    const Clock::time_point start = Clock::now();
    if (test_.n_prompt != 0) feed(prompt_);
    for (uint32_t i = 0; i < test_.n_gen; ++i) {
      const int32_t id = static_cast<int32_t>(i * 7919u % opened_.info.n_vocab);
      check(mote_feed(session_.get(), &id, 1, nullptr, &error), error);
      check(mote_step(session_.get(), &error), error);
    }
    return milliseconds_since(start) * 1e6;
  }

  void time_runs() {
    Progress progress(test_.name());
    // Weights of one token; those of a prompt are as many.
    MachineLimits limits(opened_.engine.get(),
                         test_.cost ? test_.cost->read_bytes / test_.cost->batches : opened_.info.weight_bytes);
    bool has_limits = limits.measure();
    const TimeCounters before = time_counters();
    double cpu_ns = 0;
    for (uint32_t i = 0; i < options_.repetitions; ++i) {
      rewind();
      const double cpu_before = process_cpu_ns();
      test_.samples_ns.push_back(once());
      cpu_ns += process_cpu_ns() - cpu_before;
      has_limits = has_limits && limits.measure();
      progress.show(i + 1, options_.repetitions);
    }
    test_.others = shares_between(before, time_counters());
    test_.others.cpu_ns = cpu_ns;   // of the runs alone
    if (!has_limits) return;
    test_.limits = limits.rounds();
    for (uint32_t i = 0; i < options_.repetitions; ++i) limits_.push_back(limits.around(i));
  }

  // Runs that are not counted, of which each step is; the first one tells what a run is worth. Returns their times.
  std::vector<double> profiled_runs(uint32_t count) {
    std::vector<double> times;
    std::optional<StepProfile> profile;
    for (uint32_t i = 0; i < count; ++i) {
      rewind();
      if (!profile) profile.emplace(opened_, session_.get());
      profile->forget();   // what the rewinding ran
      times.push_back(once());
      profile->end_run();
    }
    if (!test_.cost) test_.cost = profile->cost();
    if (options_.profile && !test_.samples_ns.empty()) {
      const mote_dev_limits limits = test_.limits.empty() ? mote_dev_limits{} : median_limits(test_.limits);
      test_.profile = profile->rows(times, std::max(1u, test_.n_gen), test_.limits.empty() ? nullptr : &limits);
    }
    return times;
  }

  void compare_with_limits() {
    for (size_t i = 0; i < limits_.size(); ++i) {
      const double seconds = test_.samples_ns[i] * 1e-9;
      test_.bandwidth_shares.push_back(test_.cost->seconds_reading(limits_[i]) / seconds);
      test_.compute_shares.push_back(test_.cost->seconds_computing(limits_[i]) / seconds);
    }
  }

  const BenchOptions& options_;
  const Opened& opened_;
  BenchTest& test_;
  Session session_;
  std::vector<int32_t> prompt_, depth_;
  std::vector<mote_dev_limits> limits_;   // around each timed run
};

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
  model.cpu_info = cpu_name();
  model.cpus = affinity_text();
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

// The number of tests that failed.
uint32_t run_with(const BenchOptions& options, std::unique_ptr<BenchReport>& report) {
  const Opened opened = open_text_model(options.common);
  if (report == nullptr) report = std::make_unique<BenchReport>(options.output, describe(options, opened));
  uint32_t failed = 0;
  for (BenchTest& test : list_tests(options)) {
    test.time = now_text();
    test.n_threads = mote_engine_threads(opened.engine.get());
    test.n_decode_threads = options.common.decode_threads != 0 ? options.common.decode_threads : test.n_threads;
    test.load_ms = opened.load_ms;
    try {
      Bench(options, opened, test).run();
    } catch (const Failure& failure) {
      if (failure.exit_code == kInterrupted) {
        report->finish();
        throw;
      }
      ++failed;
      test.error = failure.message;
      write_note("mote: " + test.name() + ": " + failure.message);
    }
    report->add(test);
  }
  return failed;
}

void run(BenchOptions options) {
  if (options.profile && options.output == "csv")
    throw Failure{kWrongUsage, "--profile has no place in csv; -o md and -o json show it"};
  list_tests(options);   // whether there are any, before the model is opened
  std::vector<uint32_t> threads = parse_counts(options.threads);
  if (threads.empty()) threads = {0};
  std::unique_ptr<BenchReport> report;
  uint32_t failed = 0;
  for (const uint32_t count : threads) {
    options.common.threads = count;
    failed += run_with(options, report);
  }
  report->finish();
  if (failed != 0) throw Failure{kFailed, ""};   // each has been told
}

}   // namespace

void add_bench(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure speed, share of the machine's limits, load time and memory, like llama-bench");
  add_options_but_threads(*command, options->common);
  auto list = [&](const char* name, std::vector<std::string>& values, uint32_t least, uint32_t most, const char* help) {
    command->add_option(name, values, help)->check(counts_between(least, most))->capture_default_str();
  };
  list("-p,--n-prompt", options->prompts, 0, 1u << 24, "Lengths of prompts; 0: none");
  list("-n,--n-gen", options->generations, 0, 1u << 24, "Numbers of generated tokens; 0: none");
  list("-d,--n-depth", options->depths, 0, 1u << 24, "Tokens already in the session");
  list("-t,--threads", options->threads, 1, 256,
       "Numbers of threads, one engine each; without it, what affinity, quota and fast cores give");
  add_decode_threads(*command, options->common);
  command->add_option("-b,--batch", options->batch, "Tokens computed at once")
      ->transform(decimal(1, 1u << 20))
      ->capture_default_str();
  command->add_option("-r,--repetitions", options->repetitions, "Timed runs of each test")
      ->transform(decimal(1, 1000000))
      ->capture_default_str();
  command->add_flag("--no-warmup", options->no_warmup, "Skip the first run that is not counted");
  command->add_flag("--profile", options->profile,
                    "Also what each kind of step takes, in as many runs that are not counted");
  command->add_option("-o,--output", options->output, "How the results are written")
      ->check(CLI::IsMember({"md", "json", "csv"}))
      ->capture_default_str();
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, false}; });
}

}   // namespace cli
