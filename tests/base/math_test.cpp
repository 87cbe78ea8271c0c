// The mathematical functions against the C library's in long double: worst error in ulp, share of correctly rounded
// results, special values. The bounds are those that core/base/math.h states.
#include "core/base/math.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/base/math_blocks.h"

namespace {

using namespace mote;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kSamples = 200000;
// Where long double is double (32-bit ARM), what C's library calls exact is itself off: by 2 units at most, glibc's
// manual says ("Known Maximum Errors", tanh). That the bits are those of other machines is tests/reach's.
constexpr double kReferenceUlp = std::numeric_limits<long double>::digits > 53 ? 0 : 2;

struct Errors {
  double worst_ulp = 0, worst_at = 0;
  double rounded_wrong = 0;   // share of results that are not the nearest number
};

class Draw {
 public:
  double uniform(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(random_() >> 11), -53);
  }
  // Uniform in the exponent, of either sign.
  double spread(double low, double high) {
    const double size = std::exp2(uniform(low, high));
    return (random_() & 1) != 0 ? -size : size;
  }

 private:
  std::mt19937_64 random_{42};
};

template <class T>
Errors measure(const std::function<T(T)>& function, const std::function<long double(long double)>& exact,
               const std::function<double()>& argument) {
  Errors errors;
  int wrong = 0;
  for (int i = 0; i < kSamples; ++i) {
    const T x = static_cast<T>(argument()), found = function(x);
    const long double expected = exact(static_cast<long double>(x));
    const T nearest = static_cast<T>(expected);
    const T size = std::fabs(nearest);
    const long double ulp = static_cast<long double>(std::nextafter(size, std::numeric_limits<T>::infinity())) -
                            static_cast<long double>(size);
    const double error = static_cast<double>(std::fabs(static_cast<long double>(found) - expected) / ulp);
    if (!(error <= errors.worst_ulp)) errors.worst_ulp = error, errors.worst_at = static_cast<double>(x);
    wrong += found != nearest;
  }
  errors.rounded_wrong = static_cast<double>(wrong) / kSamples;
  return errors;
}

void check_f64(const std::string& name, const std::function<double(double)>& function,
               const std::function<long double(long double)>& exact, double bound_ulp,
               const std::function<double()>& argument) {
  const Errors errors = measure<double>(function, exact, argument);
  INFO(name << ": " << errors.worst_ulp << " ulp at " << errors.worst_at);
  CHECK(errors.worst_ulp < bound_ulp + kReferenceUlp);
}

void check_f32(const std::string& name, const std::function<float(float)>& function,
               const std::function<long double(long double)>& exact, const std::function<double()>& argument) {
  const Errors errors = measure<float>(function, exact, argument);
  INFO(name << ": " << errors.worst_ulp << " ulp at " << errors.worst_at << ", not nearest " << errors.rounded_wrong);
  CHECK(errors.worst_ulp < 0.501);
  CHECK(errors.rounded_wrong < 1e-4);
}

#define EXACT(name) [](long double x) { return std::name(x); }

TEST_CASE("exponentials and logarithms keep their bounds", "[base][math][long]") {
  Draw draw;
  check_f64("exp", exp_f64, EXACT(exp), 0.6, [&] { return draw.uniform(-708, 709.7); });
  check_f64("exp near 0", exp_f64, EXACT(exp), 0.6, [&] { return draw.spread(-60, 0); });
  check_f64("exp to subnormal", exp_f64, EXACT(exp), 1.0, [&] { return draw.uniform(-745, -708); });
  check_f64("log", log_f64, EXACT(log), 0.51, [&] { return std::fabs(draw.spread(-1073, 1023)); });
  check_f64("log near 1", log_f64, EXACT(log), 0.51, [&] { return 1 + draw.spread(-53, -1); });
  check_f64(
      "pow 10000^y", [](double y) { return pow_f64(10000.0, y); }, [](long double y) { return std::pow(10000.0L, y); },
      0.6, [&] { return draw.uniform(-70, 70); });
  check_f64(
      "pow x^0.37", [](double x) { return pow_f64(x, 0.37); },
      [](long double x) { return std::pow(x, static_cast<long double>(0.37)); }, 0.6,
      [&] { return std::fabs(draw.spread(-1000, 1000)); });
}

