// A backend from outside of the tree: it takes the steps it supports, and others take over where it fails.
#include "examples/skeleton_backend/skeleton_backend.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/mote.h"
#include "core/mote_dev.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"
#include "tests/support/toy_model.h"

namespace mote::test {
namespace {

using skeleton::FailAt;

// An engine with the skeleton in it, a toy model and a session, as far as they open.
struct Chain {
  skeleton::Backend backend;
  std::vector<uint8_t> bytes = toy_llama({}).bytes();
  mote_engine* engine = nullptr;
  mote_model* model = nullptr;
  mote_session* session = nullptr;
  mote_status status = MOTE_OK;
  std::string failed_in;
  mote_error error = {};

  explicit Chain(const char* backends, FailAt fail_at = FailAt::never, int32_t on_failure = 0) : backend(fail_at) {
    void* const extra[] = {static_cast<Backend*>(&backend)};
    mote_engine_options engine_options = {};
    engine_options.struct_bytes = sizeof engine_options;
    engine_options.backends = backends;
    engine_options.threads = 1;
    engine_options.extra_backends = extra;
    engine_options.n_extra_backends = 1;
    mote_source source = {};
    source.struct_bytes = sizeof source;
    source.data = bytes.data();
    source.data_bytes = bytes.size();
    mote_session_options session_options = {};
    session_options.struct_bytes = sizeof session_options;
    session_options.context = 64;
    session_options.max_output_rows = 4;
    session_options.kv_type = MOTE_KV_F32;
    session_options.on_backend_failure = on_failure;
    step("engine", mote_engine_open(&engine_options, {}, &engine, &error));
    if (status == MOTE_OK) step("model", mote_model_open(engine, &source, nullptr, {}, &model, &error));
    if (status == MOTE_OK) step("session", mote_session_open(model, &session_options, {}, &session, &error));
  }
  ~Chain() {
    mote_session_close(session, nullptr);
    mote_model_close(model, nullptr);
    mote_engine_close(engine, nullptr);
  }
  Chain(const Chain&) = delete;

  void step(const char* what, mote_status now) {
    status = now;
    if (now != MOTE_OK) failed_in = what;
  }

  std::vector<float> logits(const std::vector<int32_t>& tokens) {
    std::vector<float> all;
    const auto append_rows = [](void* user, size_t, size_t rows, const float* values, size_t n_vocab) -> int32_t {
      auto* to = static_cast<std::vector<float>*>(user);
      to->insert(to->end(), values, values + rows * n_vocab);
      return 0;
    };
    step("run", mote_evaluate(session, tokens.data(), tokens.size(), append_rows, &all, nullptr, &error));
    return all;
  }
};

const std::vector<int32_t> kTokens = {5, 300, 17, 42, 9, 9, 250, 31, 7, 128, 64};

// A backend from headers of another version: nothing of it but its name and its number may be looked at.
class FromOtherHeaders final : public Backend {
 public:
  FromOtherHeaders() : Backend(kInterfaceVersion + 1) {}
  const char* name() const override { return "older"; }
  bool uses_host_values() const override { throw "uses_host_values was called"; }
  bool supports(const Step&, const Plan&) const override { throw "supports was called"; }
  Result<Program*> compile(const PlanPart&, Arena&, Footprint*) override { throw "compile was called"; }
  Result<Executor*> open(const PlanPart&, Program*, const SessionShape&, const ValueMemory&, Arena&,
                         Footprint*) override {
    throw "open was called";
  }
};

}   // namespace

TEST_CASE("A backend compiled against other headers is refused by name when the engine opens", "[examples][skeleton]") {
  FromOtherHeaders older;
  void* const extra[] = {static_cast<Backend*>(&older)};
  for (const char* backends : {"older,cpu", "cpu", "auto"}) {
    mote_engine_options options = {};
    options.struct_bytes = sizeof options;
    options.backends = backends;
    options.extra_backends = extra;
    options.n_extra_backends = 1;
    mote_engine* engine = nullptr;
    mote_error error = {};
    CHECK(mote_engine_open(&options, {}, &engine, &error) == MOTE_UNSUPPORTED);
    CHECK(engine == nullptr);
    CHECK(std::string(error.message) == "backend older was compiled against interface " +
                                            std::to_string(kInterfaceVersion + 1) + " of core/ops; this library has " +
                                            std::to_string(kInterfaceVersion));
  }
  CHECK(skeleton::Backend().interface_version() == kInterfaceVersion);
  CHECK(interface_version<char>() != interface_version<int>());   // another size, another number
}

TEST_CASE("A model on skeleton and cpu gives the logits of cpu within rounding", "[examples][skeleton]") {
  Chain both("skeleton,cpu"), alone("cpu");
  INFO(both.error.message << alone.error.message);
  const std::vector<float> expected = alone.logits(kTokens), found = both.logits(kTokens);
  REQUIRE(alone.status == MOTE_OK);
  REQUIRE(both.status == MOTE_OK);
  REQUIRE(found.size() == expected.size());
  double largest = 1, worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
  }
  CHECK(worst <= 2e-4 * largest);   // the limit of the goldens for f32 weights
}

