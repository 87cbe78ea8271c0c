#include "core/format/format.h"

#include "mote_build.h"

namespace mote {
namespace {

constexpr FormatInfo kFormats[] = {
#define MOTE_FORMAT(name, number, values, bytes) {#name, number, values, bytes, MOTE_FORMAT_##name != 0},
#include "core/format/formats.inc"
#undef MOTE_FORMAT
};

// ggml's other types, for the sentence that refuses them. Gaps are numbers that ggml has taken back.
struct OtherType {
  uint32_t number;
  std::string_view name;
};
constexpr OtherType kOtherTypes[] = {
    {4, "q4_2"},    {5, "q4_3"},        {9, "q8_1"},        {15, "q8_k"},       {16, "iq2_xxs"},
    {17, "iq2_xs"}, {18, "iq3_xxs"},    {19, "iq1_s"},      {21, "iq3_s"},      {22, "iq2_s"},
    {24, "i8"},     {25, "i16"},        {26, "i32"},        {27, "i64"},        {28, "f64"},
    {29, "iq1_m"},  {31, "q4_0_4_4"},   {32, "q4_0_4_8"},   {33, "q4_0_8_8"},   {34, "tq1_0"},
    {35, "tq2_0"},  {36, "iq4_nl_4_4"}, {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"}, {40, "nvfp4"},
};

// The names of the formats that are built in, "f32, f16, q4_0"; cut with "..." where the room ends.
class FormatList {
 public:
  FormatList() {
    for (const FormatInfo& info : kFormats) {
      if (info.enabled && !put(info.name)) break;
    }
    if (length_ == 0) put("none");
  }
  std::string_view text() const { return {text_, length_}; }

 private:
  static constexpr uint32_t kCapacity = 128, kMark = 5;   // kMark: ", ..."

  bool put(std::string_view name) {
    const bool fits = length_ + 2 + name.size() + kMark <= kCapacity;
    if (!fits) name = "...";
    if (length_ > 0) append(", ");
    append(name);
    return fits;
  }
  void append(std::string_view text) {
    for (const char c : text) text_[length_++] = c;
  }

  char text_[kCapacity];
  uint32_t length_ = 0;
};

}   // namespace

std::span<const FormatInfo> format_table() { return kFormats; }

const FormatInfo& format_info(Format format) { return kFormats[static_cast<size_t>(format)]; }

Result<Format> format_from_number(uint32_t number, std::string_view tensor) {
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    if (kFormats[i].number != number) continue;
    if (kFormats[i].enabled) return static_cast<Format>(i);
    return Status::error(Code::unsupported,
                         "tensor {} is of type {} ({}), which was left out of this build; it reads {}", tensor, number,
                         kFormats[i].name, FormatList().text());
  }
  for (const OtherType& other : kOtherTypes) {
    if (other.number != number) continue;
    return Status::error(Code::unsupported, "tensor {} is of type {} ({}), which mote does not read; it reads {}",
                         tensor, number, other.name, FormatList().text());
  }
  return Status::error(Code::unsupported, "tensor {} is of the unknown type {}; this build reads {}", tensor, number,
                       FormatList().text());
}

uint64_t row_bytes(Format format, uint64_t values) {
  const FormatInfo& info = format_info(format);
  return values / info.block_values * info.block_bytes;
}

}   // namespace mote
