// The software fused multiply-add against the C library's, which is correctly rounded, and against cases made by
// hand; the lane functions of attention and softmax.
#include "core/base/fma.h"

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/base/fold.h"
#include "core/base/math.h"

namespace {

using namespace mote;

bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b); }

struct Triple {
  float a, b, c;
};

// Bit patterns of every kind: plain random ones, and kinds in which rounding is hard.
class Triples {
 public:
  Triple next(int kind) {
    const uint64_t r = random_(), s = random_();
    auto a = static_cast<uint32_t>(r), b = static_cast<uint32_t>(r >> 32), c = static_cast<uint32_t>(s);
    switch (kind) {
      case 1:
        a &= 0x80ffffff;
        break;   // subnormal or tiny
      case 2:
        c &= 0x807fffff;
        break;   // a subnormal addend
      case 3:
        a &= 0xffff0000, b &= 0xffff0000;
        break;   // short products: exact, ties
      case 4:
        a = (a & 0x83ffffff) | 0x3c000000, b = (b & 0x83ffffff) | 0x3c000000;   // all of one size
        c = (c & 0x83ffffff) | 0x38000000;
        break;
      case 5:
        a |= 0x7e000000;
        break;    // overflow, infinity, NaN
      case 6: {   // nearly all cancels
        const float product = std::bit_cast<float>(a) * std::bit_cast<float>(b);
        c = std::bit_cast<uint32_t>(-product) + static_cast<uint32_t>(s >> 40 & 3);
        break;
      }
      case 7:
        a &= 0xfff80000, b = (b & 0x80f80000) | static_cast<uint32_t>(s >> 40 & 0x7f) << 23, c &= 0x807fffff;
        break;
      case 8: {   // half a unit of c, but for 2^-46 of it: double rounds that away, and the tie would decide
        const float k = static_cast<float>(1 + (s >> 60)) * 0x1p-23f;
        const float scale = std::ldexp((s & 1) != 0 ? 0x1p-12f : -0x1p-12f, static_cast<int>(s >> 33 & 31));
        c = (c & 0x807fffffu) | (127u + static_cast<uint32_t>(s >> 33 & 31)) << 23;
        return {(1 + k) * scale, (1 - k) * 0x1p-12f, std::bit_cast<float>(c)};
      }
      default:
        break;
    }
    return {std::bit_cast<float>(a), std::bit_cast<float>(b), std::bit_cast<float>(c)};
  }

 private:
  std::mt19937_64 random_{20261129};
};

TEST_CASE("the software fma equals the exact one on random bit patterns of every kind", "[base][fma]") {
  Triples triples;
  long wrong = 0;
  Triple first{};
  for (int kind = 0; kind < 9; ++kind)
    for (int i = 0; i < 500000; ++i) {
      const Triple t = triples.next(kind);
      if (same(fma_f32_soft(t.a, t.b, t.c), std::fma(t.a, t.b, t.c)) &&
          same(fma_f32(t.a, t.b, t.c), std::fma(t.a, t.b, t.c)))
        continue;
      if (wrong++ == 0) first = t;
    }
  INFO("first wrong: fma(" << first.a << ", " << first.b << ", " << first.c << ")");
  CHECK(wrong == 0);
}

TEST_CASE("the software fma rounds once where two roundings would differ", "[base][fma]") {
  // The product is 2^-24 - 2^-70: with these addends a double cannot tell the sum from a tie.
  const float a = 0x1p-12f * (1 + 0x1p-23f), b = 0x1p-12f * (1 - 0x1p-23f);
  CHECK(fma_f32_soft(a, b, 1.0f + 0x1p-23f) == 1.0f + 0x1p-23f);
  CHECK(fma_f32_soft(-a, b, 1.0f + 3 * 0x1p-23f) == 1.0f + 3 * 0x1p-23f);
  const float e = 0x1p-12f;
  CHECK(fma_f32_soft(e, e, 1.0f) == 1.0f);                               // the tie goes to even
  CHECK(fma_f32_soft(e, e * (1 + 0x1p-23f), 1.0f) == 1.0f + 0x1p-23f);   // a little above it
  CHECK(fma_f32_soft(e, e * (1 - 0x1p-24f), 1.0f) == 1.0f);
  const float big = 0x1.fffffep+127f;
  CHECK(fma_f32_soft(big, 1.0f, 0x1p+102f) == big);   // below half of the last unit
  CHECK(fma_f32_soft(big, 1.0f, 0x1p+103f) == std::numeric_limits<float>::infinity());
  CHECK(fma_f32_soft(big, big, -big) == std::numeric_limits<float>::infinity());
  CHECK(fma_f32_soft(0x1p-149f, 0x1p-1f, 0.0f) == 0.0f);   // half of the smallest: to even
  CHECK(fma_f32_soft(0x1p-149f, 0x1p-1f, 0x1p-149f) == 0x1p-148f);
}

