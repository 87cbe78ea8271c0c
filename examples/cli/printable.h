// Text out of a file, made safe for a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace cli {

// UTF-8 in which everything that could steer a terminal or reorder a line is spelled out: controls (C0, DEL, C1),
// bidirectional marks, line and paragraph separators, tags and byte order marks become \u{9b}; bytes that are not UTF-8
// become U+FFFD. A line feed becomes \n, or stays where `keep_lines` says so.
std::string printable(std::string_view text, bool keep_lines = false);

// UTF-8 that is another text for every other name: a byte that is not UTF-8 becomes \xff, a backslash two of them.
std::string distinct_name(std::string_view name);

// The first whole characters of a text, at most so many bytes.
std::string_view beginning_of(std::string_view text, size_t most_bytes);

}   // namespace cli
