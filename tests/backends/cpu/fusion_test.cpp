// Groups of steps (fusions.inc): each pair of the table and whole models against their steps one by one, what makes a
// group, and how many parallel regions a layer takes.
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/program.h"
#include "core/handles.h"
#include "core/mote_dev.h"
#include "tests/api/kit.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/weights.h"

namespace mote::test::fusion {   // names of its own: tests are compiled several files at once
namespace {

constexpr uint32_t kColumns = 192, kHeads = 2;   // a matrix is worth a region for one row
constexpr BackendEntry kCpu = {"cpu", create_cpu_backend};

// A run that is observed runs its steps one by one.
uint32_t n_ended = 0;
const StepObserver kObserver = {nullptr, [](void*, const PlanPart&, const Batch&) {},
                                [](void*, const Step&) { ++n_ended; }};

enum class How : uint8_t { beside, columns, rows };
struct Pair {
  Op op, behind;
  How how;
};
constexpr Pair kFusions[] = {
#define MOTE_CPU_FUSION(op, behind, how) {Op::op, Op::behind, How::how},
#include "backends/cpu/fusions.inc"
#undef MOTE_CPU_FUSION
};

// A group with that pair in it: behind a `linear`, where it does not begin with one.
class PlanOfPair {
 public:
  PlanOfPair(const Pair& pair, Format format, uint32_t rows) : random_(21), rows_(rows), format_(format) {
    made.tokens.assign(rows, 0);
    angles_ = input();
    state_ = made.plan.state({0, kHeads, kColumns / kHeads, kColumns / kHeads, 0});
    const Value x = input();
    Value y = add(Op::linear, x);
    const Value beside = pair.behind == Op::linear || pair.behind == Op::gate ? add(Op::linear, x) : Value();
    if (pair.op == Op::append) y = add(Op::rope, y);
    if (pair.op != Op::linear) y = add(pair.op, y);
    if (pair.behind != Op::linear) add(pair.behind, y.exists() ? y : x, beside);
    if (pair.op == Op::append || pair.behind == Op::append) add(Op::attention, input());
    made.compared = made.plan.steps.back().output;
  }
  Case made;

 private:
  Value input() { return made.plan.input(kColumns, random_.normals(size_t{rows_} * kColumns)); }
  Value add(Op op, Value x, Value second = {}) {
    std::vector<Value> inputs = {x};
    if (op_info(op).n_inputs > 1) inputs.push_back(op == Op::rope ? angles_ : second.exists() ? second : input());
    const Value y = op == Op::append ? Value() : made.plan.value(kColumns);
    Step& step = made.plan.step(op, inputs, y);
    step.layer = 0;
    if (op == Op::append || op == Op::attention) step.state = state_;
    if (op == Op::attention) step.attributes.attention = {kHeads, 0.2F, 0};
    if (op == Op::rope) step.attributes.rope = {1, kColumns, kColumns, RopePairing::halves};
    if (op == Op::gate || op == Op::activate) step.attributes.activate = {Activation::silu};
    if (op == Op::softcap) step.attributes.scale = {30};
    if (op == Op::rms_norm || op == Op::layer_norm) {
      step.attributes.norm = {1e-5F};
      made.plan.vector(random_.normals(kColumns));
    }
    if (op == Op::linear)
      made.plan.matrix(format_, kColumns, kColumns, random_matrix(format_, kColumns, kColumns, random_));
    return y;
  }

