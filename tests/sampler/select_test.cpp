// The selection without sorting against a full sort, on inputs of every shape.
#include "core/sampler/select.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace mote;

Crossing by_sorting(const std::vector<double>& keys, const std::vector<double>& weights, double target, Passes how) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
  double sum = 0;
  Crossing last;
  bool any = false;
  for (const size_t i : order) {
    if (weights[i] == 0) continue;
    last = {keys[i], any && last.key == keys[i] ? last.rank + 1 : 0};
    any = true;
    sum += weights[i];
    if (how == Passes::above ? sum > target : sum >= target) return last;
  }
  return last;
}

std::vector<double> keys_of_shape(int shape, size_t count, std::mt19937_64& random) {
  std::vector<double> keys(count);
  for (size_t i = 0; i < count; ++i) {
    const double u = std::ldexp(static_cast<double>(random() >> 11), -53);
    switch (shape) {
      case 0:
        keys[i] = u;
        break;
      case 1:
        keys[i] = std::floor(u * 5) - 2;
        break;   // many ties, both zeros
      case 2:
        keys[i] = std::exp2(-2000 * u + 900);
        break;   // every size
      case 3:
        keys[i] = 3;
        break;
      case 4:
        keys[i] = i == count / 2 ? 1e300 : -1e-3 * u;
        break;   // an outlier
      case 5:
        keys[i] = std::exp2(-static_cast<double>(i % 1070));
        break;   // a bin peels off one at a time
      case 6:
        keys[i] = 1 + static_cast<double>(random() % 3) * 0x1p-52;
        break;   // neighbours
      case 7:
        keys[i] = 5e-324 * static_cast<double>(random() % 100);
        break;   // subnormal
      default:
        keys[i] = (u < 0.5 ? -1 : 1) * 1e300 * u;
        break;
    }
    if (shape == 1 && keys[i] == 0 && (random() & 1) != 0) keys[i] = -0.0;
  }
  return keys;
}

TEST_CASE("the selection finds what a full sort finds", "[sampler][select]") {
  std::mt19937_64 random(3);
  std::string wrong;
  int checked = 0;
  for (int shape = 0; shape <= 8; ++shape)
    for (const size_t count : {1u, 2u, 7u, 64u, 65u, 200u, 3000u}) {
      const std::vector<double> keys = keys_of_shape(shape, count, random);
      std::vector<double> weights(count);
      double total = 0;
      for (double& w : weights) w = static_cast<double>(random() % 4), total += w;   // whole numbers: sums are exact
      for (const double share : {0.0, 0.001, 0.3, 0.5, 0.99, 1.0, 2.0})
        for (const Passes how : {Passes::above, Passes::at_or_above}) {
          const double target = std::floor(total * share);
          if (how == Passes::at_or_above && target == 0) continue;
          if (total == 0) continue;
          const Crossing found = find_crossing(
              static_cast<uint32_t>(count), target, how, [&](uint32_t i) { return keys[i]; },
              [&](uint32_t i) { return weights[i]; });
          const Crossing expected = by_sorting(keys, weights, target, how);
          ++checked;
          if ((found.key != expected.key || found.rank != expected.rank) && wrong.size() < 400)
            wrong += "shape " + std::to_string(shape) + " count " + std::to_string(count) + " share " +
                     std::to_string(share) + "\n";
        }
    }
  CHECK(wrong == "");
  CHECK(checked > 500);
}

TEST_CASE("the selection looks at each element a bounded number of times, whatever the keys", "[sampler][select]") {
  std::mt19937_64 random(4);
  for (int shape = 0; shape <= 8; ++shape) {
    const std::vector<double> keys = keys_of_shape(shape, 100000, random);
    long looks = 0;
    find_crossing(
        100000, 50000, Passes::above,
        [&](uint32_t i) {
          ++looks;
          return keys[i];
        },
        [](uint32_t) { return 1.0; });
    INFO("shape " << shape << ": " << looks << " looks");
    CHECK(looks <= 100000L * 19);
  }
}

TEST_CASE("the two zeros are one key", "[sampler][select]") {
  std::vector<double> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(i % 2 == 0 ? 0.0 : -0.0);
  keys.push_back(1e-300), keys.push_back(1.0);
  const Crossing crossing = find_crossing(
      static_cast<uint32_t>(keys.size()), 50.0, Passes::at_or_above, [&](uint32_t i) { return keys[i]; },
      [](uint32_t) { return 1.0; });
  CHECK(crossing.key == 0.0);
  CHECK(crossing.rank == 49);
}

}   // namespace
