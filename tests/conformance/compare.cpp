// What was found against what was expected.
#include <bit>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "tests/conformance/harness.h"

namespace mote::test {
namespace {

// Above 1: too far. `limit` 0 allows no difference.
double excess_of(float expected, float found, double limit) {
  if (!std::isfinite(expected)) return std::isfinite(found) ? INFINITY : 0;
  const double difference = std::abs(double{found} - expected);
  if (difference == 0) return 0;
  const double excess = limit > 0 ? difference / limit : INFINITY;
  return excess >= 0 ? excess : INFINITY;
}

// The root mean square of difference / deviation over the elements that are finite; 0 when they are few.
double spread_of(const Case& test_case, const Case::Bounds& bounds, const std::vector<float>& expected,
                 const std::vector<float>& found) {
  if (bounds.deviation == nullptr) return 0;
  const std::vector<double> deviations = bounds.deviation(test_case, expected);
  double squares = 0;
  size_t counted = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double ratio = (double{found[i]} - expected[i]) / deviations[i];
    if (!std::isfinite(ratio)) continue;
    squares += ratio * ratio;
    ++counted;
  }
  return counted < 32 ? 0 : std::sqrt(squares / static_cast<double>(counted));
}

}   // namespace

std::string compare(const Case& test_case, const std::vector<float>& expected, const std::vector<float>& found,
                    std::string_view backend) {
  if (expected.size() != found.size())
    return std::to_string(found.size()) + " elements instead of " + std::to_string(expected.size());
  const Case::Bounds bounds = test_case.bounds_of(backend);
  const std::vector<double> limits =
      bounds.limit == nullptr ? std::vector<double>(expected.size(), 0.0) : bounds.limit(test_case, expected);
  if (limits.size() != expected.size()) throw std::runtime_error("the case's limits are not as many as its elements");
  size_t worst = 0;
  double worst_excess = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double excess = excess_of(expected[i], found[i], limits[i]);
    if (excess > worst_excess) worst_excess = excess, worst = i;
  }
  const double spread = spread_of(test_case, bounds, expected, found);
  if (worst_excess <= 1 && spread <= Case::kSpread) return {};
  const size_t columns = test_case.compared.exists() ? test_case.compared.columns : expected.size();
  char text[256];
  std::snprintf(
      text, sizeof text,
      "worst at row %zu column %zu: %.9g instead of %.9g, limit %.3g (%.3g of it); rms %.3g deviations (limit %.3g)",
      worst / columns, worst % columns, double{found[worst]}, double{expected[worst]}, limits[worst], worst_excess,
      spread, Case::kSpread);
  return text;
}

std::string compare_bits(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size())
    return std::to_string(found.size()) + " elements instead of " + std::to_string(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::bit_cast<uint32_t>(expected[i]) == std::bit_cast<uint32_t>(found[i])) continue;
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    char text[128];
    std::snprintf(text, sizeof text, "element %zu: %.9g (%08x) instead of %.9g (%08x)", i, double{found[i]},
                  std::bit_cast<uint32_t>(found[i]), double{expected[i]}, std::bit_cast<uint32_t>(expected[i]));
    return text;
  }
  return {};
}

}   // namespace mote::test