TEST_CASE("the software fma keeps the signs of zeros and the rules of infinity and NaN", "[base][fma]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::signbit(fma_f32_soft(-0.0f, 1.0f, -0.0f)));
  CHECK_FALSE(std::signbit(fma_f32_soft(-0.0f, 1.0f, 0.0f)));
  CHECK_FALSE(std::signbit(fma_f32_soft(1.0f, 1.0f, -1.0f)));
  CHECK(std::isnan(fma_f32_soft(inf, 0.0f, 1.0f)));
  CHECK(std::isnan(fma_f32_soft(inf, 1.0f, -inf)));
  CHECK(std::isnan(fma_f32_soft(nan, 1.0f, 1.0f)));
  CHECK(fma_f32_soft(1.0f, 1.0f, -inf) == -inf);
  CHECK(fma_f32_soft(inf, -2.0f, 1.0f) == -inf);
}

TEST_CASE("attention's exp2 has the bits of its definition, and is close", "[base][math][long]") {
  constexpr float kCoefficients[6] = {0.6931471824645996f,   0.24022650718688965f,   0.055503569543361664f,
                                      0.009618083015084267f, 0.0013390863314270973f, 0.00015453163359779865f};
  long wrong = 0, checked = 0;
  double worst = 0;
  for (uint32_t bits = 0x80000000u; bits < 0xc3000000u; bits += 211) {
    const float x = std::bit_cast<float>(bits);
    float expected = 0;
    if (x >= -115.0f) {
      const float n = std::nearbyint(x), r = x - n;
      float p = kCoefficients[5];
      for (int i = 4; i >= 0; --i) p = std::fma(p, r, kCoefficients[i]);
      expected = std::ldexp(std::fma(p, r, 1.0f), static_cast<int>(n));
      worst = std::max(worst, std::fabs(static_cast<double>(exp2_lane(x)) / std::exp2(static_cast<double>(x)) - 1));
    }
    wrong += !same(exp2_lane(x), expected);
    ++checked;
  }
  CHECK(checked > 1000000);
  CHECK(wrong == 0);
  CHECK(worst < 2e-7);
  CHECK(exp2_lane(0.0f) == 1.0f);
  CHECK(exp2_lane(127.0f) == 0x1p+127f);
  CHECK(exp2_lane(-115.0f) == 0x1p-115f);
  CHECK(exp2_lane(-115.00001f) == 0.0f);
  CHECK(exp2_lane(-std::numeric_limits<float>::infinity()) == 0.0f);
  CHECK(exp2_lane(std::numeric_limits<float>::quiet_NaN()) == 0.0f);
}

TEST_CASE("rounding goes to the nearest, ties to even", "[base][math]") {
  long wrong = 0;
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000000; ++i) {
    const uint64_t bits = random();
    const float f = i % 2 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                               : static_cast<float>(static_cast<int64_t>(bits) >> 40) * 0.5f;
    const double d =
        i % 2 == 0 ? std::bit_cast<double>(bits) : static_cast<double>(static_cast<int64_t>(bits) >> 20) * 0.5;
    wrong += !same(round_to_even_f32(f), std::nearbyint(f));
    const double rounded = round_to_even_f64(d), expected = std::nearbyint(d);
    wrong += std::bit_cast<uint64_t>(rounded) != std::bit_cast<uint64_t>(expected) && !(d != d);
    if (std::fabs(f) <= 4194304.0f) wrong += static_cast<float>(round_to_int_f32(f)) != std::nearbyint(f);
  }
  CHECK(wrong == 0);
  CHECK(round_to_int_f32(2.5f) == 2);
  CHECK(round_to_int_f32(-3.5f) == -4);
  CHECK(sqrt_f32(2.0f) == std::sqrt(2.0f));
  CHECK(sqrt_f64(2.0) == std::sqrt(2.0));
}

TEST_CASE("partial sums fold by halves", "[base][fold]") {
  float partials[kPartials];
  for (int i = 0; i < kPartials; ++i) partials[i] = std::ldexp(1.0f, i * 3) + 0.1f;
  const float* p = partials;
  const auto eight = [p](int i) { return p[i] + p[i + 8]; };
  const auto four = [&](int i) { return eight(i) + eight(i + 4); };
  const auto two = [&](int i) { return four(i) + four(i + 2); };
  const float expected = two(0) + two(1);
  CHECK(same(fold16(partials), expected));
}

}   // namespace
