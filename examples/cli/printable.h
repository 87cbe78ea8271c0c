// Text out of a file, made safe for a terminal, and the UTF-8 that this takes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

struct Character {
  uint32_t code = 0xfffd;
  size_t bytes = 1;
  bool is_valid = false;
};
// The first character of a text that is not empty; a byte that does not begin a valid one counts as U+FFFD.
Character first_character(std::string_view text);
// Whether more bytes could still make a character of a text that is shorter than its first byte says.
bool is_unfinished(std::string_view text);
void append_utf8(uint32_t code, std::string* to);

// UTF-8 in which everything that could steer a terminal or reorder a line is spelled out: controls (C0, DEL, C1),
// bidirectional marks, line and paragraph separators, tags and byte order marks become \u{9b}; bytes that are not UTF-8
// become U+FFFD. A line feed becomes \n, or stays where `keep_lines` says so.
std::string printable(std::string_view text, bool keep_lines = false);

// UTF-8 that is another text for every other name: a byte that is not UTF-8 becomes \xff, a backslash two of them.
std::string distinct_name(std::string_view name);

// The first whole characters of a text, at most so many bytes.
std::string_view beginning_of(std::string_view text, size_t most_bytes);

}   // namespace cli
