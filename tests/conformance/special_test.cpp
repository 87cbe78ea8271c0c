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
#include "tests/conformance/weights.h"

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
    for (const BackendEntry& entry : backends_under_test()) {
      std::string sentence;
      try {
        Rig rig(entry, test_case, {2, false, Guard::pages, false, {}, 0});
        if (!rig.supported()) continue;
        rig.run_all();
        rig.check_memory();
        sentence = compare(test_case, expected,
                           test_case.compared.exists() ? rig.output() : state_values(rig, test_case), entry.name);
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

// A NaN there fails the run, which has tests of its own.
bool is_kept(const TestPlan& plan, uint16_t value) {
  return std::ranges::any_of(plan.steps, [&](const Step& step) {
    const StateUse use = op_info(step.op).state;
    return (use == StateUse::writes || use == StateUse::updates) &&
           (step.inputs[0].id == value || step.inputs[1].id == value);
  });
}

// Two layers whose keys and values are inputs.
Case two_layers(KvType type) {
  Case made = attention_case({4, 2, 64, 64, 0, 90, type, 0, 1}, 804);
  made.name += ", twice";
  CaseRandom random(805);
  const State second = made.plan.state({5, 1, 8, 16, 0});
  const Value k = made.plan.input(8, random.normals(90 * 8)), v = made.plan.input(16, random.normals(90 * 16));
  Step& append = made.plan.step(Op::append, {k, v});
  append.state = second;
  append.layer = 5;
  return made;
}

}   // namespace

// The lowest position counts, then the earlier layer: what row by row would have met first.
TEST_CASE("a NaN among keys or values fails the run with its layer and position, however it is cut",
          "[conformance][special]") {
  struct Spoilt {
    uint32_t step, input, row;
  };
  struct Way {
    std::vector<Spoilt> spoilt;
    const char* sentence;
    uint32_t row;
  };
  const Way ways[] = {
      {{{0, 0, 41}}, "the keys or values of layer 0 at position 41 hold a NaN", 41},
      {{{0, 1, 89}}, "the keys or values of layer 0 at position 89 hold a NaN", 89},
      {{{0, 0, 60}, {0, 1, 40}, {2, 0, 17}, {2, 1, 70}}, "the keys or values of layer 5 at position 17 hold a NaN", 17},
      {{{0, 0, 70}, {0, 1, 40}, {0, 0, 40}, {2, 0, 41}}, "the keys or values of layer 0 at position 40 hold a NaN", 40},
      {{{0, 1, 33}, {2, 0, 33}, {0, 0, 80}}, "the keys or values of layer 0 at position 33 hold a NaN", 33},
  };
  std::string wrong;
  size_t ran = 0;
  for (const Way& way : ways) {
    for (const uint32_t batch : {1U, 8U, 90U}) {
      for (const KvType type : {KvType::f16, KvType::f32}) {
        const Case clean = two_layers(type);
        Case made = two_layers(type);
        for (const Spoilt& at : way.spoilt) {
          const Value input = made.plan.steps[at.step].inputs[at.input];
          made.plan.inputs[input.id][(at.row + 1) * input.columns - 1] = -NAN;
        }
        for (const BackendEntry& entry : backends_under_test()) {
          RunOptions options{4, batch == 90, Guard::bands, false, {}, batch};
          Rig rig(entry, made, options), unspoilt(entry, clean, options);
          if (!rig.supported()) continue;
          ++ran;
          const std::string what = std::string("\n") + entry.name + ", batches of " + std::to_string(batch) + ": ";
          uint32_t first = 0;
          for (; first + batch <= way.row; first += batch)
            rig.run_batch(first, batch), unspoilt.run_batch(first, batch);
          if (!rig.executor().begin(first, std::min(batch, 90 - first)).ok()) wrong += what + "begin failed";
          const Status status = rig.run_only(first, std::min(batch, 90 - first));
          if (status.code() != Code::not_finite || status.message() != way.sentence)
            wrong += what + "instead of \"" + way.sentence + "\": " + std::string(status.message());
          rig.executor().discard();
          // What lies before it is as if it had never been.
          if (way.row == first) continue;
          rig.run_batch(first, way.row - first), unspoilt.run_batch(first, way.row - first);
          const std::string sentence = compare_bits(unspoilt.output(), rig.output());
          if (!sentence.empty()) wrong += what + "after a discard " + sentence;
        }
      }
    }
  }
  CHECK(wrong == "");
  CHECK(ran == std::size(ways) * 3 * 2 * backends_under_test().size());
}

TEST_CASE("a NaN that a recurrent layer comes to fails the run with its layer and position, however it is cut",
          "[conformance][special]") {
  std::string wrong;
  size_t ran = 0;
  for (const uint32_t batch : {1U, 4U, 11U}) {
    const Case clean = rnn_case(Format::f32, 33, 11, Phase::decode, 806);
    Case made = rnn_case(Format::f32, 33, 11, Phase::decode, 806);
    made.plan.inputs.begin()->second[7 * 33 + 32] = NAN;
    for (const BackendEntry& entry : backends_under_test()) {
      const RunOptions options{3, false, Guard::bands, false, {}, batch};
      Rig rig(entry, made, options), unspoilt(entry, clean, options);
      if (!rig.supported()) continue;
      ++ran;
      const std::string what = std::string("\n") + entry.name + ", batches of " + std::to_string(batch) + ": ";
      uint32_t first = 0;
      for (; first + batch <= 7; first += batch) rig.run_batch(first, batch);
      if (!rig.executor().begin(first, std::min(batch, 11 - first)).ok()) wrong += what + "begin failed";
      const Status status = rig.run_only(first, std::min(batch, 11 - first));
      if (status.code() != Code::not_finite ||
          status.message() != "the recurrent vector of layer 0 at position 7 holds a NaN")
        wrong += what + std::string(status.message());
      rig.executor().discard();
      if (first != 7) rig.run_batch(first, 7 - first);   // what lies before it is as if it had never been
      unspoilt.run_batch(0, std::min(batch, 7U));
      for (uint32_t at = std::min(batch, 7U); at < 7; at += batch) unspoilt.run_batch(at, std::min(batch, 7 - at));
      const std::string sentence = compare_bits(unspoilt.output(), rig.output());
      if (!sentence.empty()) wrong += what + "after a discard " + sentence;
    }
  }
  CHECK(wrong == "");
  if (tries_all_backends()) CHECK(ran >= 3);
}

TEST_CASE("a recurrent layer between two linear ones that read the same input changes neither",
          "[conformance][special]") {
  std::string wrong;
  for (const Format format : enabled_formats()) {
    const uint32_t width = std::max(32U, format_info(format).block_values);
    CaseRandom random(807);
    const std::vector<uint8_t> bytes = random_matrix(format, width, width, random, 2.0 / width);
    const std::vector<float> input = random.normals(size_t{5} * width);
    const auto two_of = [&](bool recurrent) {
      Case made;
      made.name = std::string(format_info(format).name) + (recurrent ? " around an rnn" : "");
      made.tokens = {1, 2, 3, 4, 5};
      const Value x = made.plan.input(width, input), a = made.plan.value(width);
      made.plan.step(Op::linear, {x}, a);
      made.plan.matrix(format, width, width, bytes);
      if (recurrent) {
        const Value h = made.plan.value(width);
        made.plan.step(Op::rnn, {a}, h).state = made.plan.state({0, 1, 0, width, 0});
        made.plan.matrix(format, width, width, bytes);
      }
      made.compared = made.plan.value(width);
      made.plan.step(Op::linear, {x}, made.compared);
      made.plan.matrix(format, width, width, bytes);
      return made;
    };
    const Case plain = two_of(false), around = two_of(true);
    for (const BackendEntry& entry : backends_under_test()) {
      Rig rig(entry, around, {});
      if (!rig.supported()) continue;
      Rig alone(entry, plain, {});
      alone.run_all(), rig.run_all();
      const std::string sentence = compare_bits(alone.output(), rig.output());
      if (!sentence.empty()) wrong += std::string("\n") + entry.name + ", " + around.name + ": " + sentence;
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("a NaN or an infinity among the inputs harms only what depends on it", "[conformance][special]") {
  size_t compared = 0, turn = 0;
  std::vector<Case> cases;
  CaseRandom random(801);
  for (const float odd : {NAN, INFINITY}) {
    for (const Op op : kOps) {
      for (Case& made : some_cases(op, &turn)) {
        if (made.plan.inputs.empty()) continue;
        for (auto& [id, data] : made.plan.inputs)
          // What is kept takes no NaN, and of an infinity the largest number, whose products overflow in f32 alone.
          if (!data.empty() && !is_kept(made.plan, id)) data[random.below(static_cast<uint32_t>(data.size()))] = odd;
        made.name += std::isnan(odd) ? ", a NaN in each input" : ", an infinity in each input";
        made.deviation = made.deviation_of_xnnpack = nullptr;
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
  CaseRandom random(802);
  for (const Op op : {Op::embed, Op::position_embed, Op::linear}) {
    for (Case& made : conformance_cases(op)) {
      if (made.plan.matrices.empty()) continue;   // sinusoidal positions
      const FormatInfo& format = format_info(made.plan.steps[0].matrix.format);
      std::vector<uint8_t>& bytes = made.plan.matrices.begin()->second;
      const size_t block = random.below(static_cast<uint32_t>(bytes.size() / format.block_bytes));
      std::memset(&bytes[block * format.block_bytes], 0xFF, format.block_bytes);
      made.name += ", a block of ones";
      made.deviation = made.deviation_of_xnnpack = nullptr;
      cases.push_back(std::move(made));
    }
  }
  const std::string wrong = wrong_on_any_backend(cases, &compared);
  INFO(compared << " comparisons");
  CHECK(wrong == "");
  if (tries_all_backends()) CHECK(compared >= cases.size());
}

TEST_CASE("random bytes as weights never crash a backend", "[conformance][special]") {
  std::string wrong;
  size_t ran = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    CaseRandom random(seed);
    for (Case& made : conformance_cases(Op::linear)) {
      std::vector<uint8_t>& bytes = made.plan.matrices.begin()->second;
      bytes = random.bytes(bytes.size());
      for (auto& [id, data] : made.plan.inputs)
        for (float& x : data)
          if (random.below(8) == 0) std::memset(&x, static_cast<int>(random.below(256)), sizeof x);
      for (const BackendEntry& entry : backends_under_test()) {
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
    for (const BackendEntry& entry : backends_under_test()) {
      Rig rig(entry, made, {});
      if (!rig.supported()) continue;
      ++ran;
      const std::atomic<uint32_t> set{1}, not_set{0};
      const std::string what = std::string("\n") + entry.name + ", " + made.name + ": ";
      if (!made.decodes()) {   // nothing is begun, nothing given up
        const Status cancelled = rig.run_input(&set);
        if (cancelled.code() != Code::cancelled || !rig.output().empty()) wrong += what + "was not cancelled";
        rig.run_all();
        wrong += compare(made, oracle(made), rig.output(), entry.name);
        continue;
      }
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
        const std::string sentence = compare(made, oracle(made), rig.output(), entry.name);
        if (!sentence.empty()) wrong += what + sentence;
      }
      rig.check_memory();
    }
  }
  CHECK(wrong == "");
  CHECK(2 * ran > std::size(kOps));   // of any backend most
}

// An encoder's attention over a long input is one step of seconds.
TEST_CASE("a cancel that comes while attention runs is heard before its end", "[conformance][cancel]") {
  const AttentionShape input{4, 2, 16, 16, 0, 64, KvType::f32, 0, 1, AttentionShape::input};
  AttentionShape past = input;   // 1,100 positions: the last row is split over chunks
  past.sees = AttentionShape::past;
  past.positions = 1100;
  std::string wrong;
  size_t ran = 0;
  for (const Case& made : {attention_case(input, 1), weights_case(input, 2), attention_case(past, 3)}) {
    for (const BackendEntry& entry : backends_under_test()) {
      if (std::string_view(entry.name) != "cpu" && std::string_view(entry.name) != "reference") continue;
      std::atomic<uint32_t> flag{0};
      RunOptions options;
      options.lanes = 2;
      if (made.decodes()) options.cuts = {1099, 1};
      Rig fresh(entry, made, options);
      options.cancel_in_region = &flag;
      Rig rig(entry, made, options);
      ++ran;
      const std::string what = std::string("\n") + entry.name + ", " + made.name + ": ";
      if (made.decodes()) {
        rig.run_batch(0, 1099);
        if (!rig.executor().begin(1099, 1).ok()) wrong += what + "begin failed";
      }
      flag = 0;
      const Status cancelled = made.decodes() ? rig.run_only(1099, 1, &flag) : rig.run_input(&flag);
      if (flag == 0) wrong += what + "has no region";
      if (cancelled.code() != Code::cancelled || rig.wrote_output()) wrong += what + "ran to its end";
      rig.executor().discard();
      fresh.run_all();
      if (made.decodes())
        rig.run_batch(1099, 1);
      else
        rig.run_all();
      wrong += compare_bits(fresh.output(), rig.output());
    }
  }
  CHECK(wrong == "");
  if (tries_all_backends()) CHECK(ran != 0);
}

}   // namespace mote::test
