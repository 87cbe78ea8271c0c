// activate, gate, add, scale, softcap.
//
// Limits, u = 2^-24. add and scale: one rounding, equal bits (cases_rows.cpp). The others compute a function in f32 or
// better, from our own functions or others good to 2 u:
//   relu        equal bits
//   silu        1 + exp(-x) and the quotient: 5 u |y|. Where exp(-x) is over the f32 range y may be 0; the oracle's is
//               below 88.8 / 2^128 there: + 2^-121. xnnpack: x times 1 / (1 + exp(-x)), which is 0 on ARM where it
//               would be subnormal, from x = -87.3 on: the oracle's is below 88 / 2^126 there: + 2^-119
//   gelu        1 + tanh or 1 + erf cancels for x < 0, so the error is one of x: the function's argument carries 4
//               roundings and z tanh'(z) < 0.45, z erf'(z) < 0.5: with 1 + f and the two products 5 u |x|
//   gate        that of its activation, times |u|, and one rounding of the product: u |y|
//   softcap     quotient, tanh (which shrinks relative errors) and product: 5 u |y|; where the quotient is subnormal,
//               its rounding counts factor times. xnnpack: 1 / factor is rounded too, its tanh good to 6 u: 10 u |y|
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"

namespace mote::test {
namespace {

// What two kinds of backends are held to.
struct Limits {
  double silu_of_nothing;   // where the sigmoid may be 0
  double softcap;           // in u
};
constexpr Limits kEveryone = {0x1p-121, 5}, kXnnpack = {0x1p-119, 10};

double activation_limit(Activation function, double x, double y, const Limits& limits) {
  switch (function) {
    case Activation::relu:
      return 0;
    case Activation::silu:
      return 5 * u * std::abs(y) + limits.silu_of_nothing;
    case Activation::gelu_tanh:
    case Activation::gelu_erf:
      return 5 * u * std::abs(x) + 0x1p-148;
  }
  return 0;
}

template <const Limits& kLimits>
std::vector<double> activate_limit(const Case& self, const std::vector<float>& expected) {
  const Activation function = self.plan.steps[0].attributes.activate.function;
  std::vector<double> limits(expected.size());
  for (size_t i = 0; i < limits.size(); ++i)
    limits[i] = activation_limit(function, self.input(0)[i], expected[i], kLimits);
  return limits;
}

template <const Limits& kLimits>
std::vector<double> gate_limit(const Case& self, const std::vector<float>& expected) {
  const Activation function = self.plan.steps[0].attributes.activate.function;
  std::vector<double> limits(expected.size());
  for (size_t i = 0; i < limits.size(); ++i) {
    const double up = std::abs(double{self.input(1)[i]}), y = std::abs(double{expected[i]});
    const double of_activation = activation_limit(function, self.input(0)[i], up == 0 ? 0 : y / up, kLimits);
    limits[i] = of_activation * up + 2 * u * y + (of_activation == 0 ? 0 : 0x1p-148);
  }
  return limits;
}

template <const Limits& kLimits>
std::vector<double> softcap_limit(const Case& self, const std::vector<float>& expected) {
  const double subnormal = std::abs(double{self.plan.steps[0].attributes.scale.factor}) * 0x1p-149 + 0x1p-148;
  std::vector<double> limits(expected.size());
  for (size_t i = 0; i < limits.size(); ++i)
    limits[i] = kLimits.softcap * u * std::abs(double{expected[i]}) + subnormal;
  return limits;
}

constexpr uint32_t kWidths[] = {1, 7, 15, 16, 17, 33, 64, 1000};
constexpr uint32_t kRows = 3;

// Ordinary numbers with the odd one among them.
std::vector<float> odd_numbers(size_t count, CaseRandom& random) {
  const float odd[] = {0.0F, -0.0F, 1e-40F, -1e-40F, 88.0F, -88.0F, 89.5F, -89.5F, -104.0F, 1e4F, -1e4F, 1e-6F, 16.0F};
  std::vector<float> values = random.normals(count, 3);
  for (size_t i = 0; i < count; ++i)
    if (random.below(4) == 0) values[i] = odd[random.below(std::size(odd))];
  return values;
}

std::string activation_name(Activation function) {
  switch (function) {
    case Activation::relu:
      return " relu";
    case Activation::silu:
      return " silu";
    case Activation::gelu_tanh:
      return " gelu_tanh";
    case Activation::gelu_erf:
      return " gelu_erf";
  }
  return " unknown";
}
constexpr Activation kActivations[] = {Activation::relu, Activation::silu, Activation::gelu_tanh, Activation::gelu_erf};

// A case of `op` on `n_inputs` inputs of `columns`.
Case elementwise_case(Op op, uint32_t columns, CaseRandom& random) {
  Case made;
  made.name = std::string(op_info(op).name) + " of " + std::to_string(columns);
  made.tokens = random_tokens(kRows, 10, random);
  std::vector<Value> inputs;
  for (uint32_t i = 0; i < op_info(op).n_inputs; ++i)
    inputs.push_back(made.plan.input(columns, odd_numbers(size_t{kRows} * columns, random)));
  made.compared = made.plan.value(columns);
  made.plan.step(op, inputs, made.compared);
  return made;
}

std::vector<Case> activation_cases(Op op, uint64_t seed) {
  std::vector<Case> cases;
  CaseRandom random(seed);
  for (const uint32_t columns : kWidths) {
    for (const Activation function : kActivations) {
      Case& made = cases.emplace_back(elementwise_case(op, columns, random));
      made.name += activation_name(function);
      made.plan.steps[0].attributes.activate.function = function;
      made.limit = op == Op::gate ? gate_limit<kEveryone> : activate_limit<kEveryone>;
      made.limit_of_xnnpack = op == Op::gate ? gate_limit<kXnnpack> : activate_limit<kXnnpack>;
    }
  }
  return cases;
}

std::vector<Case> factor_cases(Op op, const std::vector<float>& factors, uint64_t seed) {
  std::vector<Case> cases;
  CaseRandom random(seed);
  for (const uint32_t columns : kWidths) {
    for (const float factor : factors) {
      Case& made = cases.emplace_back(elementwise_case(op, columns, random));
      made.name += " by " + std::to_string(factor);
      made.plan.steps[0].attributes.scale.factor = factor;
      if (op == Op::softcap) made.limit = softcap_limit<kEveryone>, made.limit_of_xnnpack = softcap_limit<kXnnpack>;
    }
  }
  return cases;
}

}   // namespace

std::vector<Case> activate_cases() { return activation_cases(Op::activate, 501); }
std::vector<Case> gate_cases() { return activation_cases(Op::gate, 502); }
std::vector<Case> scale_cases() { return factor_cases(Op::scale, {1.0F, -0.3F, 48.0F, 1e-30F, 0.0F}, 504); }
std::vector<Case> softcap_cases() { return factor_cases(Op::softcap, {30.0F, 50.0F, 0.5F}, 505); }

std::vector<Case> add_cases() {
  std::vector<Case> cases;
  CaseRandom random(503);
  for (const uint32_t columns : kWidths) cases.push_back(elementwise_case(Op::add, columns, random));
  return cases;
}

}   // namespace mote::test
