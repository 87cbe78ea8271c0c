#include "core/format/format.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>

#include "core/format/blocks.h"

namespace {

using namespace mote;

TEST_CASE("the table has one row per format and the row sizes follow from it", "[format]") {
  std::set<uint32_t> numbers;
  for (size_t i = 0; i < format_table().size(); ++i) {
    const FormatInfo& info = format_table()[i];
    const auto format = static_cast<Format>(i);
    INFO(info.name);
    CHECK(&format_info(format) == &info);
    CHECK(numbers.insert(info.number).second);
    CHECK(row_bytes(format, info.block_values * uint64_t{3}) == uint64_t{3} * info.block_bytes);
  }
  CHECK(format_table().size() == 16);
  CHECK(row_bytes(Format::q4_k, uint64_t{1} << 40) == (uint64_t{1} << 32) * 144);
}

TEST_CASE("every format of this build is found by its number", "[format]") {
  for (size_t i = 0; i < format_table().size(); ++i) {
    const Result<Format> found = format_from_number(format_table()[i].number, "output.weight");
    INFO(format_table()[i].name);
    CHECK(found.ok() == format_table()[i].enabled);
    if (found.ok()) CHECK(found.value() == static_cast<Format>(i));
    if (found.ok()) continue;
    const std::string name(format_table()[i].name), message(found.status().message());
    CHECK(message.starts_with("tensor output.weight is of type " + std::to_string(format_table()[i].number) + " (" +
                              name + "), which was left out of this build; it reads "));
    CHECK((message + ",").find(" " + name + ",") == std::string::npos);
  }
}

TEST_CASE("a format that mote does not read is refused by name", "[format][error]") {
  const Status status = format_from_number(16, "blk.0.ffn_up.weight").status();
  CHECK(status.code() == Code::unsupported);
  const std::string message(status.message());
  CHECK(message.starts_with(
      "tensor blk.0.ffn_up.weight is of type 16 (iq2_xxs), which mote does not read; it reads f32"));
  CHECK((format_table().size() > 16 || message.ends_with(", bf16, mxfp4") || !format_info(Format::mxfp4).enabled));
  constexpr std::pair<uint32_t, std::string_view> kOthers[] = {
      {4, "q4_2"},    {5, "q4_3"},        {9, "q8_1"},        {15, "q8_k"},       {16, "iq2_xxs"},
      {17, "iq2_xs"}, {18, "iq3_xxs"},    {19, "iq1_s"},      {21, "iq3_s"},      {22, "iq2_s"},
      {24, "i8"},     {25, "i16"},        {26, "i32"},        {27, "i64"},        {28, "f64"},
      {29, "iq1_m"},  {31, "q4_0_4_4"},   {32, "q4_0_4_8"},   {33, "q4_0_8_8"},   {34, "tq1_0"},
      {35, "tq2_0"},  {36, "iq4_nl_4_4"}, {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"}, {40, "nvfp4"}};
  for (const auto& [number, name] : kOthers) {
    CHECK(std::string(format_from_number(number, "x").status().message())
              .starts_with("tensor x is of type " + std::to_string(number) + " (" + std::string(name) + "), which"));
  }
  // However long the name, the list of what is read stands behind it, whole.
  const std::string shown(format_from_number(16, std::string(100, 'x')).status().message());
  CHECK(shown.starts_with("tensor " + std::string(64, 'x') + " is of type 16"));
  CHECK(shown.substr(shown.rfind("f32")) == message.substr(message.rfind("f32")));
}

TEST_CASE("an unknown type number is refused with the number", "[format][error]") {
  for (const uint32_t number : {43u, 255u, 0x7fffffffu, 0xffffffffu}) {
    const Status status = format_from_number(number, "output.weight").status();
    CHECK(status.code() == Code::unsupported);
    CHECK(std::string(status.message())
              .starts_with("tensor output.weight is of the unknown type " + std::to_string(number) + "; "));
  }
}

TEST_CASE("the shared tables are symmetric where the format says so", "[format]") {
  int wrong = 0;
  for (int i = 0; i < 8; ++i) wrong += kMxfp4Values[i] != -kMxfp4Values[i + 8];
  CHECK(wrong == 0);
  CHECK(mxfp4_scale(128) == 1.0f);
  CHECK(mxfp4_scale(2) == 0x1p-126f);
  CHECK(mxfp4_scale(1) == 0x1p-127f);
  CHECK(mxfp4_scale(0) == 0x1p-128f);
  CHECK(mxfp4_scale(254) == 0x1p126f);
}

}   // namespace