TEST_CASE("hyperbolic tangent and error function keep their bounds", "[base][math][long]") {
  Draw draw;
  check_f64("tanh", tanh_f64, EXACT(tanh), 0.6, [&] { return draw.uniform(-20, 20); });
  check_f64("tanh near 0", tanh_f64, EXACT(tanh), 0.6, [&] { return draw.spread(-60, 0); });
  check_f64("erf", erf_f64, EXACT(erf), 1.0, [&] { return draw.uniform(-6, 6); });
  check_f64("erf near 0", erf_f64, EXACT(erf), 1.0, [&] { return draw.spread(-400, 0); });
}

TEST_CASE("sine and cosine keep their bounds up to 2^31", "[base][math][long]") {
  Draw draw;
  check_f64("sin", sin_f64, EXACT(sin), 0.9, [&] { return draw.uniform(-10, 10); });
  check_f64("cos", cos_f64, EXACT(cos), 0.9, [&] { return draw.uniform(-10, 10); });
  check_f64("sin of large", sin_f64, EXACT(sin), 0.9, [&] { return draw.uniform(-2147483648.0, 2147483648.0); });
  check_f64("cos of large", cos_f64, EXACT(cos), 0.9, [&] { return draw.uniform(-2147483648.0, 2147483648.0); });
  check_f64("cos of positions", cos_f64, EXACT(cos), 0.9, [&] { return std::floor(draw.uniform(0, 1e6)); });
  // Next to multiples of pi nearly all of the angle cancels.
  check_f64("sin near n pi", sin_f64, EXACT(sin), 0.9,
            [&] { return std::floor(draw.uniform(0, 683565275)) * 3.141592653589793; });
  check_f64("sin near 0", sin_f64, EXACT(sin), 0.9, [&] { return draw.spread(-1000, 0); });
}

TEST_CASE("sine and cosine together are the two apart", "[base][math]") {
  Draw draw;
  int wrong = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = draw.uniform(-1e6, 1e6);
    const SinCos both = sin_cos_f64(x);
    wrong += both.sine != sin_f64(x) || both.cosine != cos_f64(x);
  }
  CHECK(wrong == 0);
}

TEST_CASE("float functions are correctly rounded but for one argument in ten thousand", "[base][math][long]") {
  Draw draw;
  check_f32("exp", exp_f32, EXACT(exp), [&] { return draw.uniform(-87, 88.7); });
  check_f32("exp to subnormal", exp_f32, EXACT(exp), [&] { return draw.uniform(-103, -87); });
  check_f32("log", log_f32, EXACT(log), [&] { return std::fabs(draw.spread(-149, 128)); });
  check_f32("tanh", tanh_f32, EXACT(tanh), [&] { return draw.uniform(-9, 9); });
  check_f32("erf", erf_f32, EXACT(erf), [&] { return draw.uniform(-4, 4); });
  check_f32("sin", sin_f32, EXACT(sin), [&] { return draw.uniform(-1e6, 1e6); });
  check_f32("cos", cos_f32, EXACT(cos), [&] { return draw.uniform(-1e6, 1e6); });
  check_f32(
      "pow", [](float x) { return pow_f32(x, 0.75f); }, [](long double x) { return std::pow(x, 0.75L); },
      [&] { return std::fabs(draw.spread(-149, 128)); });
}

TEST_CASE("a block of exp, tanh or erf has the bits of the function of one number", "[base][math]") {
  const struct {
    const char* name;
    void (*block)(const float*, float*);
    float (*one)(float);
    std::vector<uint32_t> close;   // arguments whose quick approximation would round to the wrong one of two neighbours
  } functions[] = {{"exp", exp_block, exp_f32, {0x3e777fec, 0x3ea585a0, 0x3ebf4a81, 0xc2b2e798}},
                   {"tanh", tanh_block, tanh_f32, {0x3ac37de2, 0x3bab6e65, 0x3c4e34b0}},
                   {"erf", erf_block, erf_f32, {0x01214e80, 0x0125c046, 0x02a14e80}}};
  for (const auto& function : functions) {
    std::vector<uint32_t> arguments = function.close;
    std::mt19937 random{7};
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (int i = 0; i < 512; ++i) arguments.push_back(exponent << 23 | (random() & 0x807fffff));
    for (const uint32_t bits : {0U, 0x80000000U, 0x7f800000U, 0xff800000U, 0x7fc00000U, 1U, 0x007fffffU, 0x00800000U})
      arguments.push_back(bits);
    arguments.resize(arguments.size() / kMathBlock * kMathBlock + kMathBlock, 0xc2aeac50);   // exp: subnormal
    uint32_t wrong = 0, example = 0;
    for (size_t first = 0; first < arguments.size(); first += kMathBlock) {
      float x[kMathBlock], y[kMathBlock];
      for (size_t i = 0; i < kMathBlock; ++i) x[i] = std::bit_cast<float>(arguments[first + i]);
      function.block(x, y);
      for (size_t i = 0; i < kMathBlock; ++i) {
        const float expected = function.one(x[i]);
        if (std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(y[i]) ||
            (std::isnan(expected) && std::isnan(y[i])))
          continue;
        if (wrong++ == 0) example = arguments[first + i];
      }
    }
    INFO(function.name << ": " << wrong << " wrong, the first " << std::bit_cast<float>(example));
    CHECK(wrong == 0);
  }
}

