// Every format against ggml's values, bit for bit, at aligned and unaligned addresses.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <string>

#include "core/format/format.h"
#include "tests/support/goldens.h"

namespace {

using namespace mote;
using mote::test::goldens_dir;

std::string golden_name(const FormatInfo& info) {
  std::string name(info.name);
  for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

// The number of values that differ in any bit, with the first of them in `worst`. The goldens come from two
// implementations that agree except in the sign of zero; two NaNs are equal whatever their payload.
size_t differing(const std::vector<float>& found, const std::vector<float>& expected, std::string* worst) {
  size_t count = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool same = std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i]) ||
                      (found[i] == 0 && expected[i] == 0) || (std::isnan(found[i]) && std::isnan(expected[i]));
    if (same) continue;
    if (count++ == 0) {
      *worst =
          "value " + std::to_string(i) + ": " + std::to_string(found[i]) + ", expected " + std::to_string(expected[i]);
    }
  }
  return count;
}

// Dequantises `blocks` from an address with the given remainder modulo 16.
std::vector<float> dequantise(Format format, const std::vector<uint8_t>& blocks, size_t shift) {
  const FormatInfo& info = format_info(format);
  std::vector<uint8_t> moved(blocks.size() + 16 + shift);
  uint8_t* at = moved.data();
  while (reinterpret_cast<uintptr_t>(at) % 16 != shift) ++at;
  std::copy(blocks.begin(), blocks.end(), at);
  std::vector<float> values(blocks.size() / info.block_bytes * info.block_values);
  dequantize_row(format, at, values.size(), values.data());
  return values;
}

TEST_CASE("every format gives the golden values of its blocks bit for bit", "[format][golden]") {
  int compared = 0;
  for (size_t i = 0; i < format_table().size(); ++i) {
    const FormatInfo& info = format_table()[i];
    if (!info.enabled || info.name == "f32") continue;
    const auto base = goldens_dir() / "quant" / golden_name(info);
    INFO(base.string());
    if (!std::filesystem::exists(base.string() + ".blocks.bin")) {
      CHECK_FALSE(test::goldens_are_full());
      continue;
    }
    const std::vector<uint8_t> blocks = test::read_bytes(base.string() + ".blocks.bin");
    const std::vector<float> expected = test::read_f32(base.string() + ".values.f32");
    REQUIRE(blocks.size() / info.block_bytes * info.block_values == expected.size());
    for (const size_t shift : {size_t{0}, size_t{1}}) {
      std::string worst;
      const size_t count = differing(dequantise(static_cast<Format>(i), blocks, shift), expected, &worst);
      INFO("at an address of 16n + " << shift << ", " << worst);
      CHECK(count == 0);
    }
    ++compared;
  }
  CHECK(compared >= 9);
}

// The text between `key` and `end`, from *at on; *at moves behind it. Enough JSON for special.json.
std::string field(const std::string& text, size_t* at, const std::string& key, char end) {
  const size_t begin = text.find(key, *at);
  if (begin == std::string::npos) return {};
  const size_t stop = text.find(end, begin + key.size());
  *at = stop;
  return text.substr(begin + key.size(), stop - begin - key.size());
}

TEST_CASE("blocks whose scale is infinite or NaN give the golden values", "[format][golden]") {
  const std::string text = test::read_text(goldens_dir() / "quant" / "special.json");
  int compared = 0;
  for (size_t at = 0;;) {
    const std::string type = field(text, &at, "\"type\": \"", '"');
    if (type.empty()) break;
    const std::string hex = field(text, &at, "\"block\": \"", '"');
    std::string list = field(text, &at, "\"values\": [", ']');
    std::erase(list, '"');
    std::vector<uint8_t> block;
    for (size_t i = 0; i < hex.size(); i += 2) {
      block.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    std::vector<float> expected;
    for (const char* from = list.c_str(); *from != 0;) {
      char* end = nullptr;
      expected.push_back(std::strtof(from, &end));
      from = *end == ',' ? end + 1 : end;
    }
    for (size_t i = 0; i < format_table().size(); ++i) {
      if (golden_name(format_table()[i]) != type || !format_table()[i].enabled) continue;
      std::string worst;
      const size_t count = differing(dequantise(static_cast<Format>(i), block, 0), expected, &worst);
      INFO(type << ", " << worst);
      CHECK(expected.size() == format_table()[i].block_values);
      CHECK(count == 0);
      ++compared;
    }
  }
  CHECK(compared >= 30);
}

TEST_CASE("f32 rows come through unchanged from any address", "[format]") {
  const std::vector<float> values = {0.0f, -0.0f, 1.0f, -3.25e-40f, 3.4e38f, INFINITY};
  std::vector<uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  for (const size_t shift : {size_t{0}, size_t{1}, size_t{3}}) {
    const std::vector<float> found = dequantise(Format::f32, bytes, shift);
    CHECK(std::memcmp(found.data(), values.data(), bytes.size()) == 0);
  }
}

}   // namespace
