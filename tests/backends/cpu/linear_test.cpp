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
#include "tests/support/emulated.h"
#include "tests/support/guarded_memory.h"

namespace mote {
#if defined(__x86_64__)
extern const LinearTable linear_avxvnni_as_avx512;   // see CMakeLists.txt
#endif
}   // namespace mote

namespace mote::test {
namespace {

// The rows of kernels.inc, and those that only tests compile.
std::vector<LinearVariant> all_variants() {
  std::vector<LinearVariant> all(linear_variants().begin(), linear_variants().end());
#if defined(__x86_64__)
  all.push_back({kIsaIceLake, "avxvnni, as AVX-512", &linear_avxvnni_as_avx512});
#endif
  return all;
}

struct Problem {
  Format format = Format::f32;
  uint32_t rows = 0, columns = 0, x_rows = 0;
  std::vector<uint8_t> weights;
  size_t offset = 0;   // of the first block in `weights`
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
  std::vector<float> y = canonical_linear(problem.format, &problem.weights[problem.offset], problem.rows,
                                          problem.x.data(), problem.x_rows, problem.columns);
  for (size_t i = 0; i < y.size() && !problem.bias.empty(); ++i) y[i] = y[i] + problem.bias[i % problem.rows];
  return y;
}

struct alignas(64) MemoryLine {
  uint8_t bytes[64];
};
std::vector<MemoryLine> lines(uint64_t bytes) {
  std::vector<MemoryLine> made((bytes + 63) / 64);
  std::fill_n(reinterpret_cast<uint8_t*>(made.data()), made.size() * 64, uint8_t{0xFF});
  return made;
}

// A copy that ends where its page does, so that reading on is a fault.
template <class T>
GuardedMemory guarded(const std::vector<T>& from) {
  GuardedMemory memory(from.size() * sizeof(T), alignof(T), Guard::pages, 0xFF);
  std::copy(from.begin(), from.end(), reinterpret_cast<T*>(memory.data()));
  return memory;
}

// The kernel's outputs; the rows in chunks of `chunk`, all memory filled with ones (NaN) before, the input made in two
// calls where the form allows it. A call that writes beyond its scratch or its input is seen by the lines behind them.
std::vector<float> kernel_outputs(const Problem& problem, const LinearKernel& kernel, uint32_t chunk) {
  const uint32_t columns = problem.columns, x_rows = problem.x_rows;
  const GuardedMemory weights = guarded(problem.weights), x = guarded(problem.x), bias = guarded(problem.bias),
                      y = guarded(std::vector<float>(size_t{problem.rows} * x_rows, NAN));
  const uint64_t input_bytes = kernel.form == nullptr ? 0 : kernel.form->bytes(x_rows, columns);
  const uint64_t scratch_bytes = kernel.scratch_bytes(columns);
  std::vector<MemoryLine> input = lines(input_bytes + 64), scratch = lines(scratch_bytes + 64);
  LinearJob job = {};
  job.weights = reinterpret_cast<const uint8_t*>(weights.data()) + problem.offset;
  job.weight_row_bytes = row_bytes(problem.format, columns);
  job.columns = columns;
  job.x_rows = x_rows;
  job.x = reinterpret_cast<const float*>(x.data());
  uint8_t* const form = reinterpret_cast<uint8_t*>(input.data());
  if (kernel.form != nullptr) {
    const uint32_t half = x_rows / 2 / kernel.form->rows_together * kernel.form->rows_together;
    if (half != 0) kernel.form->make({job.x, columns, x_rows, 0, half, form});
    kernel.form->make({job.x, columns, x_rows, half, x_rows, form});
  }
  job.input = form;
  job.bias = problem.bias.empty() ? nullptr : reinterpret_cast<const float*>(bias.data());
  job.y = reinterpret_cast<float*>(y.data());
  job.y_columns = problem.rows;
  job.scratch = scratch.data();
  for (job.first_row = 0; job.first_row < problem.rows; job.first_row = job.end_row) {
    job.end_row = std::min(problem.rows, job.first_row + chunk);
    kernel.run(job);
  }
  const auto whole = [](const std::vector<MemoryLine>& memory, uint64_t bytes) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(memory.data());
    return std::all_of(from + bytes, from + memory.size() * 64, [](uint8_t byte) { return byte == 0xFF; });
  };
  CHECK(whole(input, input_bytes));
  CHECK(whole(scratch, scratch_bytes));
  return {job.y, job.y + size_t{problem.rows} * x_rows};
}

// All rows of the table that this machine runs; gives what differs.
std::string check(const Problem& problem, uint32_t* compared) {
  const std::vector<float> expected = expected_outputs(problem);
  const IsaBits available = isa_bits(probe_cpu_features());
  std::string wrong;
  for (const LinearVariant& variant : all_variants()) {
    const LinearKernel& kernel = variant.table->by_format[static_cast<size_t>(problem.format)];
    if ((variant.required & ~available) != 0 || kernel.run == nullptr) continue;
    for (const uint32_t chunk : {problem.rows, 5U}) {
      const std::string sentence = compare_floats(expected, kernel_outputs(problem, kernel, chunk));
      if (!sentence.empty())
        wrong += std::string("\n") + variant.name + ", " + std::string(format_info(problem.format).name) + " [" +
                 std::to_string(problem.rows) + ", " + std::to_string(problem.columns) + "] on " +
                 std::to_string(problem.x_rows) + " rows: " + sentence;
      ++*compared;
    }
  }
  return wrong;
}

// Then every third shape is enough: what is emulated is that other instructions are missing, and the machine itself
// runs the same kernels in all shapes.
bool emulates_x86() {
#if defined(__x86_64__)
  return is_emulated();
#else
  return false;
#endif
}

// Weight rows, blocks of one, rows of x. The last eight: few rows of x; which of them are read as two or four streams
// is the format's.
constexpr uint32_t kShapes[][3] = {{1, 1, 1},   {3, 2, 2},    {4, 15, 1},   {9, 16, 3},   {6, 17, 5},   {5, 33, 1},
                                   {7, 3, 35},  {2, 130, 2},  {3, 140, 33}, {37, 18, 1},  {65, 20, 4},  {33, 19, 16},
                                   {64, 5, 31}, {18, 24, 15}, {34, 3, 8},   {31, 22, 6},  {32, 2, 22},  {17, 4, 26},
                                   {9, 6, 8},   {11, 7, 9},   {184, 8, 6},  {340, 48, 1}, {262, 24, 2}, {185, 8, 1},
                                   {340, 8, 2}, {200, 36, 5}, {91, 144, 1}, {151, 27, 1}, {340, 48, 2}};

}   // namespace

