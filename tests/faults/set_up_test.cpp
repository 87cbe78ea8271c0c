// Everything the library asks the system for fails once, one by one, and then from there on: each time a status with a
// sentence or an answer with the same bits, and nothing stays behind.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "core/handles.h"
#include "core/mote_dev.h"
#include "examples/skeleton_backend/skeleton_backend.h"
#include "tests/faults/scenario.h"
#include "tests/platform/temporary_folder.h"
#include "tests/support/guarded_memory.h"

namespace mote::test {
namespace {

// Keeps the process on two processors at most, so that the number of files about processors is that of a small machine.
class FewProcessors {
 public:
  FewProcessors() {
    cpu_set_t few;
    CPU_ZERO(&few);
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < 2; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &few);
    changed_ = sched_setaffinity(0, sizeof few, &few) == 0;
  }
  ~FewProcessors() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  FewProcessors(const FewProcessors&) = delete;
  FewProcessors& operator=(const FewProcessors&) = delete;

 private:
  cpu_set_t before_{};
  bool changed_ = false;
};

// The model in a file of its own, and behind 16384 other bytes in another one.
class Files {
 public:
  explicit Files(const Bytes& bytes) {
    const std::string text(bytes.begin(), bytes.end());
    path = folder_.write("model.gguf", text);
    descriptor = open(folder_.write("assets", std::string(16384, 'x') + text).c_str(), O_RDONLY);
  }
  ~Files() { ::close(descriptor); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  std::string path;
  int descriptor = -1;

 private:
  TemporaryFolder folder_;
};

std::vector<Scenario> scenarios(const Bytes& bytes, const Files& files) {
  std::vector<Scenario> all(6);
  for (Scenario& each : all) each.source.struct_bytes = sizeof each.source;
  for (size_t i : {0u, 1u, 5u}) {
    all[i].source.path = files.path.c_str();
    all[i].source_words = files.path;
  }
  for (size_t i : {2u, 3u}) {
    all[i].source.use_descriptor = 1;
    all[i].source.descriptor = files.descriptor;
    all[i].source.offset_bytes = 16384;
    all[i].source_words = "file descriptor " + std::to_string(files.descriptor);
  }
  all[1].source.load = all[3].source.load = MOTE_LOAD_COPY;
  all[5].source.load = MOTE_LOAD_PREFAULT;
  all[4].source.data = bytes.data();
  all[4].source.data_bytes = bytes.size();
  const char* kNames[] = {"path, mapped",       "path, copied", "descriptor, mapped",
                          "descriptor, copied", "bytes",        "path, prefaulted"};
  for (size_t i = 0; i < all.size(); ++i) all[i].name = kNames[i];
  return all;
}

struct Sweep {
  uint64_t n_calls = 0, n_refused = 0, n_tolerated = 0;
  uint64_t seen[static_cast<size_t>(SystemCall::count)] = {};
};

// The n-th call fails, for n = 1, 2, ... until a life in which it never comes.
Sweep sweep(const Scenario& scenario, bool from_then_on) {
  Sweep result;
  set_faults({});
  const Told quiet = live(scenario);
  CHECK(quiet.problems == "");
  CHECK(quiet.n_refused == 0);
  for (size_t i = 0; i < std::size(result.seen); ++i) result.seen[i] = calls_seen(static_cast<SystemCall>(i));
  const int threads = process_threads(), descriptors = process_descriptors();
  SystemCall kind = SystemCall::open;
  for (uint64_t n = 1;; ++n) {
    Faults faults;
    faults.at = n;
    faults.from_then_on = from_then_on;
    set_faults(faults);
    const Told told = live(scenario);
    const bool came = fault_came(&kind) || told.n_refused != 0;
    CAPTURE(scenario.name, from_then_on, n, told.first_sentence);
    if (!told.problems.empty()) FAIL_CHECK(told.problems);
    if (!(told.life == quiet.life)) FAIL_CHECK("the answers are other ones");
    if (!threads_go_down_to(threads)) FAIL_CHECK("threads are left");
    if (process_descriptors() != descriptors) FAIL_CHECK("descriptors are left");
    if (!came) break;
    ++result.n_calls;
    ++(told.n_refused != 0 ? result.n_refused : result.n_tolerated);
    if (n > 20'000) {
      FAIL_CHECK("it does not come to an end");
      break;
    }
  }
  set_faults({});
  CHECK(given_back_wrongly() == "");
  return result;
}

TEST_CASE("Each call to the system may fail once, or from then on: a status, nothing left, and the same bits after",
          "[faults][threads]") {
  const FewProcessors few;
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const Files files(bytes);
  const bool from_then_on = GENERATE(false, true);
  for (const Scenario& scenario : scenarios(bytes, files)) {
    const Sweep result = sweep(scenario, from_then_on);
    CAPTURE(scenario.name, from_then_on);
    const auto seen = [&](SystemCall call) { return result.seen[static_cast<size_t>(call)]; };
    // Threads, their attributes, engine, model, session and their scratch: none of these is to be had for nothing.
    CHECK(seen(SystemCall::start_thread) == 2);
    CHECK(seen(SystemCall::thread_attributes) == 1);
    CHECK(seen(SystemCall::stack_size) == 1);
    CHECK(seen(SystemCall::map) >= 7);
    CHECK(seen(SystemCall::map) == seen(SystemCall::unmap));
    CHECK(seen(SystemCall::open) > 0);
    CHECK(seen(SystemCall::read) > 0);
    CHECK((seen(SystemCall::read_at) > 0) == (scenario.source.load == MOTE_LOAD_COPY));
    CHECK((seen(SystemCall::file_size) > 0) == (scenario.source.data == nullptr));
    const bool is_mapped = scenario.source.data == nullptr && scenario.source.load != MOTE_LOAD_COPY;
    CHECK((seen(SystemCall::page_size) > 0) == is_mapped);
    CHECK((seen(SystemCall::advise) > 0) == (scenario.source.load == MOTE_LOAD_PREFAULT));
    CHECK(result.n_refused >= 11);
    CHECK(result.n_tolerated > 0);   // groups and topology that cannot be read, closes
  }
}

TEST_CASE("Each call to the system may fail while a backend fails: the failure is told, and what follows is the same",
          "[faults][threads][fallback]") {
  const FewProcessors few;
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const bool from_then_on = GENERATE(false, true);
  const auto fail_at = GENERATE(skeleton::FailAt::compile, skeleton::FailAt::open, skeleton::FailAt::run);
  Scenario scenario;
  scenario.name = "skeleton";
  scenario.source = source_of(bytes);
  scenario.backends = "skeleton,cpu";
  scenario.fail_at = skeleton::FailAt::never;
  const uint64_t without = sweep(scenario, from_then_on).seen[static_cast<size_t>(SystemCall::map)];
  scenario.fail_at = fail_at;
  const Sweep result = sweep(scenario, from_then_on);
  CAPTURE(static_cast<int>(fail_at), from_then_on);
  const auto seen = [&](SystemCall call) { return result.seen[static_cast<size_t>(call)]; };
  // Compile: a quote and the model again. Open: what the model compiles; the executors find room where those that did
  // not open would have been. Run: what the model compiles, the places of Values for a moment, the executors.
  const uint64_t more = fail_at == skeleton::FailAt::compile ? 2 : fail_at == skeleton::FailAt::open ? 1 : 3;
  CHECK(seen(SystemCall::map) == without + more);
  CHECK(seen(SystemCall::map) == seen(SystemCall::unmap));
}

TEST_CASE("With the bytes that the quotes list for it handed over, a fall-back asks the system for nothing",
          "[faults][fallback]") {
  set_faults({});
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  skeleton::Backend backend(skeleton::FailAt::run);
  void* extra[] = {static_cast<Backend*>(&backend)};
  mote_engine_options options = engine_options("skeleton,cpu");
  options.extra_backends = extra;
  options.n_extra_backends = 1;
  const Engine engine(options);
  const mote_session_options session_with = session_options(64, 16);
  const ModelQuotes quotes = quote_model(engine, bytes, session_with);
  REQUIRE(quotes.model.fallback_bytes > 0);
  REQUIRE(quotes.session.fallback_bytes > 0);
  for (const uint64_t missing : {uint64_t{0}, uint64_t{64}}) {
    const uint64_t model_bytes = quotes.model.total_bytes + quotes.model.fallback_bytes;
    const uint64_t session_bytes = quotes.session.total_bytes + quotes.session.fallback_bytes - missing;
    const GuardedMemory for_model(model_bytes, 64, Guard::pages, 0xA5);
    const GuardedMemory for_session(session_bytes, 64, Guard::pages, 0xA5);
    const Model model(engine, bytes, mote_memory{for_model.data(), model_bytes});
    mote_session* session = nullptr;
    const Tokens tokens = some_tokens(50, 256);
    set_faults({});
    {
      const Watch watch;
      REQUIRE(mote_session_open(model, &session_with, {for_session.data(), session_bytes}, &session, nullptr) ==
              MOTE_OK);
      CHECK(mote_feed(session, tokens.data(), tokens.size(), nullptr, nullptr) == MOTE_OK);
      CHECK(mote_dev_session_fallbacks(session) == 1);
      CHECK(mote_session_close(session, nullptr) == MOTE_OK);
    }
    CHECK(calls_seen(SystemCall::map) == (missing == 0 ? 0 : 1));
    CHECK(calls_seen() == 2 * calls_seen(SystemCall::map));
    CHECK(not_given_back() == "");
    CHECK(for_model.damage() + for_session.damage() == "");
  }
}

TEST_CASE("An engine with the default number of threads opens whatever cannot be read about the machine",
          "[faults][threads]") {
  const FewProcessors few;
  const int threads = process_threads();
  const mote_engine_options options = engine_options("auto", 0);
  uint64_t n_tolerated = 0;
  for (uint64_t n = 1;; ++n) {
    Faults faults;
    faults.at = n;
    set_faults(faults);
    mote_engine* engine = nullptr;
    mote_error error{-1, "untouched"};
    mote_status status;
    {
      const Watch watch;
      status = mote_engine_open(&options, {}, &engine, &error);
      if (engine != nullptr && mote_engine_threads(engine) == 0) status = MOTE_WRONG_STATE;
      mote_engine_close(engine, nullptr);
    }
    SystemCall kind = SystemCall::open;
    const bool came = fault_came(&kind);
    CAPTURE(n, system_call_name(kind), error.message);
    const bool must = came && (kind == SystemCall::map || kind == SystemCall::start_thread ||
                               kind == SystemCall::thread_attributes || kind == SystemCall::stack_size);
    CHECK(status == (must ? MOTE_OUT_OF_MEMORY : MOTE_OK));
    CHECK(not_given_back() == "");
    CHECK(threads_go_down_to(threads));
    if (!came) break;
    if (!must) ++n_tolerated;
    REQUIRE(n < 20'000);
  }
  set_faults({});
  CHECK(n_tolerated > 5);
  CHECK(given_back_wrongly() == "");
}

// Agrees to everything while it is measured, and refuses when it is meant: the memory is there by then.
class LateRefusal final : public Backend {
 public:
  explicit LateRefusal(skeleton::FailAt stage) : stage_(stage) {
    Arena arena(room_, sizeof room_);
    inner_ = built_in_backends().front().create({}, arena).value();
  }
  const char* name() const override { return "late"; }
  bool uses_host_values() const override { return true; }
  bool supports(const Step& step, const Plan& plan) const override { return inner_->supports(step, plan); }
  Result<Program*> compile(const PlanPart& part, Arena& arena, Footprint* footprint) override {
    if (stage_ == skeleton::FailAt::compile && !arena.measuring())
      return Status::error(Code::backend_failed, "late was told to fail when it compiles");
    return inner_->compile(part, arena, footprint);
  }
  Result<Executor*> open(const PlanPart& part, Program* program, const SessionShape& shape, const ValueMemory& values,
                         Arena& arena, Footprint* footprint) override {
    if (stage_ == skeleton::FailAt::open && !arena.measuring())
      return Status::error(Code::backend_failed, "late was told to fail when it opens a session");
    return inner_->open(part, program, shape, values, arena, footprint);
  }

 private:
  alignas(64) unsigned char room_[4096];
  skeleton::FailAt stage_;
  Backend* inner_ = nullptr;
};

TEST_CASE("A model or session that its backend refuses when there is memory for it leaves nothing behind", "[faults]") {
  set_faults({});
  const Bytes bytes = toy_llama({.n_layers = 1}).bytes();
  const mote_source source = source_of(bytes);
  for (const skeleton::FailAt stage : {skeleton::FailAt::compile, skeleton::FailAt::open}) {
    LateRefusal backend(stage);
    void* const extra[] = {static_cast<Backend*>(&backend)};
    mote_engine_options options = engine_options("late");
    options.extra_backends = extra;
    options.n_extra_backends = 1;
    const Engine engine(options);
    mote_model* model = nullptr;
    mote_session* session = nullptr;
    const Outcome refused = outcome([&](mote_error* error) {
      const Watch watch;
      const mote_status opened = mote_model_open(engine, &source, nullptr, {}, &model, error);
      return opened != MOTE_OK ? opened : mote_session_open(model, nullptr, {}, &session, error);
    });
    CHECK(refused.status == MOTE_BACKEND_FAILED);
    CHECK(contains(refused.sentence, "late was told to fail"));
    CHECK((model == nullptr) == (stage == skeleton::FailAt::compile));
    CHECK(session == nullptr);
    CHECK(not_given_back() == (model == nullptr ? "" : "1 mappings"));
    const Watch watch;
    CHECK(mote_model_close(model, nullptr) == MOTE_OK);   // counts no session
  }
  CHECK(not_given_back() == "");
  CHECK(given_back_wrongly() == "");
}

TEST_CASE("A second quote at the same time that gets no memory is told so, and the next one is served", "[faults]") {
  const Engine engine("cpu");
  const Model model(engine, toy_llama());
  const mote_session_options options = session_options(64, 16);
  const uint64_t alone = quote_session(model, options).total_bytes;
  static_cast<mote_model*>(model)->quoting.store(1);   // as if another thread were quoting
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  Faults faults;
  faults.at = 1;
  set_faults(faults);
  const Outcome refused = outcome([&](mote_error* error) {
    const Watch watch;
    return mote_session_quote(model, &options, &quote, error);
  });
  CHECK(refused.status == MOTE_BUSY);
  CHECK(contains(refused.sentence, "no memory for two"));
  set_faults({});
  const Outcome served = outcome([&](mote_error* error) {
    const Watch watch;
    return mote_session_quote(model, &options, &quote, error);
  });
  CHECK(served.status == MOTE_OK);
  CHECK(quote.total_bytes == alone);
  CHECK(not_given_back() == "");
  static_cast<mote_model*>(model)->quoting.store(0);
  CHECK(quote_session(model, options).total_bytes == alone);
}

}   // namespace
}   // namespace mote::test
