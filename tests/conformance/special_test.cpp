// NaN and infinity in weights and inputs: no crash, nothing finite where the oracle is not, and what they do not touch
// stays right. Plans without rows, and the cancel flag.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <exception>
#include <string>

#include "core/ops/step.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"

namespace mote::test {
namespace {

constexpr Op kOps[] = {
#define MOTE_OP(name, inputs, state, in_place) Op::name,
#include "core/ops/ops.inc"
#undef MOTE_OP
};

// Runs the cases on every backend; sentences for what is wrong.
std::string wrong_on_any_backend(const std::vector<Case>& cases, size_t* compared) {
  std::string wrong;
  size_t n_wrong = 0;
  for (const Case& test_case : cases) {
    const std::vector<float> expected = oracle(test_case);
    for (const BackendEntry& entry : built_in_backends()) {
      std::string sentence;
      try {
        Rig rig(entry, test_case, {2, false, Guard::pages, false, {}, 0});
        if (!rig.supported()) continue;
        rig.run_all();
        rig.check_memory();
        sentence =
            compare(test_case, expected, test_case.compared.exists() ? rig.output() : state_values(rig, test_case));
        ++*compared;
      } catch (const std::exception& error) {
        sentence = error.what();
      }
      if (!sentence.empty() && ++n_wrong <= 12)
        wrong += std::string("\n") + entry.name + ", " + test_case.name + ": " + sentence;
    }
  }
  return wrong;
}

// Every third case of an op: all of them take minutes under the sanitizers.
std::vector<Case> some_cases(Op op, size_t* turn) {
  std::vector<Case> kept;
  for (Case& made : conformance_cases(op))
    if ((*turn)++ % 3 == 0 && made.positions() <= 130) kept.push_back(std::move(made));
  return kept;
}

}   // namespace

TEST_CASE("a NaN or an infinity among the inputs harms only what depends on it", "[conformance][special]") {
  size_t compared = 0, turn = 0;
  std::vector<Case> cases;
  Random random(801);
  for (const float odd : {NAN, INFINITY}) {
    for (const Op op : kOps) {
      for (Case& made : some_cases(op, &turn)) {
        if (made.plan.inputs.empty()) continue;
        for (auto& [id, data] : made.plan.inputs)
          if (!data.empty()) data[random.below(static_cast<uint32_t>(data.size()))] = odd;
        made.name += std::isnan(odd) ? ", a NaN in each input" : ", an infinity in each input";
        made.deviation = nullptr;
        cases.push_back(std::move(made));
      }
    }
  }
  const std::string wrong = wrong_on_any_backend(cases, &compared);
  INFO(compared << " comparisons");
  CHECK(wrong == "");
  CHECK(compared > 50);
}

TEST_CASE("a block of weights with all bits set harms only what depends on it", "[conformance][special]") {
  size_t compared = 0;
  std::vector<Case> cases;
  Random random(802);
  for (const Op op : {Op::embed, Op::position_embed, Op::linear}) {
    for (Case& made : conformance_cases(op)) {
      const FormatInfo& format = format_info(made.plan.steps[0].matrix.format);
      std::vector<uint8_t>& bytes = made.plan.matrices.begin()->second;
      const size_t block = random.below(static_cast<uint32_t>(bytes.size() / format.block_bytes));
      std::memset(&bytes[block * format.block_bytes], 0xFF, format.block_bytes);
      made.name += ", a block of ones";
      made.deviation = nullptr;
      cases.push_back(std::move(made));
    }
  }
  const std::string wrong = wrong_on_any_backend(cases, &compared);
  INFO(compared << " comparisons");
  CHECK(wrong == "");
  CHECK(compared >= cases.size());
}

TEST_CASE("random bytes as weights never crash a backend", "[conformance][special]") {
  std::string wrong;
  size_t ran = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    for (Case& made : conformance_cases(Op::linear)) {
      std::vector<uint8_t>& bytes = made.plan.matrices.begin()->second;
      bytes = random.bytes(bytes.size());
      for (auto& [id, data] : made.plan.inputs)
        for (float& x : data)
          if (random.below(8) == 0) std::memset(&x, static_cast<int>(random.below(256)), sizeof x);
      for (const BackendEntry& entry : built_in_backends()) {
        try {
          Rig rig(entry, made, {2, false, Guard::pages, false, {}, 0});
          if (!rig.supported()) continue;
          rig.run_all();
          rig.check_memory();
          ++ran;
        } catch (const std::exception& error) {
          wrong += std::string("\n") + entry.name + ", " + made.name + ", seed " + std::to_string(seed) + ": " +
                   error.what();
        }
      }
    }
  }
  CHECK(wrong == "");
  CHECK(ran > 100);
}

TEST_CASE("a cancel flag set before stops every backend before it writes an output", "[conformance][cancel]") {
  std::string wrong;
  size_t ran = 0;
  for (const Op op : kOps) {
    const Case made = std::move(conformance_cases(op).at(0));
    for (const BackendEntry& entry : built_in_backends()) {
      Rig rig(entry, made, {});
      if (!rig.supported()) continue;
      ++ran;
      const std::atomic<uint32_t> set{1}, not_set{0};
      const std::string what = std::string("\n") + entry.name + ", " + made.name + ": ";
      if (!rig.executor().begin(made.first_position, made.positions()).ok()) wrong += what + "begin failed";
      const Status cancelled = rig.run_only(0, made.positions(), &set);
      if (cancelled.code() != Code::cancelled || cancelled.message().empty())
        wrong += what + "was not cancelled with a sentence";
      rig.executor().discard();
      if (!rig.executor().begin(made.first_position, made.positions()).ok())
        wrong += what + "begin failed after a discard";
      if (!rig.run_only(0, made.positions(), &not_set).ok()) wrong += what + "failed after a cancelled run";
      rig.executor().commit();
      if (made.compared.exists()) {
        const std::string sentence = compare(made, oracle(made), rig.output());
        if (!sentence.empty()) wrong += what + sentence;
      }
      rig.check_memory();
    }
  }
  CHECK(wrong == "");
  CHECK(ran >= std::size(kOps));
}

}   // namespace mote::test
