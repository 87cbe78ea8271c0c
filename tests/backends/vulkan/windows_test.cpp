// What is larger than a shader may see is cut; the bits stay. And a bug that validation must find.
#include <exception>
#include <set>
#include <string>

#include "tests/backends/vulkan/rig.h"
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

// A sanitizer's run takes every fourth case: the optimised build takes all.
constexpr size_t kEvery = kSanitized ? 4 : 1;

std::vector<float> run(const BackendEntry& entry, const Case& made) {
  RunOptions options;
  options.max_batch = made.positions() + 100;   // room for several chunks of rows
  try {
    Rig rig(entry, made, options);
    if (!rig.supported()) return {};
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
  need_device(kVulkan);
  std::string wrong;
  std::set<Op> compared;
  size_t n_compared = 0;
  for (const Op op : kOps) {
    size_t n_made = 0;
    for (const Case& made : conformance_cases(op)) {
      if (op == Op::attention && made.positions() > 130) continue;
      if (n_made++ % kEvery != 0) continue;
      const std::vector<float> cut = run(kSmallWindows, made);
      if (cut.empty()) continue;   // a row or a head that is too large for 8 KiB
      const std::string sentence = compare_bits(run(kVulkan, made), cut);
      if (!sentence.empty()) wrong += "\n" + made.name + ": " + sentence;
      compared.insert(op);
      ++n_compared;
    }
  }
  CHECK(wrong == "");
  INFO(n_compared << " cases");
  CHECK(compared.size() == std::size(kOps) - 1);   // `pool` is not run here
  CHECK(n_compared > 300 / kEvery);
}

// Not a test of the suite: ctest runs it under validation and looks for the message.
TEST_CASE("without barriers an op reads what the one before still writes", "[.][planted]") {
  need_device(kWithoutBarriers);
  const Case made = attention_case({2, 1, 16, 16, 0, 5, KvType::f32, 0, 1}, 1);
  Rig rig(kWithoutBarriers, made, {});
  REQUIRE(rig.supported());
  rig.run_all();
}

}   // namespace mote::test
