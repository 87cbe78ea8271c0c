// Every format against ggml's values, bit for bit, at aligned and unaligned addresses.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <initializer_list>
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

// Blocks made field by field as blocks.h describes them, for the formats that the kept reference data has no finite
// values of. d = 0.5, and dmin or m = -1.25 where there is one: all results are exact.
constexpr uint8_t kHalf[2] = {0x00, 0x38}, kMin[2] = {0x00, 0xBD};

void put(std::vector<uint8_t>& block, std::initializer_list<uint8_t> bytes) { block.insert(block.end(), bytes); }

// Twelve bytes of eight scales and eight mins, as `k_scale_min` takes them apart.
std::vector<uint8_t> packed_scales(const int (&scales)[8], const int (&mins)[8]) {
  std::vector<uint8_t> bytes(12);
  for (size_t s = 0; s < 4; ++s) {
    bytes[s] = static_cast<uint8_t>(scales[s] | scales[s + 4] >> 4 << 6);
    bytes[s + 4] = static_cast<uint8_t>(mins[s] | mins[s + 4] >> 4 << 6);
    bytes[s + 8] = static_cast<uint8_t>((scales[s + 4] & 15) | (mins[s + 4] & 15) << 4);
  }
  return bytes;
}

void check_block(Format format, const std::vector<uint8_t>& block, const std::vector<float>& expected) {
  if (!format_info(format).enabled) return;
  INFO(format_info(format).name);
  REQUIRE(block.size() == format_info(format).block_bytes);
  std::string worst;
  const size_t count = differing(dequantise(format, block, 1), expected, &worst);
  INFO(worst);
  CHECK(count == 0);
}

TEST_CASE("blocks of 32 made by hand give the values that their fields say", "[format]") {
  constexpr int kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<uint8_t> five_0(kHalf, kHalf + 2), iq4(kHalf, kHalf + 2);
  std::vector<float> expected_0(32), expected_1(32), expected_iq4(32);
  uint32_t high = 0;
  std::vector<uint8_t> codes;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t code = (i * 7 + 3) % 32;
    high |= code >> 4 << i;
    expected_0[i] = 0.5f * (static_cast<float>(code) - 16);
    expected_1[i] = 0.5f * static_cast<float>(code) - 1.25f;
    expected_iq4[i] = 0.5f * static_cast<float>(kIq4[code & 15]);
  }
  for (uint32_t i = 0; i < 16; ++i)
    codes.push_back(static_cast<uint8_t>(((i * 7 + 3) % 32 & 15) | ((i + 16) * 7 + 3) % 16 << 4));
  std::vector<uint8_t> five_1 = five_0;
  five_1.insert(five_1.end(), kMin, kMin + 2);
  for (std::vector<uint8_t>* block : {&five_0, &five_1}) {
    for (int byte = 0; byte < 4; ++byte) put(*block, {static_cast<uint8_t>(high >> 8 * byte)});
    block->insert(block->end(), codes.begin(), codes.end());
  }
  iq4.insert(iq4.end(), codes.begin(), codes.end());
  check_block(Format::q5_0, five_0, expected_0);
  check_block(Format::q5_1, five_1, expected_1);
  check_block(Format::iq4_nl, iq4, expected_iq4);
}

TEST_CASE("blocks of 256 made by hand give the values that their fields say", "[format]") {
  std::vector<uint8_t> q2(84), q3(110), q5(176);
  std::vector<float> expected_2(256), expected_3(256), expected_5(256);
  int scales[8], mins[8];
  for (int s = 0; s < 8; ++s) scales[s] = 7 * s + 9, mins[s] = 60 - 7 * s;
  const std::vector<uint8_t> packed = packed_scales(scales, mins);
  std::copy(packed.begin(), packed.end(), q5.begin() + 4);
  for (uint8_t* at : {&q2[80], &q3[108], &q5[0]}) std::copy(kHalf, kHalf + 2, at);
  for (uint8_t* at : {&q2[82], &q5[2]}) std::copy(kMin, kMin + 2, at);
  for (size_t i = 0; i < 256; ++i) {
    const size_t sub = i / 16, half = i / 128, two = i % 128 / 32, in_byte = half * 32 + i % 32;
    const int code = static_cast<int>((i * 11 + i / 32 + 5) % 32);
    // q2_k: scale sub, min 15 - sub
    q2[sub] = static_cast<uint8_t>(sub | (15 - sub) << 4);
    q2[16 + in_byte] |= static_cast<uint8_t>((code & 3) << 2 * two);
    expected_2[i] =
        0.5f * static_cast<float>(static_cast<int>(sub) * (code & 3)) + 1.25f * static_cast<float>(15 - sub);
    // q3_k: scale 4 sub - 30
    const int scale = static_cast<int>(4 * sub) + 2;
    uint8_t& low = q3[96 + sub % 8];
    low = static_cast<uint8_t>(sub < 8 ? (low & 0xF0) | (scale & 15) : (low & 0x0F) | (scale & 15) << 4);
    if (i % 16 == 0) q3[96 + 8 + sub % 4] |= static_cast<uint8_t>(scale >> 4 << 2 * (sub / 4));
    q3[32 + in_byte] |= static_cast<uint8_t>((code & 3) << 2 * two);
    q3[i % 32] |= static_cast<uint8_t>((code >> 2 & 1) << (4 * half + two));
    expected_3[i] = 0.5f * static_cast<float>((scale - 32) * ((code & 7) - 4));
    // q5_k
    const size_t eighth = i / 32;
    q5[48 + eighth / 2 * 32 + i % 32] |= static_cast<uint8_t>((code & 15) << eighth % 2 * 4);
    q5[16 + i % 32] |= static_cast<uint8_t>(code >> 4 << eighth);
    expected_5[i] = 0.5f * static_cast<float>(scales[eighth] * code) + 1.25f * static_cast<float>(mins[eighth]);
  }
  check_block(Format::q2_k, q2, expected_2);
  check_block(Format::q3_k, q3, expected_3);
  check_block(Format::q5_k, q5, expected_5);
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