TEST_CASE("every kernel of linear has the bits of the canonical order, in every format and shape", "[cpu][linear]") {
  std::string wrong;
  uint32_t compared = 0;
  const uint32_t every = emulates_x86() ? 3 : 1;
  for (const Format format : enabled_formats()) {
    uint32_t seed = 0;
    for (const auto& [rows, blocks, x_rows] : kShapes)
      if (seed++ % every == 0) wrong += check(random_problem(format, rows, blocks, x_rows, seed), &compared);
  }
  CHECK(compared >= 20 * 2 * enabled_formats().size() / every);
  CHECK(wrong == "");
}

TEST_CASE("the room that a form of x takes never falls as its rows grow", "[cpu][linear]") {
  for (const LinearVariant& variant : linear_variants()) {
    if ((variant.required & ~isa_bits(probe_cpu_features())) != 0) continue;
    for (const LinearKernel& kernel : variant.table->by_format)
      for (uint32_t blocks = 1; kernel.form != nullptr && blocks < 40; blocks += 3)
        for (uint32_t rows = 1; rows < 40; ++rows) {
          CAPTURE(variant.name, blocks, rows);
          REQUIRE(kernel.form->bytes(rows, blocks * 256) <= kernel.form->bytes(rows + 1, blocks * 256));
          REQUIRE(kernel.form->bytes(rows, blocks * 32) <= kernel.form->bytes(rows + 1, blocks * 32));
        }
  }
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
  for (const uint32_t unit : {32U, 256U}) {
    const QuantizedRow expected = canonical_quantize(x.data(), static_cast<uint32_t>(x.size()), unit);
    CHECK(*std::ranges::max_element(expected.codes) == 127);
    CHECK(*std::ranges::min_element(expected.codes) == -127);
  }
  // A row of each format's kernel reads them: one weight row at a time, one x row and many.
  std::string wrong;
  uint32_t compared = 0;
  for (const Format format : enabled_formats()) {
    const uint32_t values = format_info(format).block_values;
    if (values == 1) continue;
    for (const uint32_t x_rows : {1U, 3U, 24U}) {
      Problem problem = random_problem(format, 2, static_cast<uint32_t>(x.size()) / values, x_rows, 4);
      for (uint32_t row = 0; row < x_rows; ++row)   // each row begins with another of the special blocks
        for (size_t i = 0; i < x.size(); ++i) problem.x[row * x.size() + i] = x[(i + 256 * row) % x.size()];
      wrong += check(problem, &compared);
      // Without the blocks that are not finite, whose NaN covers the others.
      for (float& value : problem.x)
        if (!std::isfinite(value)) value = 0.25F;
      wrong += check(problem, &compared);
      // And the smallest alone, which the others cover.
      for (float& value : problem.x)
        if (std::fabs(value) > 0x1p-100F) value = 0;
      wrong += check(problem, &compared);
    }
  }
  CHECK(compared > 0);
  CHECK(wrong == "");
}

