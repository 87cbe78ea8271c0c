// What no backend takes: steps that are of no plan, parts that do not keep their states, batches that do not fit.
// `reference` trusts the plan and keeps no books of a sequence (its README), so some of this is asked of the others.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>

#include "tests/conformance/cases.h"
#include "tests/conformance/harness.h"

namespace mote::test {
namespace {

bool is_reference(const BackendEntry& entry) { return std::string_view(entry.name) == "reference"; }

Case attention_of(uint32_t n_heads, uint32_t n_kv_heads, uint32_t dim) {
  return attention_case({n_heads, n_kv_heads, dim, dim, 0, 20, KvType::f16, 0, 1}, 950);
}

Case rope_of(uint32_t n_heads, uint32_t head_dim, uint32_t n_rotated) {
  CaseRandom random(951);
  Case made;
  made.tokens = random_tokens(4, 10, random);
  const uint32_t columns = n_heads * head_dim;
  const Value x = made.plan.input(columns, random.normals(size_t{4} * columns));
  const Value angles = made.plan.input(n_rotated, random.normals(size_t{4} * n_rotated));
  made.compared = made.plan.value(columns);
  made.plan.step(Op::rope, {x, angles}, made.compared).attributes.rope = {n_heads, head_dim, n_rotated,
                                                                          RopePairing::halves};
  return made;
}

Case linear_of(Format format, uint32_t columns) {
  CaseRandom random(952);
  Case made;
  made.tokens = random_tokens(2, 10, random);
  const Value x = made.plan.input(columns, random.normals(size_t{2} * columns));
  made.compared = made.plan.value(2);
  made.plan.step(Op::linear, {x}, made.compared);
  const auto bytes = static_cast<size_t>(2 * row_bytes(format, columns + format_info(format).block_values - 1));
  made.plan.matrix(format, 2, columns, std::vector<uint8_t>(bytes));
  return made;
}

Case activation_of(Activation function) {
  CaseRandom random(953);
  Case made;
  made.tokens = random_tokens(2, 10, random);
  const Value x = made.plan.input(16, random.normals(32));
  made.compared = made.plan.value(16);
  made.plan.step(Op::activate, {x}, made.compared).attributes.activate.function = function;
  return made;
}

struct Refused {
  const char* what;
  const char* backend;   // one alone; null: all but the reference
  Case made;
};

std::vector<Refused> refused_steps() {
  std::vector<Refused> all;
  const auto changed = [&all](const char* what, Case made, auto change, const char* backend = nullptr) {
    change(made.plan);
    all.push_back({what, backend, std::move(made)});
  };
  const auto as_it_is = [](TestPlan&) {};
  changed("a state that the plan has not", attention_of(2, 1, 16), [](TestPlan& plan) {
    for (Step& step : plan.steps) step.state.id = 7;
  });
  changed("no KV heads", attention_of(2, 1, 16), [](TestPlan& plan) { plan.states[0].n_kv_heads = 0; });
  changed("keys of nothing", attention_of(2, 1, 16), [](TestPlan& plan) { plan.states[0].key_dim = 0; });
  changed("values of nothing", attention_of(2, 1, 16), [](TestPlan& plan) { plan.states[0].value_dim = 0; });
  changed("no heads", attention_of(2, 1, 16), [](TestPlan& plan) { plan.steps[1].attributes.attention.n_heads = 0; });
  changed("heads that are no groups", attention_of(4, 2, 16),
          [](TestPlan& plan) { plan.steps[1].attributes.attention.n_heads = 3; });
  changed("an odd rotation", rope_of(2, 8, 7), as_it_is);
  changed("a rotation of more than a head", rope_of(2, 8, 10), as_it_is);
  changed("half a block", linear_of(Format::q8_0, 48), as_it_is);
  changed("sums of int8 beyond 32 bits", linear_of(Format::q8_0, 65568), as_it_is, "xnnpack");
  changed("gelu", activation_of(Activation::gelu_erf), as_it_is, "xnnpack");
  changed("heads of 257", attention_of(1, 1, 257), as_it_is, "vulkan");
  changed(
      "heads of nothing", rope_of(2, 8, 8), [](TestPlan& plan) { plan.steps[0].attributes.rope.head_dim = 0; },
      "vulkan");
  changed(
      "rows of nothing", activation_of(Activation::relu), [](TestPlan& plan) { plan.steps[0].inputs[0].columns = 0; },
      "vulkan");
  changed(
      "a matrix without rows", std::move(conformance_cases(Op::embed).front()),
      [](TestPlan& plan) { plan.steps[0].matrix.rows = 0; }, "vulkan");
  return all;
}

}   // namespace

TEST_CASE("a step that is of no plan is supported by nobody, and compiled by nobody", "[conformance][refusal]") {
  const std::vector<BackendEntry> backends = backends_under_test();
  std::string wrong;
  size_t asked = 0;
  for (const Refused& refused : refused_steps()) {
    for (const BackendEntry& entry : backends) {
      if (refused.backend == nullptr ? is_reference(entry) : refused.backend != std::string_view(entry.name)) continue;
      ++asked;
      const std::string what = std::string("\n") + entry.name + ", " + refused.what + ": ";
      Rig rig(entry, refused.made, {});
      if (rig.supported()) wrong += what + "is said to be supported";
      const Status status = rig.compile({0, static_cast<uint32_t>(refused.made.plan.steps.size())});
      if (status.code() != Code::unsupported) wrong += what + "compiled: " + std::string(status.message());
    }
  }
  CHECK(wrong == "");
  CHECK(asked >= 9 * static_cast<size_t>(std::ranges::count_if(backends, std::not_fn(is_reference))));
}

TEST_CASE("a part that does not have all steps of a state is compiled by nobody", "[conformance][refusal]") {
  const Case made = attention_of(2, 1, 16);
  REQUIRE(made.plan.steps.size() == 2);
  for (const BackendEntry& entry : backends_under_test()) {
    INFO(entry.name);
    Rig rig(entry, made, {});
    REQUIRE(rig.supported());
    const Status status = rig.compile({1, 1});
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().ends_with("uses a state that another part keeps"));
    CHECK(rig.compile({0, 2}).ok());
  }
}

