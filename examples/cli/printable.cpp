#include "examples/cli/printable.h"

#include <cstdint>
#include <cstdio>

namespace cli {
namespace {

unsigned byte_of(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }
size_t length_by(unsigned lead) { return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1; }

bool is_harmless(uint32_t code) {
  struct Range {
    uint32_t first, last;
  };
  static constexpr Range kHarmful[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                       {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x206f},
                                       {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (const Range& range : kHarmful)
    if (code >= range.first && code <= range.last) return false;
  return true;
}

}   // namespace

Character first_character(std::string_view text) {
  const unsigned lead = byte_of(text, 0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = length_by(lead);
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte_of(text, i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte_of(text, i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length, true};
}

bool is_unfinished(std::string_view text) {
  if (text.size() >= length_by(byte_of(text, 0)) || byte_of(text, 0) > 0xf4) return false;
  for (size_t i = 1; i < text.size(); ++i)
    if ((byte_of(text, i) & 0xc0) != 0x80) return false;
  return true;
}

void append_utf8(uint32_t code, std::string* to) {
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) code = 0xfffd;
  if (code < 0x80) {
    *to += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  *to += static_cast<char>((0xffu ^ 0x7fu >> more) | code >> 6 * more);
  for (int i = more - 1; i >= 0; --i) *to += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
}

std::string printable(std::string_view text, bool keep_lines) {
  std::string out;
  while (!text.empty()) {
    const Character c = first_character(text);
    char spelled[16];
    if (c.code == '\n')
      out += keep_lines ? "\n" : "\\n";
    else if (c.code == 0xfffd)
      out += "\xef\xbf\xbd";
    else if (is_harmless(c.code))
      out += text.substr(0, c.bytes);
    else
      out.append(spelled, static_cast<size_t>(std::snprintf(spelled, sizeof spelled, "\\u{%x}", c.code)));
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string distinct_name(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const Character c = first_character(name);
    char spelled[8];
    if (!c.is_valid)
      out.append(spelled, static_cast<size_t>(
                              std::snprintf(spelled, sizeof spelled, "\\x%02x", static_cast<unsigned char>(name[0]))));
    else
      out += c.code == '\\' ? std::string_view("\\\\") : name.substr(0, c.bytes);
    name.remove_prefix(c.bytes);
  }
  return out;
}

std::string_view beginning_of(std::string_view text, size_t most_bytes) {
  size_t used = 0;
  while (used < text.size()) {
    const size_t bytes = first_character(text.substr(used)).bytes;
    if (used + bytes > most_bytes) break;
    used += bytes;
  }
  return text.substr(0, used);
}

}   // namespace cli