TEST_CASE("weights of random bytes, and of all ones, have the bits of the canonical order too",
          "[cpu][linear][hostile]") {
  std::string wrong;
  uint32_t compared = 0;
  CaseRandom random(5);
  for (const Format format : enabled_formats()) {
    for (int round = 0; round < 10; ++round) {
      const uint32_t x_rows = round < 4 || round == 6 || round == 7 ? 2 : 17;   // few, and a tile
      Problem problem = random_problem(format, 8, 19, x_rows, 50);
      problem.weights = random.bytes(problem.weights.size());
      if (round == 0) std::ranges::fill(problem.weights, uint8_t{0xFF});
      if (round == 1) std::ranges::fill(problem.weights, uint8_t{0x80});
      if (round == 2) problem.x[1] = std::numeric_limits<float>::quiet_NaN();
      if (round == 3) problem.x[problem.columns] = std::numeric_limits<float>::infinity();
      if (round == 4)
        for (float& value : problem.x) value *= 1e30F;
      if (round >= 6) {   // the largest sums: nearly all bits set, or the smallest signed byte, and x at 127
        std::ranges::fill(problem.weights, round % 2 == 0 ? uint8_t{0xFB} : uint8_t{0x80});
        std::ranges::fill(problem.x, 1.0F);
        problem.x[0] = -1;
      }
      wrong += check(problem, &compared);
    }
  }
  CHECK(compared >= 10 * enabled_formats().size());
  CHECK(wrong == "");
}

TEST_CASE("products of elements that vanish leave their sign, also behind the last whole 16", "[cpu][linear]") {
  uint32_t compared = 0;
  std::string wrong;
  for (const Format format : enabled_formats()) {
    if (format_info(format).block_values != 1) continue;
    const size_t bytes = format_info(format).block_bytes;
    const uint16_t top = format == Format::f16 ? 0xB400 : 0xBE80;   // -0.25
    for (const uint32_t x_rows : {3U, 11U}) {                       // few, and a tile
      Problem problem = random_problem(format, 4, 1, x_rows, 6);
      std::ranges::fill(problem.weights, uint8_t{0});
      for (size_t i = 0; i < problem.weights.size(); i += bytes) {
        problem.weights[i + bytes - 2] = static_cast<uint8_t>(top & 0xFF);
        problem.weights[i + bytes - 1] = static_cast<uint8_t>(top >> 8);
      }
      std::ranges::fill(problem.x, 0x1p-149F);
      CHECK(std::signbit(expected_outputs(problem)[0]));
      wrong += check(problem, &compared);
    }
  }
  CHECK(wrong == "");
}

TEST_CASE("a matrix may start at any address", "[cpu][linear]") {
  std::string wrong;
  uint32_t compared = 0;
  for (const Format format : enabled_formats()) {
    for (size_t offset = 1; offset < 4; ++offset) {
      Problem problem = random_problem(format, 3, 18, 2, 9);
      problem.weights.insert(problem.weights.begin(), offset, uint8_t{0xFF});
      problem.offset = offset;
      wrong += check(problem, &compared);
    }
  }
  CHECK(compared >= 3 * enabled_formats().size());
  CHECK(wrong == "");
}

}   // namespace mote::test
