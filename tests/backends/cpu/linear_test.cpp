// Every variant of the kernels of `linear`, in every format, against the order written once more.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/linear/linear.h"
#include "platform/cpu_features.h"
#include "tests/backends/cpu/canonical.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

struct Problem {
  Format format = Format::f32;
  uint32_t rows = 0, columns = 0, x_rows = 0;
  std::vector<uint8_t> weights;
  std::vector<float> x, bias;
};

Problem random_problem(Format format, uint32_t rows, uint32_t blocks, uint32_t x_rows, uint64_t seed) {
  CaseRandom random(seed);
  Problem made;
  made.format = format;
  const uint32_t values = format_info(format).block_values;
  made.rows = rows, made.columns = values == 1 ? blocks * 32 + blocks % 7 : blocks * values, made.x_rows = x_rows;
  made.weights = random_matrix(format, made.rows, made.columns, random);
  made.x = random.normals(size_t{made.columns} * x_rows);
  for (uint32_t i = 0; i < std::min(made.columns, values); ++i) made.x[i] = 0;   // a block without anything
  if (rows % 2 == 1) made.bias = random.normals(rows);
  return made;
}

std::vector<float> expected_outputs(const Problem& problem) {
  const size_t row_size = row_bytes(problem.format, problem.columns);
  std::vector<float> y;
  for (uint32_t x = 0; x < problem.x_rows; ++x)
    for (uint32_t row = 0; row < problem.rows; ++row) {
      const float sum = canonical_linear(problem.format, &problem.weights[row * row_size],
                                         &problem.x[size_t{x} * problem.columns], problem.columns);
      y.push_back(problem.bias.empty() ? sum : sum + problem.bias[row]);
    }
  return y;
}

// The kernel's outputs; the rows in chunks of `chunk`, all memory filled with NaN before.
std::vector<float> kernel_outputs(const Problem& problem, const LinearTable& table, uint32_t chunk) {
  const uint32_t unit = std::max(32U, format_info(problem.format).block_values), columns = problem.columns;
  const size_t count = size_t{columns} * problem.x_rows;
  std::vector<int16_t> codes(count, -1), sums(count / 16 + 1, -1);
  std::vector<float> scales(count / unit + 1, NAN), y(size_t{problem.rows} * problem.x_rows, NAN);
  if (format_info(problem.format).block_values > 1)
    for (size_t x = 0; x < problem.x_rows; ++x)
      table.quantize({&problem.x[x * columns], columns, unit, &codes[x * columns], &scales[x * (columns / unit)],
                      &sums[x * (columns / 16)]});
  struct alignas(64) ScratchLine {
    uint8_t bytes[64];
  };
  std::vector<ScratchLine> scratch(kLinearScratchBytes / 64);
  std::fill_n(reinterpret_cast<uint8_t*>(scratch.data()), kLinearScratchBytes, uint8_t{0xFF});
  LinearJob job = {};
  job.weights = problem.weights.data();
  job.weight_row_bytes = row_bytes(problem.format, columns);
  job.columns = columns;
  job.x_rows = problem.x_rows;
  job.x = problem.x.data();
  job.codes = codes.data();
  job.scales = scales.data();
  job.sums = sums.data();
  job.bias = problem.bias.empty() ? nullptr : problem.bias.data();
  job.y = y.data();
  job.y_columns = problem.rows;
  job.scratch = scratch.data();
  for (job.first_row = 0; job.first_row < problem.rows; job.first_row = job.end_row) {
    job.end_row = std::min(problem.rows, job.first_row + chunk);
    table.by_format[static_cast<size_t>(problem.format)](job);
  }
  return y;
}

// All rows of the table that this machine runs; gives what differs.
std::string check(const Problem& problem, uint32_t* compared) {
  const std::vector<float> expected = expected_outputs(problem);
  const IsaBits available = isa_bits(probe_cpu_features());
  std::string wrong;
  for (const LinearVariant& variant : linear_variants()) {
    if ((variant.required & ~available) != 0 ||
        variant.table->by_format[static_cast<size_t>(problem.format)] == nullptr)
      continue;
    for (const uint32_t chunk : {problem.rows, 5U}) {
      const std::string sentence = compare_floats(expected, kernel_outputs(problem, *variant.table, chunk));
      if (!sentence.empty())
        wrong += std::string("\n") + variant.name + ", " + std::string(format_info(problem.format).name) + " [" +
                 std::to_string(problem.rows) + ", " + std::to_string(problem.columns) + "] on " +
                 std::to_string(problem.x_rows) + " rows: " + sentence;
      ++*compared;
    }
  }
  return wrong;
}

}   // namespace

TEST_CASE("every kernel of linear has the bits of the canonical order, in every format and shape", "[cpu][linear]") {
  std::string wrong;
  uint32_t compared = 0;
  for (const Format format : enabled_formats()) {
    uint64_t seed = 1;
    for (const auto& [rows, blocks, x_rows] : {std::array{1U, 1U, 1U},
                                               {3U, 2U, 2U},
                                               {4U, 15U, 1U},
                                               {9U, 16U, 3U},
                                               {6U, 17U, 5U},
                                               {5U, 33U, 1U},
                                               {7U, 3U, 35U},
                                               {2U, 130U, 2U},
                                               {3U, 140U, 33U}})
      wrong += check(random_problem(format, rows, blocks, x_rows, seed++), &compared);
  }
  CHECK(compared >= 9 * 2 * enabled_formats().size());
  CHECK(wrong == "");
}

