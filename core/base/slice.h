// Part of a text. std::string_view::substr throws when it starts beyond the end, and calling it asks the linker for the
// thrower even where that cannot happen; the library is built without exceptions.
#pragma once
#include <algorithm>
#include <string_view>

namespace mote {

// Up to `count` bytes from `from` on: fewer, or none, where the text ends before.
constexpr std::string_view slice(std::string_view text, size_t from, size_t count = std::string_view::npos) {
  from = std::min(from, text.size());
  return {text.data() + from, std::min(count, text.size() - from)};
}

}   // namespace mote
