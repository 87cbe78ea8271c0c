// embed, position_embed, take_rows, pool: dequantised rows are exact in every backend, so the bits are equal. So are
// those of one f32 addition: a double sum of two f32 numbers rounded to f32 is the f32 sum.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/conformance/cases.h"
#include "tests/conformance/weights.h"

namespace mote::test {
namespace {

// Widths of a row that a format allows, odd ones included.
std::vector<uint32_t> widths(Format format) {
  const uint32_t block = format_info(format).block_values;
  return block == 1 ? std::vector<uint32_t>{1, 3, 33, 100} : std::vector<uint32_t>{block, 3 * block};
}

}   // namespace

std::vector<Case> embed_cases() {
  std::vector<Case> cases;
  CaseRandom random(101);
  for (const Format format : enabled_formats()) {
    for (const uint32_t columns : widths(format)) {
      Case& made = cases.emplace_back();
      const uint32_t n_vocab = 11;
      made.name = "embed " + std::string(format_info(format).name) + " of " + std::to_string(columns);
      made.tokens = random_tokens(7, n_vocab, random);
      made.tokens[0] = static_cast<int32_t>(n_vocab - 1);
      made.tokens[1] = 0;
      made.compared = made.plan.value(columns);
      made.plan.step(Op::embed, {}, made.compared);
      made.plan.matrix(format, n_vocab, columns, random_matrix(format, n_vocab, columns, random));
      if (cases.size() % 2 == 0) continue;
      made.name += " with a bias";
      made.plan.bias(random.normals(columns));
    }
  }
  return cases;
}

// Both sides add in double, in rising order, and round once. Rows of any number; picked rows are copied.
std::vector<Case> pool_cases() {
  std::vector<Case> cases;
  CaseRandom random(104);
  for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last}) {
    for (const uint32_t rows : {1U, 7U, 64U}) {
      for (const uint32_t columns : {1U, 5U, 64U, 129U}) {
        Case& made = cases.emplace_back();
        made.name = "pool " + std::to_string(static_cast<int>(pooling)) + " of " + std::to_string(rows) + " x " +
                    std::to_string(columns);
        made.tokens = {0};
        made.n_encoded = rows;
        const Value x = made.plan.input(columns, random.normals(size_t{rows} * columns, 100));
        made.compared = made.plan.value(columns, Dimension::one);
        Step& step = made.plan.step(Op::pool, {x}, made.compared);
        step.phase = Phase::encode;
        step.attributes.pool = {pooling};
      }
    }
  }
  return cases;
}

std::vector<Case> position_embed_cases() {
  std::vector<Case> cases;
  CaseRandom random(102);
  for (const Format format : enabled_formats()) {
    for (const uint32_t columns : widths(format)) {
      Case& made = cases.emplace_back();
      made.first_position = static_cast<uint32_t>(cases.size() % 3);
      made.tokens = random_tokens(5, 10, random);
      const uint32_t n_positions = made.first_position + made.positions();   // the last row is used
      made.name = "position_embed " + std::string(format_info(format).name) + " of " + std::to_string(columns) +
                  " from position " + std::to_string(made.first_position);
      const Value x = made.plan.input(columns, random.normals(size_t{made.positions()} * columns));
      made.compared = made.plan.value(columns);
      made.plan.step(Op::position_embed, {x}, made.compared);
      made.plan.matrix(format, n_positions, columns, random_matrix(format, n_positions, columns, random));
    }
  }
  // Sines and cosines in place of a matrix, rounded to f32 before they are added: equal bits too.
  for (const uint32_t columns : {2U, 34U, 128U}) {
    for (const uint32_t first : {0U, 7U, 100000U}) {
      Case& made = cases.emplace_back();
      made.first_position = first;
      made.tokens = random_tokens(5, 10, random);
      made.name = "sinusoidal positions of " + std::to_string(columns) + " from position " + std::to_string(first);
      const Value x = made.plan.input(columns, random.normals(size_t{made.positions()} * columns));
      made.compared = made.plan.value(columns);
      made.plan.step(Op::position_embed, {x}, made.compared);
      std::vector<double> frequency(columns / 2);
      for (size_t i = 0; i < frequency.size(); ++i)
        frequency[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / columns);
      made.plan.frequency(std::move(frequency));
    }
  }
  return cases;
}

std::vector<Case> take_rows_cases() {
  std::vector<Case> cases;
  CaseRandom random(103);
  const std::vector<std::vector<uint32_t>> wanted = {{}, {0}, {8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 4, 7}};
  for (const std::vector<uint32_t>& rows : wanted) {
    for (const uint32_t columns : {1U, 5U, 64U, 129U}) {
      Case& made = cases.emplace_back();
      made.name = "take_rows " + std::to_string(rows.size()) + " of 9 x " + std::to_string(columns);
      made.tokens = random_tokens(9, 10, random);
      made.wanted = rows;
      const Value x = made.plan.input(columns, random.normals(size_t{9} * columns));
      made.compared = made.plan.value(columns, Dimension::outputs);
      made.plan.step(Op::take_rows, {x}, made.compared);
    }
  }
  return cases;
}

}   // namespace mote::test