TEST_CASE("an input row is quantised by the rules of the header", "[cpu][linear]") {
  CaseRandom random(3);
  std::vector<float> x = random.normals(256 * 12);
  x[0] = std::numeric_limits<float>::infinity();   // block 0: not finite
  x[300] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 256; ++i)
    x[static_cast<size_t>(512 + i)] = 0x1.fffffep-101F * (i % 2 == 0 ? 1 : -1);   // below 2^-100
  for (int i = 0; i < 256; ++i) x[static_cast<size_t>(768 + i)] = 0x1p-100F;
  for (int i = 0; i < 256; ++i) x[static_cast<size_t>(1024 + i)] = static_cast<float>(i - 128) + 0.5F;   // ties
  x[1024] = -127;
  x[1025] = 127;
  x[1280] = std::numeric_limits<float>::max();
  x[1281] = -std::numeric_limits<float>::max();
  x[1600] = 1e-42F;
  for (const LinearVariant& variant : linear_variants()) {
    if ((variant.required & ~isa_bits(probe_cpu_features())) != 0) continue;
    for (const uint32_t unit : {32U, 256U}) {
      CAPTURE(variant.name, unit);
      const uint32_t count = static_cast<uint32_t>(x.size());
      std::vector<int16_t> codes(count, -1), sums(count / 16, -1);
      std::vector<float> scales(count / unit, -1);
      variant.table->quantize({x.data(), count, unit, codes.data(), scales.data(), sums.data()});
      const QuantizedRow expected = canonical_quantize(x.data(), count, unit);
      CHECK(std::vector<int>(codes.begin(), codes.end()) == expected.codes);
      CHECK(compare_floats(expected.scales, scales) == "");
      CHECK(*std::ranges::max_element(codes) == 127);
      CHECK(*std::ranges::min_element(codes) == -127);
      int wrong_sums = 0;
      for (uint32_t j = 0; j < count / 16; ++j) {
        int sum = 0;
        for (uint32_t i = 0; i < 16; ++i) sum += codes[j * 16 + i];
        wrong_sums += sum != sums[j];
      }
      CHECK(wrong_sums == 0);
    }
  }
}

TEST_CASE("weights of random bytes, and of all ones, have the bits of the canonical order too",
          "[cpu][linear][hostile]") {
  std::string wrong;
  uint32_t compared = 0;
  CaseRandom random(5);
  for (const Format format : enabled_formats()) {
    for (int round = 0; round < 6; ++round) {
      Problem problem = random_problem(format, 8, 19, 2, 50);
      problem.weights = random.bytes(problem.weights.size());
      if (round == 0) std::ranges::fill(problem.weights, uint8_t{0xFF});
      if (round == 1) std::ranges::fill(problem.weights, uint8_t{0x80});
      if (round == 2) problem.x[1] = std::numeric_limits<float>::quiet_NaN();
      if (round == 3) problem.x[problem.columns] = std::numeric_limits<float>::infinity();
      if (round == 4)
        for (float& value : problem.x) value *= 1e30F;
      wrong += check(problem, &compared);
    }
  }
  CHECK(compared >= 6 * enabled_formats().size());
  CHECK(wrong == "");
}

TEST_CASE("a matrix may start at any address", "[cpu][linear]") {
  std::string wrong;
  for (const Format format : enabled_formats()) {
    const Problem problem = random_problem(format, 3, 18, 2, 9);
    const std::vector<float> expected = kernel_outputs(problem, *linear_variants()[0].table, 3);
    Problem moved = problem;
    for (size_t offset = 1; offset < 4; ++offset) {
      std::vector<uint8_t> shifted(offset);
      shifted.insert(shifted.end(), problem.weights.begin(), problem.weights.end());
      LinearTable table = *linear_variants()[0].table;
      moved.weights = shifted;
      // The kernel is called through a problem whose first row lies `offset` bytes further on.
      struct Shift {
        static size_t& by() {
          static size_t value = 0;
          return value;
        }
        static LinearKernel& kernel() {
          static LinearKernel value = nullptr;
          return value;
        }
      };
      Shift::by() = offset;
      Shift::kernel() = table.by_format[static_cast<size_t>(format)];
      table.by_format[static_cast<size_t>(format)] = [](const LinearJob& job) {
        LinearJob at = job;
        at.weights += Shift::by();
        Shift::kernel()(at);
      };
      const std::string sentence = compare_floats(expected, kernel_outputs(moved, table, 3));
      if (!sentence.empty())
        wrong += std::string(format_info(format).name) + " + " + std::to_string(offset) + ": " + sentence + "\n";
    }
  }
  CHECK(wrong == "");
}

}   // namespace mote::test
