// The backend through mote.h: machines without a device, quotes of the device's memory, sessions, cancel.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>

#include "backends/vulkan/live_values.h"
#include "core/mote_dev.h"
#include "tests/api/kit.h"
#include "tests/backends/vulkan/rig.h"
#include "tests/conformance/cases.h"
#include "tests/support/toy_weights.h"

namespace mote::test {
namespace {

const ToyOptions kToy{.n_layers = 3, .d_model = 64, .n_heads = 4, .n_kv_heads = 2, .d_ff = 96};

// No driver for as long as it lives.
class NoDriver {
 public:
  NoDriver() {
    setenv("VK_ICD_FILENAMES", "/nonexistent", 1);
    setenv("VK_DRIVER_FILES", "/nonexistent", 1);
  }
  ~NoDriver() {
    unsetenv("VK_ICD_FILENAMES");
    unsetenv("VK_DRIVER_FILES");
  }
};

mote_engine_options logging(const char* backends, std::string* log) {
  mote_engine_options options = engine_options(backends);
  options.log = [](void* to, const char* line) { *static_cast<std::string*>(to) += std::string(line) + "\n"; };
  options.log_user = log;
  return options;
}

std::vector<std::string> names(mote_engine* engine) {
  std::vector<std::string> found;
  for (uint32_t i = 0; const char* name = mote_dev_engine_backend(engine, i); ++i) found.push_back(name);
  return found;
}

}   // namespace

TEST_CASE("Without a driver the engine says so and goes on without", "[vulkan][no-device]") {
  const NoDriver no_driver;
  std::string log;
  const mote_engine_options both = logging("vulkan,reference", &log);
  {
    const Engine engine(both);
    CHECK(names(engine) == std::vector<std::string>{"reference"});
  }
  CHECK(log.starts_with("vulkan is off: "));
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
  const mote_engine_options alone = logging("vulkan", &log);
  mote_engine* engine = nullptr;
  const Outcome opened = outcome([&](mote_error* error) { return mote_engine_open(&alone, {}, &engine, error); });
  CHECK(opened.status == MOTE_UNSUPPORTED);
  CHECK(contains(opened.sentence, "(vulkan) can be used: vulkan is off: there is no "));   // driver, or loader
  mote_quote quote{};
  quote.struct_bytes = sizeof quote;
  const Outcome quoted = outcome([&](mote_error* error) { return mote_engine_quote(&alone, &quote, error); });
  CHECK(quoted.sentence == opened.sentence);
}

TEST_CASE("auto leaves vulkan out", "[vulkan][no-device]") {
  const Engine engine("auto");
  const std::vector<std::string> found = names(engine);
  CHECK(std::ranges::count(found, "vulkan") == 0);
  CHECK(!found.empty());
}

TEST_CASE("All steps of a model run on the device, and its bytes are in the quotes", "[vulkan][session]") {
  need_device();
  const Engine engine("vulkan,reference");
  const Bytes bytes = toy_llama(kToy).bytes();
  const ModelQuotes quotes = quote_model(engine, bytes, session_options(64, 16));
  CHECK(quotes.model.device_bytes > 4 * 64 * 300);
  CHECK(quotes.session.device_bytes > 3 * 2 * 64 * 16 * 2 * 2);   // layers, keys and values, positions, f16
  const Model model(engine, bytes);
  std::string others;
  for (uint32_t i = 0; i < mote_dev_step_count(model); ++i) {
    mote_dev_step step{};
    REQUIRE(mote_dev_get_step(model, i, &step, nullptr) == MOTE_OK);
    if (std::string(step.backend) != "vulkan") others += std::string(step.text) + " on " + step.backend + "; ";
  }
  CHECK(others == "");
  CHECK(quote_session(model, session_options(64, 16)).device_bytes == quotes.session.device_bytes);
}

// The device reads by these numbers, where nothing would stop it; other backends have the session's word for them.
TEST_CASE("A batch whose numbers are not those of the session is refused", "[vulkan][session]") {
  need_device();
  const Case made = conformance_cases(Op::activate).front();
  Rig rig(kVulkan, made, {});
  REQUIRE(rig.supported());
  const uint32_t rows = made.positions();
  const std::vector<int32_t> tokens(rows + 1);
  const std::vector<uint32_t> outputs = {0, 1, rows};
  REQUIRE(rows > 1);
  const auto run = [&](size_t n_tokens, std::span<const uint32_t> wanted) {
    return rig.executor().run({std::span(tokens).first(n_tokens), 0, wanted}, CancelFlag()).code();
  };
  CHECK(run(rows, {}) == Code::ok);
  CHECK(run(rows + 1, {}) == Code::invalid_argument);
  CHECK(run(rows, std::span(outputs).first(2)) == Code::invalid_argument);   // more than one
  CHECK(run(rows, std::span(outputs).last(1)) == Code::invalid_argument);    // a row behind the last
  CHECK(run(rows, std::span(outputs).first(1)) == Code::ok);
}

TEST_CASE("As many Values as are kept track of may live at one time, and one more is refused", "[vulkan][session]") {
  need_device();
  const auto sum_of = [](uint32_t n) {   // n Values that live with the input, then with the first sum
    CaseRandom random(12);
    Case made;
    made.tokens = random_tokens(1, 10, random);
    const Value x = made.plan.input(1, {1});
    std::vector<Value> all;
    for (uint32_t i = 0; i < n; ++i) {
      all.push_back(made.plan.value(1));
      made.plan.step(Op::activate, {x}, all.back()).attributes.activate.function = Activation::relu;
    }
    made.compared = all[0];
    for (uint32_t i = 1; i < n; ++i) {
      const Value sum = made.plan.value(1);
      made.plan.step(Op::add, {made.compared, all[i]}, sum);
      made.compared = sum;
    }
    return made;
  };
  const Case most = sum_of(LiveValues::kMost - 1), too_many = sum_of(LiveValues::kMost);
  Rig rig(kVulkan, most, {});
  rig.run_all();
  CHECK(rig.output() == std::vector<float>{LiveValues::kMost - 1});
  CHECK_THROWS_WITH(Rig(kVulkan, too_many, {}), Catch::Matchers::ContainsSubstring("more than 128 Values alive"));
}

TEST_CASE("Two sessions of one model share its weights and do not disturb each other", "[vulkan][session]") {
  need_device();
  const Engine engine("vulkan");
  const Model model(engine, toy_llama(kToy));
  const Tokens first = some_tokens(20, 300), second = some_tokens(20, 300, 7);
  std::vector<float> alone_first, alone_second;
  {
    const Session session(model, session_options(64, 8));
    alone_first = logits_after(session, first);
  }
  {
    const Session session(model, session_options(64, 8));
    alone_second = logits_after(session, second);
  }
  const Session a(model, session_options(64, 8)), b(model, session_options(64, 8));
  std::vector<float> last_a, last_b;
  for (size_t i = 0; i < first.size(); ++i) {
    last_a = logits_after(a, {first[i]});
    last_b = logits_after(b, {second[i]});
  }
  CHECK(bit_difference(last_a, alone_first) == "");
  CHECK(bit_difference(last_b, alone_second) == "");
}

TEST_CASE("A model with a step that the device does not run is shared with the next backend", "[vulkan][session]") {
  need_device();
  // Heads of 512 are more than `attention` takes: the states go to the reference backend, Values cross both ways.
  const ToyOptions wide{.n_layers = 2, .d_model = 64, .n_heads = 2, .n_kv_heads = 1, .head_dim = 512, .d_ff = 48};
  const Bytes bytes = toy_llama(wide).bytes();
  const Tokens tokens = some_tokens(12, 300);
  const auto logits_on = [&](const char* backends, size_t* parts) {
    const Engine engine(backends);
    const Model model(engine, bytes);
    std::string last;
    for (uint32_t i = 0; parts != nullptr && i < mote_dev_step_count(model); ++i) {
      mote_dev_step step{};
      REQUIRE(mote_dev_get_step(model, i, &step, nullptr) == MOTE_OK);
      *parts += last != step.backend;
      last = step.backend;
    }
    const Session session(model, session_options(32, 8));
    return logits_after(session, tokens);
  };
  size_t parts = 0;
  const std::vector<float> mixed = logits_on("vulkan,reference", &parts), whole = logits_on("reference", nullptr);
  CHECK(parts == 5);   // the state's steps of each layer cut the plan
  double worst = 0, largest = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    worst = std::max(worst, std::abs(double{mixed[i]} - whole[i]));
    largest = std::max(largest, std::abs(double{whole[i]}));
  }
  CHECK(mixed.size() == whole.size());
  CHECK(worst < 1e-4 * std::max(1.0, largest));
}

}   // namespace mote::test
