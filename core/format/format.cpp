#include "core/format/format.h"

#include "core/base/slice.h"
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

// A sentence pattern that ends with the names of the formats built in, "f32, f16, q4_0"; "..." where the room ends.
// A pattern and not an argument, because what is shown of an argument is bounded.
class WithFormats {
 public:
  explicit WithFormats(std::string_view start) {
    append(start);
    bool first = true;
    for (const FormatInfo& info : kFormats) {
      if (!info.enabled) continue;
      const bool fits = length_ + 2 + info.name.size() + kMarkBytes <= sizeof text_;
      if (!first) append(", ");
      append(fits ? info.name : "...");
      if (!fits) return;
      first = false;
    }
    if (first) append("none");
  }
  std::string_view pattern() const { return {text_, length_}; }

 private:
  static constexpr size_t kMarkBytes = 5;   // ", ..."

  void append(std::string_view text) {
    for (const char c : text) text_[length_++] = c;
  }

  char text_[192];
  size_t length_ = 0;
};

}   // namespace

std::span<const FormatInfo> format_table() { return kFormats; }

const FormatInfo& format_info(Format format) { return kFormats[static_cast<size_t>(format)]; }

const FormatInfo* find_format(uint32_t number) {
  for (const FormatInfo& info : kFormats)
    if (info.number == number) return &info;
  return nullptr;
}

std::string_view format_name(uint32_t number) {
  if (const FormatInfo* info = find_format(number); info != nullptr) return info->name;
  for (const OtherType& other : kOtherTypes)
    if (other.number == number) return other.name;
  return "unknown";
}

Result<Format> format_from_number(uint32_t number, std::string_view tensor) {
  const std::string_view shown = slice(tensor, 0, 64);   // GGUF's limit for names; the list must fit behind it
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    if (kFormats[i].number != number) continue;
    if (kFormats[i].enabled) return static_cast<Format>(i);
    const WithFormats sentence("tensor {} is of type {} ({}), which was left out of this build; it reads ");
    return Status::error(Code::unsupported, sentence.pattern(), shown, number, kFormats[i].name);
  }
  for (const OtherType& other : kOtherTypes) {
    if (other.number != number) continue;
    const WithFormats sentence("tensor {} is of type {} ({}), which mote does not read; it reads ");
    return Status::error(Code::unsupported, sentence.pattern(), shown, number, other.name);
  }
  return Status::error(Code::unsupported,
                       WithFormats("tensor {} is of the unknown type {}; this build reads ").pattern(), shown, number);
}

uint64_t row_bytes(Format format, uint64_t values) {
  const FormatInfo& info = format_info(format);
  return values / info.block_values * info.block_bytes;
}

}   // namespace mote
