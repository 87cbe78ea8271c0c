// Plans of one or a few ops with the data they run on.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/ops/backend.h"
#include "tests/conformance/random.h"

namespace mote::test {

// A plan whose data is owned here. Copies would leave the steps' pointers behind, so it only moves; the harness
// rewires the pointers to guarded copies anyway (`harness.cpp`).
struct TestPlan {
  std::vector<Step> steps;
  std::vector<ValueInfo> values;
  std::vector<StateInfo> states;
  // By step: what its pointers point at.
  std::map<size_t, std::vector<uint8_t>> matrices;
  std::map<size_t, std::vector<float>> vectors, biases;
  std::map<size_t, std::vector<double>> frequencies;
  // By Value::id: [rows of the whole sequence, columns], or of the whole input, where a step of the phase `encode`
  // reads it.
  std::map<uint16_t, std::vector<float>> inputs;

  Value value(uint32_t columns, Dimension rows = Dimension::tokens, Extent extent = Extent::single) {
    Value made;
    made.id = static_cast<uint16_t>(values.size());
    made.rows = rows;
    made.extent = extent;
    made.columns = columns;
    values.push_back({rows, extent, columns, 0, 0});
    return made;
  }
  Value input(uint32_t columns, std::vector<float> data, Dimension rows = Dimension::tokens) {
    const Value made = value(columns, rows);
    inputs[made.id] = std::move(data);
    return made;
  }
  State state(const StateInfo& info) {
    State made{0, info.phase, false, info.n_kv_heads, info.key_dim, info.value_dim, info.window};
    made.id = static_cast<uint16_t>(states.size());
    states.push_back(info);
    return made;
  }
  // Appends a step; the reference is good until the next one.
  Step& step(Op op, std::vector<Value> step_inputs, Value output = {}) {
    Step& made = steps.emplace_back();
    made.op = op;
    for (size_t i = 0; i < step_inputs.size(); ++i) made.inputs[i] = step_inputs[i];
    made.output = output;
    const auto number = static_cast<uint32_t>(steps.size() - 1);
    for (const Value input : step_inputs) values[input.id].last_step = number;
    if (output.exists()) values[output.id].first_step = values[output.id].last_step = number;
    return made;
  }
  void matrix(Format format, uint32_t rows, uint32_t columns, std::vector<uint8_t> bytes) {
    steps.back().matrix = {nullptr, rows, columns, format, "test.weight"};
    matrices[steps.size() - 1] = std::move(bytes);
  }
  void vector(std::vector<float> data) {
    steps.back().vector = {nullptr, static_cast<uint32_t>(data.size())};
    vectors[steps.size() - 1] = std::move(data);
  }
  void bias(std::vector<float> data) {
    steps.back().bias = {nullptr, static_cast<uint32_t>(data.size())};
    biases[steps.size() - 1] = std::move(data);
  }
  Phase phase_of(uint16_t value) const {   // of the steps that make or read it
    return steps[values[value].last_step].phase;
  }
  void frequency(std::vector<double> data) { frequencies[steps.size() - 1] = std::move(data); }
};

// A plan and the sequence it is run over.
struct Case {
  std::string name;
  TestPlan plan;
  std::vector<int32_t> tokens;    // [positions]; their number is the length of the sequence
  std::vector<uint32_t> wanted;   // rising positions (counted from the first) whose outputs are wanted
  uint32_t first_position = 0;
  uint32_t n_encoded = 0;   // rows of the batch that runs the steps of the phase `encode`, before the others; 0: none
  KvType kv_type = KvType::f32;
  Value compared;   // the Value that is compared; none: state 0 is, as exported
  using Bound = std::vector<double> (*)(const Case& self, const std::vector<float>& expected);
  // The greatest allowed |difference| of each compared element, from the oracle's values. Empty: equal bits.
  Bound limit = nullptr;
  // Where errors are many and independent: the standard deviation of each element's. The root mean square of difference
  // / deviation may be at most kSpread; the limits are worst cases and would let a wrong scale pass in a long row.
  Bound deviation = nullptr;
  static constexpr double kSpread = 1.5;
  // Instead of these for the backend xnnpack, whose README derives them; null: the same.
  Bound limit_of_xnnpack = nullptr, deviation_of_xnnpack = nullptr;

  struct Bounds {
    Bound limit, deviation;
  };
  Bounds bounds_of(std::string_view backend) const {
    if (backend != "xnnpack") return {limit, deviation};
    return {limit_of_xnnpack == nullptr ? limit : limit_of_xnnpack,
            deviation_of_xnnpack == nullptr ? deviation : deviation_of_xnnpack};
  }

  uint32_t positions() const { return static_cast<uint32_t>(tokens.size()); }
  bool decodes() const { return plan.steps.back().phase == Phase::decode; }
  const std::vector<float>& input(uint32_t index, size_t step = 0) const {
    return plan.inputs.at(plan.steps[step].inputs[index].id);
  }
};

}   // namespace mote::test
