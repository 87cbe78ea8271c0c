#include "core/format/format.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

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
    const Result<Format> found = format_from_number(format_table()[i].number, "x");
    INFO(format_table()[i].name);
    CHECK(found.ok() == format_table()[i].enabled);
    if (found.ok()) CHECK(found.value() == static_cast<Format>(i));
    if (!found.ok()) CHECK(found.status().message().find("left out of this build") != std::string_view::npos);
  }
}

TEST_CASE("a format that mote does not read is refused by name", "[format][error]") {
  const Status status = format_from_number(16, "blk.0.ffn_up.weight").status();
  CHECK(status.code() == Code::unsupported);
  const std::string message(status.message());
  CHECK(message.starts_with(
      "tensor blk.0.ffn_up.weight is of type 16 (iq2_xxs), which mote does not read; it reads f32"));
  CHECK((format_table().size() > 16 || message.ends_with(", bf16, mxfp4") || !format_info(Format::mxfp4).enabled));
  for (const uint32_t number : {4u, 5u, 9u, 15u, 24u, 26u, 28u, 34u, 40u}) {
    CHECK(format_from_number(number, "x").status().message().find("(") != std::string_view::npos);
  }
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
