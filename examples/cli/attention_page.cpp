#include "examples/cli/attention_page.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "attention_page_text.h"   // made from attention_page.html when the build is configured
#include "examples/cli/common.h"
#include "examples/cli/printable.h"

namespace cli {
namespace {

constexpr std::string_view kDataMark = "%data%", kWeightsMark = "%weights%";

bool is_causal(const AttentionMaps& maps) { return maps.attention == "decoder"; }
// A row of a decoder sees up to itself; the last row sees all.
size_t seen_by(const AttentionMaps& maps, size_t row) {
  return is_causal(maps) ? maps.columns.size() - maps.rows.size() + row + 1 : maps.columns.size();
}

// JSON that can stand within a script: nothing in it ends one.
std::string script_json(const nlohmann::ordered_json& json) {
  std::string text;
  for (const char c : json_text(json, -1, true)) {
    if (c == '<' || c == '>' || c == '&')
      text += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    else
      text += c;
  }
  return text;
}

std::vector<std::string> labels_of(const std::vector<std::string>& tokens) {
  std::vector<std::string> labels;
  for (const std::string& token : tokens) labels.push_back(printable(token));
  return labels;
}

// Groups of three bytes as four letters (RFC 4648); what is left over stays for the next piece.
class Base64 {
 public:
  explicit Base64(OutputFile& file) : file_(file) {}
  void add(uint32_t byte) {
    bits_ = bits_ << 8 | (byte & 0xff);
    if (++n_bytes_ == 3) put(4);
    if (text_.size() >= kPieceBytes) file_.write(text_), text_.clear();
  }
  void finish() {
    const size_t letters = n_bytes_ == 0 ? 0 : n_bytes_ + 1;
    for (size_t i = n_bytes_; letters != 0 && i < 3; ++i) bits_ <<= 8;
    if (letters != 0) put(letters), text_.append(4 - letters, '=');
    file_.write(text_);
  }

 private:
  static constexpr size_t kPieceBytes = 1 << 16;
  void put(size_t letters) {
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < letters; ++i) text_ += kLetters[bits_ >> (18 - 6 * i) & 63];
    bits_ = 0, n_bytes_ = 0;
  }

  OutputFile& file_;
  std::string text_;
  uint32_t bits_ = 0;
  size_t n_bytes_ = 0;
};

}   // namespace

uint64_t page_weights(const AttentionMaps& maps) {
  uint64_t of_map = 0;
  for (size_t row = 0; row < maps.rows.size(); ++row) of_map += seen_by(maps, row);
  return of_map * maps.layers.size() * maps.heads.size();
}

void write_attention_page(OutputFile& file, const std::string& model, const AttentionMaps& maps) {
  const std::string_view page = kAttentionPage;
  const size_t data_at = page.find(kDataMark), weights_at = page.find(kWeightsMark);
  file.write(page.substr(0, data_at));
  file.write(script_json({{"model", printable(model)},
                          {"attention", maps.attention},
                          {"causal", is_causal(maps)},
                          {"layers", maps.layers},
                          {"heads", maps.heads},
                          {"rows", labels_of(maps.rows)},
                          {"columns", labels_of(maps.columns)}}));
  file.write(page.substr(data_at + kDataMark.size(), weights_at - data_at - kDataMark.size()));
  Base64 base64(file);
  for (size_t layer = 0; layer < maps.layers.size(); ++layer) {
    for (size_t head = 0; head < maps.heads.size(); ++head) {
      for (size_t row = 0; row < maps.rows.size(); ++row) {
        const float* weights = maps.map(layer, head) + row * maps.columns.size();
        for (size_t i = 0; i < seen_by(maps, row); ++i) {
          const auto code = static_cast<uint32_t>(std::lround(std::clamp(weights[i], 0.0f, 1.0f) * 65535));
          base64.add(code);
          base64.add(code >> 8);
        }
      }
    }
  }
  base64.finish();
  file.write(page.substr(weights_at + kWeightsMark.size()));
}

}   // namespace cli