TEST_CASE("The skeleton runs every step it supports, and no other", "[examples][skeleton]") {
  Chain chain("skeleton,cpu");
  REQUIRE(chain.status == MOTE_OK);
  std::set<std::string> on_skeleton, on_cpu;
  for (uint32_t i = 0; i < mote_dev_step_count(chain.model); ++i) {
    mote_dev_step step = {};
    REQUIRE(mote_dev_get_step(chain.model, i, &step, nullptr) == MOTE_OK);
    (std::string(step.backend) == "skeleton" ? on_skeleton : on_cpu).insert(step.op);
  }
  CHECK(on_skeleton == std::set<std::string>{"add", "gate"});
  CHECK(on_cpu.count("linear") == 1);
  CHECK(on_cpu.count("add") + on_cpu.count("gate") == 0);
}

TEST_CASE("Where the skeleton fails, cpu goes on with its own bits", "[examples][skeleton][fallback]") {
  for (const FailAt fail_at : {FailAt::compile, FailAt::open, FailAt::run}) {
    Chain chain("skeleton,cpu", fail_at), alone("cpu");
    CAPTURE(static_cast<int>(fail_at), chain.failed_in, chain.error.message);
    REQUIRE(chain.status == MOTE_OK);
    const std::vector<float> expected = alone.logits(kTokens), found = chain.logits(kTokens);
    REQUIRE(chain.status == MOTE_OK);
    REQUIRE(found.size() == expected.size());
    CHECK(mote_dev_session_fallbacks(chain.session) == (fail_at == FailAt::compile ? 0 : 1));
    // At work it fails in the third batch of four tokens: what came before had the skeleton's bits.
    const size_t from = fail_at == FailAt::run ? 8 * expected.size() / kTokens.size() : 0;
    CHECK(std::equal(found.begin() + static_cast<std::ptrdiff_t>(from), found.end(),
                     expected.begin() + static_cast<std::ptrdiff_t>(from)));
    for (uint32_t i = 0; i < mote_dev_step_count(chain.model); ++i)
      REQUIRE(std::string(mote_dev_session_backend(chain.session, i)) == "cpu");
  }
}

TEST_CASE("A session that wants no other backend is told what failed", "[examples][skeleton][fallback]") {
  struct Failure {
    FailAt fail_at;
    const char* failed_in;
    const char* words;
  };
  for (const Failure& failure :
       {Failure{FailAt::open, "session", "fail when it opens"}, Failure{FailAt::run, "run", "fail when it runs"}}) {
    Chain chain("skeleton,cpu", failure.fail_at, MOTE_ON_BACKEND_FAILURE_STOP);
    if (chain.status == MOTE_OK) (void)chain.logits(kTokens);
    INFO(failure.failed_in << ": " << chain.error.message);
    CHECK(chain.status == MOTE_BACKEND_FAILED);
    CHECK(chain.failed_in == failure.failed_in);
    CHECK(std::string(chain.error.message).find(failure.words) != std::string::npos);
    if (chain.session == nullptr) continue;
    size_t n_tokens = 99;   // a batch that failed is not in the history
    const int32_t* history = nullptr;
    CHECK(mote_history(chain.session, &history, &n_tokens, nullptr) == MOTE_OK);
    CHECK(n_tokens == 8);
  }
}

TEST_CASE("The skeleton's ops pass the conformance cases", "[examples][skeleton][conformance]") {
  const BackendEntry entry = {"skeleton", [](const BackendServices&, Arena& arena) -> Result<Backend*> {
                                skeleton::Backend* made = arena.create<skeleton::Backend>();
                                MOTE_RETURN_IF_ERROR(arena.status("skeleton"));
                                return static_cast<Backend*>(made);
                              }};
  std::string wrong;
  size_t ran = 0;
  for (const Op op : {Op::add, Op::gate}) {
    for (const Case& made : conformance_cases(op)) {
      for (const bool in_place : {false, true}) {
        Rig rig(entry, made, {1, false, Guard::pages, in_place, {}, 0});
        if (!rig.supported()) continue;
        rig.run_all();
        rig.check_memory();
        const std::string sentence = compare(made, oracle(made), rig.output());
        if (!sentence.empty()) wrong += "\n" + made.name + ": " + sentence;
        ++ran;
      }
    }
  }
  CHECK(wrong == "");
  CHECK(ran == 2 * 8 * 2);   // both ops, eight widths, two ways
}

}   // namespace mote::test
