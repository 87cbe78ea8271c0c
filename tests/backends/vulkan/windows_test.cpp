// What is larger than a shader may see is cut; the bits stay. And a bug that validation must find.
#include <cstdlib>
#include <exception>
#include <set>
#include <string>

#include "tests/backends/vulkan/watch.h"
#include "tests/conformance/cases.h"
#include "tests/support/sanitized.h"

// lavapipe keeps 4 KB of each of some pipelines (60 of those here) for good; what mote forgets to destroy, the
// validation layer says.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libvulkan_lvp"; }

namespace mote::test {
namespace {

constexpr Op kOps[] = {
#define MOTE_OP(name, inputs, state, in_place) Op::name,
#include "core/ops/ops.inc"
#undef MOTE_OP
};

// Under a sanitizer or the validation layer every eighth case: the optimised build takes all.
size_t stride() { return kSanitized || std::getenv("VK_INSTANCE_LAYERS") != nullptr ? 8 : 1; }

// `claimed`: whether the backend says that it runs this.
std::vector<float> run(const BackendEntry& entry, const Case& made, bool* claimed = nullptr) {
  RunOptions options;
  options.max_batch = made.positions() + 100;   // room for several chunks of rows
  try {
    Rig rig(entry, made, options);
    if (!rig.supported()) return {};
    if (claimed != nullptr) *claimed = true;
    rig.run_all();
    rig.check_memory();
    return made.compared.exists() ? rig.output() : state_values(rig, made);
  } catch (const std::exception& error) {
    if (std::string(error.what()).ends_with("than a shader of this device may see")) return {};
    if (std::string(error.what()).ends_with("is more than a shader may see")) return {};   // take_rows
    throw;
  }
}

}   // namespace

TEST_CASE("Matrices, Values and caches that are cut give the bits of those that are not", "[vulkan][windows]") {
  need_device();
  std::string wrong;
  std::set<Op> claimed, compared;
  size_t n_compared = 0;
  const size_t every = stride();
  for (const Op op : kOps) {
    size_t n_made = 0;
    for (const Case& made : conformance_cases(op)) {
      if (op == Op::attention && made.positions() > 130) continue;
      if (n_made++ % every != 0 && compared.contains(op)) continue;   // one at least
      bool is_claimed = false;
      const std::vector<float> cut = run(kWatchedSmall, made, &is_claimed);
      if (is_claimed) claimed.insert(op);
      if (cut.empty()) continue;   // a row or a head that is too large for 8 KiB
      const std::string sentence = compare_bits(run(kVulkan, made), cut);
      if (!sentence.empty()) wrong += "\n" + made.name + ": " + sentence;
      compared.insert(op);
      ++n_compared;
    }
  }
  CHECK(wrong == "");
  CHECK(watch.wrong == "");
  CHECK(watch.n_bound > 5 * n_compared);
  INFO(n_compared << " cases");
  CHECK(compared == claimed);
  CHECK(compared.contains(Op::attention));
  CHECK(n_compared > 300 / every);
}

TEST_CASE("A Value whose rows cannot be cut where a binding may begin is not claimed", "[vulkan][windows]") {
  need_device();
  const auto is_claimed = [](uint32_t columns) {
    Case made;
    made.tokens = {0};
    const Value x = made.plan.input(columns, std::vector<float>(columns));
    made.compared = made.plan.value(columns);
    made.plan.step(Op::activate, {x}, made.compared).attributes.activate.function = Activation::relu;
    return Rig(kSmallWindows, made, {}).supported();
  };
  CHECK(is_claimed(32));           // 64 rows fit in 8 KiB
  CHECK_FALSE(is_claimed(2048));   // one does
}

// Two rows, so that the second does not fit any more.
TEST_CASE("What is larger than the memory that it is staged in arrives whole", "[vulkan][windows]") {
  need_device();
  constexpr uint32_t kColumns = (1 << 20) + 64;   // a row of 4 MiB and 256 bytes
  std::vector<float> weights(size_t{2} * kColumns);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  Case made;
  made.tokens = {0, 1};
  made.compared = made.plan.value(kColumns);
  made.plan.step(Op::embed, {}, made.compared);
  const auto* bytes = reinterpret_cast<const uint8_t*>(weights.data());
  made.plan.matrix(Format::f32, 2, kColumns, {bytes, bytes + weights.size() * sizeof(float)});
  Rig rig(kWatched, made, {});
  REQUIRE(rig.supported());
  rig.run_all();
  CHECK(compare_bits(weights, rig.output()) == "");
  CHECK(watch.wrong == "");
}

TEST_CASE("Rows of odd heads of halves go into memory that was not zero", "[vulkan][windows]") {
  need_device();
  const Case made = attention_case({3, 1, 7, 11, 0, 30, KvType::f16, 0, 1}, 955);
  RunOptions options;
  options.max_batch = 20;
  Rig from(kVulkan, made, options), to(kWatched, made, options);
  REQUIRE(to.supported());
  from.run_batch(0, 20);
  State state;
  state.id = 0;
  const std::vector<std::vector<uint8_t>> rows = from.export_state(0, 20);
  for (uint32_t position = 0; position < 20; ++position)
    REQUIRE(to.executor().import_row(state, position, rows[position]).ok());
  CHECK(to.export_state(0, 20) == rows);
  from.forget_output();
  from.run_batch(20, 10);
  to.run_batch(20, 10);
  CHECK(compare_bits(from.output(), to.output()) == "");
  CHECK(watch.wrong == "");
}

TEST_CASE("A matrix that begins where another one does, and goes on, is not taken for it", "[vulkan][windows]") {
  need_device();
  const float weights[] = {1, 2, 3, 4};
  Case made;
  made.tokens = {0};
  const Value x = made.plan.input(1, {1});
  for (const uint32_t rows : {2U, 4U}) {
    made.compared = made.plan.value(rows);
    made.plan.step(Op::linear, {x}, made.compared).matrix = {reinterpret_cast<const uint8_t*>(weights), rows, 1,
                                                             Format::f32, "test.weight"};
  }
  Rig rig(kVulkan, made, {});
  REQUIRE(rig.supported());
  rig.run_all();
  CHECK(rig.output() == std::vector<float>{1, 2, 3, 4});
}

// Not a test of the suite: ctest runs it under validation and looks for the message.
TEST_CASE("without barriers an op reads what the one before still writes", "[.][planted]") {
  need_device();
  const Case made = attention_case({2, 1, 16, 16, 0, 5, KvType::f32, 0, 1}, 1);
  Rig rig(kWithoutBarriers, made, {});
  REQUIRE(rig.supported());
  rig.run_all();
}

}   // namespace mote::test