TEST_CASE("begin refuses what does not fit, with the limit, and changes nothing", "[conformance][refusal]") {
  const Case made = attention_of(2, 1, 16);
  for (const BackendEntry& entry : backends_under_test()) {
    INFO(entry.name);
    RunOptions options;
    options.cuts = {8, 8, 4};
    Rig rig(entry, made, options);
    REQUIRE(rig.supported());
    rig.run_batch(0, 8);
    CHECK(rig.executor().begin(8, 9).code() == Code::invalid_argument);
    CHECK(rig.executor().begin(8, UINT32_MAX).code() == Code::invalid_argument);
    CHECK(rig.executor().begin(13, 8).code() == Code::context_full);
    CHECK(rig.executor().begin(UINT32_MAX, 1).code() == Code::context_full);
    if (!is_reference(entry)) CHECK(rig.executor().begin(9, 1).code() == Code::wrong_state);
    rig.run_batch(8, 8);
    rig.run_batch(16, 4);
    Rig whole(entry, made, {});
    whole.run_all();
    CHECK(compare_bits(whole.output(), rig.output()) == "");
  }
}

TEST_CASE("a position that was not run, or that a ring has lost, is not exported", "[conformance][refusal]") {
  const Case made = attention_case({2, 1, 16, 16, 9, 200, KvType::f16, 0, 1}, 954);
  for (const BackendEntry& entry : backends_under_test()) {
    if (is_reference(entry)) continue;
    INFO(entry.name);
    RunOptions options;
    options.max_batch = 8;
    options.cuts = std::vector<uint32_t>(25, 8);
    Rig rig(entry, made, options);
    REQUIRE(rig.supported());
    std::vector<uint8_t> row(rig.state_row_bytes(0));
    State state;
    state.id = 0;
    const auto exported = [&](uint32_t position) { return rig.executor().export_row(state, position, row).code(); };
    CHECK(exported(0) == Code::wrong_state);
    rig.run_batch(0, 8);
    CHECK(exported(7) == Code::ok);
    CHECK(exported(8) == Code::wrong_state);
    for (uint32_t first = 8; first < 200; first += 8) rig.run_batch(first, 8);
    CHECK(exported(199) == Code::ok);
    CHECK(exported(191) == Code::ok);   // what the next query sees
    // A ring of 64 positions holds the window and a batch; xnnpack keeps all of them.
    const bool keeps_all = std::string_view(entry.name) == "xnnpack";
    CHECK(exported(135) == (keeps_all ? Code::ok : Code::wrong_state));
    if (!keeps_all) CHECK(rig.executor().begin(135, 1).code() == Code::wrong_state);
    Rig to(entry, made, options);   // what is imported takes places too
    for (uint32_t position = 0; position < 200; ++position)
      REQUIRE(to.executor().import_row(state, position, row).ok());
    CHECK(to.executor().export_row(state, 199, row).ok());
    CHECK(to.executor().export_row(state, 135, row).code() == (keeps_all ? Code::ok : Code::wrong_state));
    REQUIRE(rig.executor().truncate(199).ok());
    CHECK(exported(199) == Code::wrong_state);
  }
}

TEST_CASE("a part without states begins anywhere", "[conformance][refusal]") {
  const Case made = activation_of(Activation::relu);
  for (const BackendEntry& entry : backends_under_test()) {
    INFO(entry.name);
    Rig rig(entry, made, {});
    REQUIRE(rig.supported());
    CHECK(rig.executor().begin(1, 1).ok());
    rig.executor().discard();
  }
}

TEST_CASE("a rotation of nothing is a copy, or refused", "[conformance][refusal]") {
  const Case made = rope_of(2, 8, 0);
  for (const BackendEntry& entry : backends_under_test()) {
    INFO(entry.name);
    Rig rig(entry, made, {});
    if (rig.supported()) rig.run_all();
    CHECK(rig.output() == (rig.supported() ? made.input(0) : std::vector<float>()));
  }
}

TEST_CASE("a token or a position that a matrix has no row for is a status", "[conformance][refusal]") {
  for (const Op op : {Op::embed, Op::position_embed}) {
    for (const BackendEntry& entry : backends_under_test()) {
      for (const int32_t beyond : {0, 1, -1}) {
        Case made = conformance_cases(op).front();
        const auto rows = static_cast<int32_t>(made.plan.steps[0].matrix.rows);
        INFO(entry.name << " " << made.name << " " << beyond);
        if (op == Op::embed)
          made.tokens.back() = beyond < 0 ? -1 : rows - 1 + beyond;
        else
          made.first_position = static_cast<uint32_t>(rows - static_cast<int32_t>(made.positions()) + beyond);
        if (op == Op::position_embed && beyond < 0) continue;
        Rig rig(entry, made, {});
        if (!rig.supported()) continue;   // a bias
        REQUIRE(rig.executor().begin(made.first_position, made.positions()).ok());
        const Status status = rig.run_only(0, made.positions());
        rig.executor().discard();
        rig.check_memory();
        CHECK(status.ok() == (beyond == 0));
        CHECK((beyond == 0 || !status.message().empty()));
      }
    }
  }
}

}   // namespace mote::test