  CaseRandom random_;
  uint32_t rows_;
  Format format_;
  Value angles_;
  State state_;
};

std::vector<PreparedStep> prepared(const TestPlan& plan, Plan* view) {
  view->steps = plan.steps, view->values = plan.values, view->states = plan.states;
  std::vector<PreparedStep> steps(plan.steps.size());
  REQUIRE(prepare_steps({view, 0, static_cast<uint32_t>(steps.size())}, kIsaBaseline, steps).ok());
  return steps;
}

// The outputs of all steps, one behind the other.
std::vector<float> outputs(Case& made, const RunOptions& options) {
  std::vector<float> all;
  for (const Step& step : made.plan.steps) {
    if (!step.output.exists()) continue;
    made.compared = step.output;
    Rig rig(kCpu, made, options);
    REQUIRE(rig.supported());
    rig.run_all();
    rig.check_memory();
    all.insert(all.end(), rig.output().begin(), rig.output().end());
  }
  return all;
}

}   // namespace

TEST_CASE("every fusion is made, and has the bits of its steps one by one", "[cpu][fusion][determinism][threads]") {
  for (const Pair& fusion : kFusions) {
    for (const Format format : {Format::q8_0, Format::f16}) {
      const std::string name = std::string(op_info(fusion.op).name) + ", " + std::string(op_info(fusion.behind).name);
      CAPTURE(name, format_info(format).name);
      Plan view;
      const PlanOfPair small(fusion, format, 1);
      const std::vector<PreparedStep> steps = prepared(small.made.plan, &view);
      uint32_t behind = 1;
      while (steps[behind].step->op != fusion.behind || steps[behind - 1].step->op != fusion.op) ++behind;
      const PreparedStep& lead = steps[0];
      if (lead.linear->form != nullptr) CHECK(lead.group > behind);
      if (fusion.how != How::columns) CHECK(lead.group > (lead.by_columns || fusion.op == Op::linear ? behind : 0));
      if (fusion.how == How::columns) CHECK(lead.by_columns == (lead.linear->form != nullptr));
      for (const uint32_t rows : {1U, 3U, kFusedRows, kFusedRows + 1}) {
        PlanOfPair pair(fusion, format, rows);
        RunOptions apart;
        apart.observer = &kObserver;
        n_ended = 0;
        const std::vector<float> expected = outputs(pair.made, apart);
        CHECK(n_ended != 0);
        for (const uint32_t lanes : {1U, 3U}) {
          RunOptions options;
          options.lanes = lanes;
          options.threads = rows == kFusedRows;
          CAPTURE(rows, lanes);
          CHECK(compare_bits(expected, outputs(pair.made, options)) == "");
        }
      }
    }
  }
}

TEST_CASE("a group ends where the next step is not in the table, goes by other rows or may not take columns",
          "[cpu][fusion]") {
  CaseRandom random(15);
  TestPlan plan;
  const Value x = plan.input(256, {}), y = plan.input(256, {}), picked = plan.input(256, {}, Dimension::outputs);
  const auto linear = [&](Value from, Format format) {
    const Value to = plan.value(256, from.rows);
    plan.step(Op::linear, {from}, to);
    plan.matrix(format, 256, 256, random_matrix(format, 256, 256, random));
    return to;
  };
  const auto two = [&](Op op, Value a, Value b) {
    const Value to = op == Op::append ? Value() : plan.value(256, a.rows);
    Step& step = plan.step(op, {a, b}, to);
    if (op == Op::append) step.state = plan.state({0, 1, 256, 256, 0});
    if (op == Op::rope) step.attributes.rope = {1, 256, 256, RopePairing::halves};
    return to;
  };
  linear(x, Format::q4_0), linear(x, Format::q8_0), linear(x, Format::q6_k);   // another form
  linear(y, Format::q6_k), two(Op::rope, x, y), two(Op::append, x, y);         // by rows
  two(Op::gate, x, y);                                                         // not behind append
  linear(x, Format::q4_k), two(Op::rope, picked, picked);                      // other rows
  two(Op::gate, linear(x, Format::q4_k), linear(x, Format::q6_k));             // by columns
  two(Op::add, linear(y, Format::f16), y);                                     // a kernel that reads y itself
  const Value third = linear(x, Format::q4_0);                                 // of three, one by itself
  two(Op::gate, linear(x, Format::q4_0), linear(x, Format::q4_0));
  const Value last = linear(third, Format::q4_0);
  plan.step(Op::add, {last, y}, plan.value(256)).phase = Phase::encode;   // another phase
  Plan view;
  std::string groups;
  for (const PreparedStep& step : prepared(plan, &view))
    groups += std::to_string(step.together) + std::to_string(step.group) + (step.by_columns ? "c " : " ");
  const bool elements_have_a_form = choose_linear(Format::f16, kIsaBaseline)->form != nullptr;   // on ARM
  CHECK(groups == std::string("22 01 11 13 11 11 11 11 11 23c 01 11 ") + (elements_have_a_form ? "12c " : "11 ") +
                      "11 33 01 01 11 11 11 ");
}

namespace {

// The architectures that go by layers of attention.
constexpr ToyModel kToys[] = {toy_llama, toy_phi3, toy_gemma3, toy_bert, toy_t5, toy_transducer};
ToyOptions options(Format format, uint32_t n_layers = 2) {
  return {.n_layers = n_layers, .d_model = 128, .n_heads = 4, .n_kv_heads = 2, .d_ff = 384, .matrices = format};
}

struct Regions {
  uint32_t count = 0;
};
void count_regions(void* user, uint32_t lanes, void (*task)(void* context, uint32_t lane), void* context) {
  ++static_cast<Regions*>(user)->count;
  for (uint32_t lane = lanes; lane-- > 0;) task(context, lane);
}
mote_engine_options two_lanes(Regions* regions) {
  mote_engine_options made = engine_options("cpu", 2);
  made.parallel_for = count_regions;
  made.parallel_for_user = regions;
  return made;
}

using Profile = std::vector<mote_dev_step_profile>;
void observe(mote_session* session, Profile& profile) {
  mote_error error{};
  must(mote_dev_profile(session, profile.data(), static_cast<uint32_t>(profile.size()), &error), error);
}

}   // namespace

TEST_CASE("every architecture has the bits of its steps one by one", "[cpu][fusion][determinism]") {
  for (const ToyModel toy : kToys) {
    for (const Format format : {Format::q8_0, Format::f32}) {
      CAPTURE(name_of(toy), format_info(format).name);
      Regions regions;
      const Engine engine(two_lanes(&regions));
      const Model model(engine, toy(options(format)));
      const Plan& plan = static_cast<mote_model*>(model)->plan;
      const auto results = [&](bool one_by_one) {
        Profile profile(mote_dev_step_count(model));
        const Session session(model, session_options(64, kFusedRows));
        if (one_by_one) observe(session, profile);
        std::vector<float> all;
        if (plan.encodes()) {
          encode(session, some_tokens(kFusedRows, 300));
          all = encoded(session);
        }
        for (uint32_t i = 0; plan.decodes() && i < 2; ++i) {
          feed(session, some_tokens(2 * kFusedRows + 4, 300, i));
          for (const float logit : step(session)) all.push_back(logit);
        }
        return all;
      };
      const std::vector<float> expected = results(true);
      const uint32_t apart = std::exchange(regions.count, 0);
      CHECK(bit_difference(expected, results(false)) == "");
      CHECK(regions.count <= apart);
    }
  }
}

TEST_CASE("every fusion is one of an architecture's plan", "[cpu][fusion]") {
  std::set<std::pair<Op, Op>> used = {{Op::linear, Op::softcap}};   // gemma2, which no toy model is of
  for (const ToyModel toy : kToys) {
    const Engine engine("cpu");
    const Model model(engine, toy(options(Format::q8_0, 3)));   // the first layers make angles between the steps
    const Plan& plan = static_cast<mote_model*>(model)->plan;
    std::vector<PreparedStep> steps(plan.steps.size());
    REQUIRE(prepare_steps({&plan, 0, static_cast<uint32_t>(steps.size())}, kIsaBaseline, steps).ok());
    for (size_t first = 0; first < steps.size(); first += steps[first].group)
      for (size_t i = first; i + 1 < first + steps[first].group; ++i)
        used.emplace(steps[i].step->op, steps[i + 1].step->op);
  }
  for (const Pair& fusion : kFusions) {
    CAPTURE(op_info(fusion.op).name, op_info(fusion.behind).name);
    CHECK(used.contains({fusion.op, fusion.behind}));
  }
}

TEST_CASE("a layer takes five parallel regions for few rows", "[cpu][fusion]") {
  const auto regions_of = [](ToyModel toy, uint32_t n_layers, uint32_t rows, bool one_by_one) {
    Regions regions;
    const Engine engine(two_lanes(&regions));
    const Model model(engine, toy(options(Format::q8_0, n_layers)));
    Profile profile(mote_dev_step_count(model));
    const Session session(model, session_options(300, rows));
    feed(session, some_tokens(200, 300));   // so many that attention is worth a region
    if (one_by_one) observe(session, profile);
    regions.count = 0;
    feed(session, some_tokens(rows, 300));   // the one before was pending, the last one stays so
    return regions.count;
  };
  for (const ToyModel toy : {toy_llama, toy_phi3, toy_gemma3}) {
    CAPTURE(name_of(toy));
    const auto of_two_layers = [&](uint32_t rows, bool one_by_one) {
      return regions_of(toy, 5, rows, one_by_one) - regions_of(toy, 3, rows, one_by_one);
    };
    CHECK(of_two_layers(kFusedRows, false) == 2 * 5);
    CHECK(of_two_layers(kFusedRows, true) == 2 * 6);
    CHECK(of_two_layers(kFusedRows + 1, false) == 2 * 6);
  }
}

}   // namespace mote::test::fusion