TEST_CASE("softmax's exponential is close, 1 at 0, and 0 where it would be subnormal", "[base][math]") {
  Draw draw;
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double x = i % 2 == 0 ? draw.uniform(-708, 709) : draw.uniform(-20, 0);
    const long double exact = std::exp(static_cast<long double>(x));
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(exp_lane_f64(x)) / exact - 1)));
  }
  CHECK(worst < 4e-16);
  CHECK(exp_lane_f64(0) == 1);
  CHECK(exp_lane_f64(-0.0) == 1);
  CHECK(exp_lane_f64(-708.0) > 0);
  CHECK(exp_lane_f64(-708.1) == 0);
  CHECK(exp_lane_f64(-2e300) == 0);
  CHECK(exp_lane_f64(-kInfinity) == 0);
}

// Equal as numbers, with the sign of zeros; or both NaN.
bool alike(double a, double b) { return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b)); }

TEST_CASE("special arguments give what annex F of C says", "[base][math]") {
  const std::vector<double> values = {0.0,  -0.0,  1.0,    -1.0,   kInfinity, -kInfinity,
                                      kNaN, 1e300, -1e300, 5e-324, -5e-324};
  for (const double x : values) {
    INFO("x = " << x);
    CHECK(alike(exp_f64(x), std::exp(x)) == true);
    CHECK(alike(log_f64(x), std::log(x)));
    CHECK(alike(tanh_f64(x), std::tanh(x)));
    CHECK(alike(static_cast<double>(exp_f32(static_cast<float>(x))),
                static_cast<double>(std::exp(static_cast<float>(x)))));
    CHECK(alike(erf_f64(x), std::fabs(x) < 1e-300 ? x * 1.1283791670955126 : std::erf(x)));
  }
  CHECK(alike(sin_f64(-0.0), -0.0));
  CHECK(sin_f64(5e-324) == 5e-324);
  for (const double x : {2147483649.0, 1e300, kInfinity, -kInfinity, kNaN}) {
    INFO("x = " << x);
    CHECK(std::isnan(sin_f64(x)));
    CHECK(std::isnan(cos_f64(x)));
  }
}

TEST_CASE("pow gives what annex F of C says for every pair of odd values", "[base][math]") {
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.0,
                                      2.0,
                                      -2.0,
                                      3.0,
                                      -3.0,
                                      0.5,
                                      -0.5,
                                      1.5,
                                      -1.5,
                                      1e10,
                                      -1e10,
                                      1e300,
                                      -1e300,
                                      5e-324,
                                      -5e-324,
                                      1e16 + 2,
                                      -1e16 - 2,
                                      kInfinity,
                                      -kInfinity,
                                      kNaN,
                                      0.9999999999999999,
                                      1.0000000000000002,
                                      9007199254740991.0,
                                      -9007199254740991.0};
  std::string wrong;
  for (const double x : values)
    for (const double y : values) {
      const double found = pow_f64(x, y), expected = std::pow(x, y);
      const bool close =
          std::fabs(found - expected) <= std::fabs(expected) * 2.3e-16 || std::fabs(found - expected) <= 5e-324;
      if (!alike(found, expected) && !(close && std::signbit(found) == std::signbit(expected)))
        wrong += std::to_string(x) + "^" + std::to_string(y) + " ";
    }
  CHECK(wrong == "");
}

}   // namespace
