#include "tests/backends/cpu/canonical.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/base/math.h"
#include "core/format/blocks.h"

namespace mote::test {
namespace {

// What a unit of a quantised row says: sub-blocks of weights less their zero, a factor and a min for each.
struct Unit {
  std::vector<int> weights;
  std::vector<int> factors, mins;   // one for each of as many equal sub-blocks; mins may be empty
  float d = 0, d_min = 0;
  bool added_min = false;   // d_min counts the codes themselves and is added
};

template <Format format>
const Block<format>& block_at(const uint8_t* row, uint32_t unit) {
  return reinterpret_cast<const Block<format>*>(row)[unit];
}

template <class Codes>
void nibbles(const Codes& codes, int zero, Unit* unit) {
  for (const uint8_t byte : codes) unit->weights.push_back((byte & 15) - zero);
  for (const uint8_t byte : codes) unit->weights.push_back((byte >> 4) - zero);
  unit->factors = {1};
}
void fifth_bits(const uint8_t (&high)[4], Unit* unit) {
  for (uint32_t i = 0; i < 32; ++i) unit->weights[i] += (load_le<uint32_t>(high) >> i & 1) != 0 ? 16 : 0;
}
template <class Codes>
void from_table(const Codes& codes, const int8_t* table, Unit* unit) {
  nibbles(codes, 0, unit);
  for (int& weight : unit->weights) weight = table[weight];
}

Unit unit_of_32(Format format, const uint8_t* row, uint32_t u) {
  Unit unit;
  if (format == Format::q4_0) {
    const auto& b = block_at<Format::q4_0>(row, u);
    nibbles(b.codes, 8, &unit);
    unit.d = b.d.value();
  } else if (format == Format::q4_1) {
    const auto& b = block_at<Format::q4_1>(row, u);
    nibbles(b.codes, 0, &unit);
    unit.d = b.d.value(), unit.d_min = b.m.value(), unit.added_min = true;
  } else if (format == Format::q5_0) {
    const auto& b = block_at<Format::q5_0>(row, u);
    nibbles(b.codes, 16, &unit);
    fifth_bits(b.high, &unit);
    unit.d = b.d.value();
  } else if (format == Format::q5_1) {
    const auto& b = block_at<Format::q5_1>(row, u);
    nibbles(b.codes, 0, &unit);
    fifth_bits(b.high, &unit);
    unit.d = b.d.value(), unit.d_min = b.m.value(), unit.added_min = true;
  } else if (format == Format::q8_0) {
    const auto& b = block_at<Format::q8_0>(row, u);
    unit.weights.assign(b.codes, b.codes + 32);
    unit.factors = {1};
    unit.d = b.d.value();
  } else if (format == Format::iq4_nl) {
    const auto& b = block_at<Format::iq4_nl>(row, u);
    from_table(b.codes, kIq4Values, &unit);
    unit.d = b.d.value();
  } else {
    const auto& b = block_at<Format::mxfp4>(row, u);
    from_table(b.codes, kMxfp4Values, &unit);
    unit.d = mxfp4_scale(b.exponent);
    for (const int weight : unit.weights)
      if (std::isinf(static_cast<float>(weight) * unit.d)) unit.d = std::numeric_limits<float>::infinity();
  }
  return unit;
}

// Value 128h + 32k + i of a super-block, in order: visit(index, h, k, i).
template <class Visit>
void each_value(Visit visit) {
  for (uint32_t v = 0; v < 256; ++v) visit(v, v / 128, v % 128 / 32, v % 32);
}

template <Format format>
void four_or_five_bits(const Block<format>& b, Unit* unit) {
  unit->weights.resize(256);
  for (uint32_t v = 0; v < 256; ++v) unit->weights[v] = b.codes[v / 64 * 32 + v % 32] >> (v / 32 % 2 * 4) & 15;
  for (uint32_t s = 0; s < 8; ++s) {
    unit->factors.push_back(k_scale_min(b.scales, s).scale);
    unit->mins.push_back(k_scale_min(b.scales, s).min);
  }
  unit->d = b.d.value(), unit->d_min = b.dmin.value();
}

Unit unit_of_256(Format format, const uint8_t* row, uint32_t u) {
  Unit unit;
  unit.weights.resize(256);
  if (format == Format::q2_k) {
    const auto& b = block_at<Format::q2_k>(row, u);
    each_value(
        [&](uint32_t v, uint32_t h, uint32_t k, uint32_t i) { unit.weights[v] = b.codes[32 * h + i] >> (2 * k) & 3; });
    for (const uint8_t byte : b.scales) unit.factors.push_back(byte & 15), unit.mins.push_back(byte >> 4);
    unit.d = b.d.value(), unit.d_min = b.dmin.value();
  } else if (format == Format::q3_k) {
    const auto& b = block_at<Format::q3_k>(row, u);
    each_value([&](uint32_t v, uint32_t h, uint32_t k, uint32_t i) {
      unit.weights[v] = (b.codes[32 * h + i] >> (2 * k) & 3) - ((b.high[i] >> (4 * h + k) & 1) != 0 ? 0 : 4);
    });
    for (uint32_t s = 0; s < 16; ++s) unit.factors.push_back(q3_k_scale(b.scales, s));
    unit.d = b.d.value();
  } else if (format == Format::q4_k) {
    four_or_five_bits(block_at<Format::q4_k>(row, u), &unit);
  } else if (format == Format::q5_k) {
    const auto& b = block_at<Format::q5_k>(row, u);
    four_or_five_bits(b, &unit);
    for (uint32_t v = 0; v < 256; ++v) unit.weights[v] |= (b.high[v % 32] >> (v / 32) & 1) << 4;
  } else if (format == Format::q6_k) {
    const auto& b = block_at<Format::q6_k>(row, u);
    each_value([&](uint32_t v, uint32_t h, uint32_t k, uint32_t i) {
      const int low = b.low[64 * h + 32 * (k % 2) + i] >> (k < 2 ? 0 : 4) & 15;
      unit.weights[v] = (low | (b.high[32 * h + i] >> (2 * k) & 3) << 4) - 32;
    });
    unit.factors.assign(b.scales, b.scales + 16);
    unit.d = b.d.value();
  } else {
    const auto& b = block_at<Format::iq4_xs>(row, u);
    for (uint32_t v = 0; v < 256; ++v)
      unit.weights[v] = kIq4Values[b.codes[v / 32 * 16 + v % 16] >> (v / 16 % 2 * 4) & 15];
    for (uint32_t s = 0; s < 8; ++s) unit.factors.push_back(iq4_xs_scale(b, s));
    unit.d = b.d.value();
  }
  return unit;
}

float element(Format format, const uint8_t* row, uint32_t i) {
  if (format == Format::f32) return load_le<float>(row + size_t{i} * 4);
  const uint16_t bits = load_le<uint16_t>(row + size_t{i} * 2);
  return format == Format::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

}   // namespace

float canonical_fold(const float* partial) {
  float p[16];
  std::copy(partial, partial + 16, p);
  for (int width : {8, 4, 2, 1})
    for (int i = 0; i < width; ++i) p[i] = p[i] + p[i + width];
  return p[0];
}

QuantizedRow canonical_quantize(const float* x, uint32_t columns, uint32_t unit) {
  QuantizedRow row;
  for (uint32_t begin = 0; begin < columns; begin += unit) {
    float largest = 0;
    bool finite = true;
    for (uint32_t i = begin; i < begin + unit; ++i) {
      finite = finite && std::isfinite(x[i]);
      largest = std::max(largest, std::fabs(x[i]));
    }
    const bool empty = !finite || largest < 0x1p-100F;
    row.scales.push_back(!finite ? std::numeric_limits<float>::quiet_NaN() : empty ? 0.0F : largest / 127.0F);
    const float inverse = empty ? 0 : 127.0F / largest;
    for (uint32_t i = begin; i < begin + unit; ++i)
      row.codes.push_back(empty ? 0 : static_cast<int>(std::nearbyint(x[i] * inverse)));
  }
  return row;
}

namespace {

// What unit u of a weight row, times the block u of a row of x, adds to its partial sum.
void add_unit(const Unit& unit, const int* codes, float scale_x, float* partial) {
  const size_t sub = unit.weights.size() / unit.factors.size();
  int whole = 0, mins = 0;
  for (size_t j = 0; j < unit.factors.size(); ++j) {
    int dot = 0, sum = 0;
    for (size_t i = j * sub; i < (j + 1) * sub; ++i) dot += unit.weights[i] * codes[i], sum += codes[i];
    whole += unit.factors[j] * dot;
    mins += unit.mins.empty() ? sum : unit.mins[j] * sum;
  }
  *partial = std::fma(unit.d * scale_x, static_cast<float>(whole), *partial);
  if (unit.added_min) *partial = std::fma(unit.d_min * scale_x, static_cast<float>(mins), *partial);
  if (!unit.mins.empty()) *partial = std::fma(unit.d_min * scale_x, -static_cast<float>(mins), *partial);
}

}   // namespace

std::vector<float> canonical_linear(Format format, const uint8_t* weights, uint32_t rows, const float* x,
                                    uint32_t x_rows, uint32_t columns) {
  const uint32_t size = format_info(format).block_values;
  std::vector<float> y(size_t{rows} * x_rows);
  std::vector<QuantizedRow> quantized;
  for (uint32_t m = 0; size != 1 && m < x_rows; ++m)
    quantized.push_back(canonical_quantize(x + size_t{m} * columns, columns, size));
  for (uint32_t row = 0; row < rows; ++row) {
    const uint8_t* const at = weights + row * row_bytes(format, columns);
    std::vector<float> elements;
    std::vector<Unit> units;
    for (uint32_t u = 0; u < columns / size; ++u) {
      if (size == 1) elements.push_back(element(format, at, u));
      if (size == 32) units.push_back(unit_of_32(format, at, u));
      if (size == 256) units.push_back(unit_of_256(format, at, u));
    }
    for (uint32_t m = 0; m < x_rows; ++m) {
      float partial[16] = {};
      for (uint32_t u = 0; u < elements.size(); ++u)
        partial[u % 16] = std::fma(elements[u], x[size_t{m} * columns + u], partial[u % 16]);
      for (uint32_t u = 0; u < units.size(); ++u)
        add_unit(units[u], &quantized[m].codes[u * size], quantized[m].scales[u], &partial[u % 16]);
      y[size_t{m} * rows + row] = canonical_fold(partial);
    }
  }
  return y;
}

namespace {

// `q` is scaled.
float score_of(const AttentionInput& in, const std::vector<float>& q, uint32_t position, uint32_t key) {
  float score = 0;
  for (uint32_t d = 0; d < in.key_dim; ++d) score = std::fma(q[d], in.keys[size_t{key} * in.key_dim + d], score);
  if (in.softcap != 0) {
    const double c = double{in.softcap};
    score = static_cast<float>(c * tanh_f64(double{score} / c)) * static_cast<float>(1.4426950408889634);
  }
  if (in.bias != nullptr) {
    const int64_t farthest = in.max_distance, distance = int64_t{key} - position;
    const float bias = in.bias[static_cast<size_t>(std::clamp(distance, -farthest, farthest) + farthest)];
    score = score + bias * static_cast<float>(1.4426950408889634);
  }
  return score;
}

std::vector<float> scaled_query(const AttentionInput& in, const float* q) {
  const double factor = in.softcap != 0 ? double{in.scale} : double{in.scale} * 1.4426950408889634;
  std::vector<float> scaled(q, q + in.key_dim);
  for (float& value : scaled) value = value * static_cast<float>(factor);
  return scaled;
}

uint32_t first_seen(const AttentionInput& in, uint32_t position) {
  return in.window == 0 || position < in.window ? 0 : position - in.window + 1;
}

struct Softmax {
  float m = -std::numeric_limits<float>::infinity();
  float l[16] = {};
  std::vector<float> o;
};

// Positions [begin, end) of one chunk, `first` the first that is visible.
Softmax one_chunk(const AttentionInput& in, const std::vector<float>& q, uint32_t position, uint32_t first,
                  uint32_t begin, uint32_t end) {
  Softmax s;
  s.o.assign(in.value_dim, 0.0F);
  for (uint32_t block = begin; block < end; block += 64) {
    if (block + 64 <= first) continue;
    float p[64];
    for (uint32_t i = 0; i < 64; ++i) {
      p[i] = -std::numeric_limits<float>::infinity();
      if (block + i < first || block + i >= end) continue;
      p[i] = score_of(in, q, position, block + i);
    }
    float m = s.m;
    for (const float score : p)
      if (score > m) m = score;
    const float a = exp2_lane(s.m - m);
    s.m = m;
    for (float& score : p) score = exp2_lane(score - m);
    for (uint32_t j = 0; j < 16; ++j) s.l[j] = std::fma(s.l[j], a, (p[j] + p[j + 16]) + (p[j + 32] + p[j + 48]));
    for (uint32_t d = 0; d < in.value_dim; ++d) {
      s.o[d] = s.o[d] * a;
      for (uint32_t i = 0; i < 64; ++i)
        if (block + i >= first && block + i < end)
          s.o[d] = std::fma(p[i], in.values[size_t{block + i} * in.value_dim + d], s.o[d]);
      s.o[d] = s.o[d] + 0.0F;
    }
  }
  return s;
}

}   // namespace

std::vector<float> canonical_attention(const AttentionInput& in, const float* q, uint32_t position, uint32_t last) {
  const std::vector<float> scaled = scaled_query(in, q);
  const uint32_t first = first_seen(in, position);
  Softmax total;
  bool started = false;
  for (uint32_t chunk = first / 1024; chunk <= last / 1024; ++chunk) {
    const Softmax s = one_chunk(in, scaled, position, first, chunk * 1024, std::min(last + 1, (chunk + 1) * 1024));
    if (!started) {
      total = s;
      started = true;
      continue;
    }
    const float m = s.m > total.m ? s.m : total.m, a = exp2_lane(total.m - m), b = exp2_lane(s.m - m);
    for (uint32_t j = 0; j < 16; ++j) total.l[j] = std::fma(s.l[j], b, total.l[j] * a);
    for (uint32_t d = 0; d < in.value_dim; ++d) total.o[d] = std::fma(s.o[d], b, total.o[d] * a);
    total.m = m;
  }
  const float sum = canonical_fold(total.l);
  for (float& value : total.o) value = value / sum;
  return total.o;
}

std::vector<float> canonical_weights(const AttentionInput& in, const float* q, uint32_t position, uint32_t last,
                                     uint32_t positions) {
  const std::vector<float> scaled = scaled_query(in, q);
  std::vector<float> weights(positions, 0.0F);
  float m = -std::numeric_limits<float>::infinity();
  for (uint32_t p = first_seen(in, position); p <= last; ++p) {
    weights[p] = score_of(in, scaled, position, p);
    if (weights[p] > m) m = weights[p];
  }
  double sum = 0;
  for (uint32_t p = first_seen(in, position); p <= last; ++p) {
    weights[p] = exp2_lane(weights[p] - m);
    sum += double{weights[p]};
  }
  for (uint32_t p = first_seen(in, position); p <= last; ++p) weights[p] = static_cast<float>(double{weights[p]} / sum);
  return weights;
}

std::string compare_floats(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size())
    return std::to_string(found.size()) + " elements instead of " + std::to_string(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    if (std::bit_cast<uint32_t>(expected[i]) != std::bit_cast<uint32_t>(found[i]))
      return "element " + std::to_string(i) + " is " + std::to_string(found[i]) + " instead of " +
             std::to_string(expected[i]);
  }
  return "";
}

}   // namespace mote::test
