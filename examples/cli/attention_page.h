// Weights of attention as one page of HTML that needs nothing else: attention_page.html with the numbers put in.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "examples/cli/output_file.h"

namespace cli {

// [layers, heads, rows, columns], each row looking at the columns.
struct AttentionMaps {
  std::string attention;                    // decoder, encoder or cross
  std::vector<uint32_t> layers, heads;      // their numbers in the model
  std::vector<std::string> rows, columns;   // the tokens' texts, of any bytes
  std::vector<float> weights;

  size_t cells() const { return rows.size() * columns.size(); }
  const float* map(size_t layer, size_t head) const { return &weights[(layer * heads.size() + head) * cells()]; }
};

// Weights that a page can hold: as text they are then 22 MB.
inline constexpr uint64_t kMostPageWeights = uint64_t{1} << 23;
uint64_t page_weights(const AttentionMaps& maps);

// Finite weights, of at most that many.
void write_attention_page(OutputFile& file, const std::string& model, const AttentionMaps& maps);

}   // namespace cli
