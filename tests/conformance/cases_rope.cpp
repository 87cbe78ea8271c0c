// rope_angles: the same function in every backend, equal bits.
// rope: two products and a sum, each rounded once (a fused product less): 2 u (|a c| + |b s|) and the oracle's u |y|.
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"

namespace mote::test {
namespace {

struct Pair {
  size_t first, second, angle;   // places in the row of x and of the angles
};

// The pair that element `i` of a row belongs to; false beyond n_rotated.
bool pair_of(const RopeAttributes& attributes, size_t i, Pair* pair) {
  const size_t start = i / attributes.head_dim * attributes.head_dim, at = i % attributes.head_dim;
  if (at >= attributes.n_rotated) return false;
  const size_t half = attributes.n_rotated / 2;
  if (attributes.pairing == RopePairing::neighbours) {
    *pair = {start + at / 2 * 2, start + at / 2 * 2 + 1, at / 2 * 2};
  } else {
    *pair = {start + at % half, start + at % half + half, at % half * 2};
  }
  return true;
}

std::vector<double> rope_limit(const Case& self, const std::vector<float>& expected) {
  const RopeAttributes& attributes = self.plan.steps[0].attributes.rope;
  const size_t columns = self.compared.columns;
  std::vector<double> limits(expected.size(), 0.0);
  for (size_t i = 0; i < limits.size(); ++i) {
    const float* x = &self.input(0)[i / columns * columns];
    const float* angles = &self.input(1)[i / columns * attributes.n_rotated];
    Pair pair{};
    if (!pair_of(attributes, i % columns, &pair)) continue;
    const double a = std::abs(double{x[pair.first]}), b = std::abs(double{x[pair.second]});
    const double c = std::abs(double{angles[pair.angle]}), s = std::abs(double{angles[pair.angle + 1]});
    const double parts = i % columns == pair.first ? a * c + b * s : a * s + b * c;
    limits[i] = kRounding * (2.01 * parts + std::abs(double{expected[i]})) + 0x1p-148;
  }
  return limits;
}

}   // namespace

std::vector<Case> rope_angles_cases() {
  std::vector<Case> cases;
  CaseRandom random(401);
  for (const uint32_t n_rotated : {2U, 6U, 64U, 128U}) {
    for (const uint32_t first : {0U, 255U, 4095U, 65535U, 131071U, 1000000U}) {
      Case& made = cases.emplace_back();
      made.name = "rope_angles " + std::to_string(n_rotated) + " from position " + std::to_string(first);
      made.tokens = random_tokens(3, 10, random);
      made.first_position = first;
      made.compared = made.plan.value(n_rotated);
      std::vector<double> frequency(n_rotated / 2);
      for (size_t i = 0; i < frequency.size(); ++i)
        frequency[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / n_rotated);
      made.plan.step(Op::rope_angles, {}, made.compared).attributes.rope_angles = {nullptr, n_rotated,
                                                                                   first == 255 ? 1.25 : 1.0};
      made.plan.frequency(frequency);
    }
  }
  return cases;
}

std::vector<Case> rope_cases() {
  struct Shape {
    uint32_t n_heads, head_dim, n_rotated;
  };
  std::vector<Case> cases;
  CaseRandom random(402);
  for (const Shape shape : {Shape{1, 2, 2}, {3, 6, 6}, {9, 64, 64}, {2, 12, 4}, {4, 128, 64}, {1, 34, 34}, {3, 5, 4}}) {
    for (const RopePairing pairing : {RopePairing::neighbours, RopePairing::halves}) {
      Case& made = cases.emplace_back();
      made.name = "rope of " + std::to_string(shape.n_heads) + " heads of " + std::to_string(shape.head_dim) + ", " +
                  std::to_string(shape.n_rotated) + (pairing == RopePairing::halves ? " by halves" : " by neighbours");
      made.tokens = random_tokens(5, 10, random);
      std::vector<float> angles(size_t{5} * shape.n_rotated);
      for (size_t i = 0; i < angles.size(); i += 2) {
        const double angle = random.uniform(-4, 4);
        angles[i] = static_cast<float>(std::cos(angle));
        angles[i + 1] = static_cast<float>(std::sin(angle));
      }
      const uint32_t columns = shape.n_heads * shape.head_dim;
      const Value x = made.plan.input(columns, random.normals(size_t{5} * columns, 10));
      const Value a = made.plan.input(shape.n_rotated, angles);
      made.compared = made.plan.value(columns);
      made.plan.step(Op::rope, {x, a}, made.compared).attributes.rope = {shape.n_heads, shape.head_dim, shape.n_rotated,
                                                                         pairing};
      made.limit = rope_limit;
    }
  }
  return cases;
}

}   // namespace mote::test
