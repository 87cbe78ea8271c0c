// Turns the bytes of tokens into text as they come: everything up to the last complete character at once, bad bytes as
// U+FFFD, one for each maximal bad part. Only an unfinished character is held back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mote {

class TextStream {
 public:
  // Room that `push` wants for a token of this many bytes.
  static constexpr size_t room(size_t bytes) { return 3 * (bytes + 3); }

  // Writes what may be shown now to `out`, which has room(bytes.size()); returns how much.
  size_t push(std::string_view bytes, std::span<char> out);
  // The text has ended: what is held back becomes U+FFFD. `out` has room(0).
  size_t flush(std::span<char> out);

  size_t held_bytes() const { return held_; }
  std::string_view held() const { return {bytes_, held_}; }
  // As if these bytes were what `push` held back. False, and nothing is held, when it would not hold them back.
  bool set_held(std::string_view bytes);

 private:
  char bytes_[4] = {};
  size_t held_ = 0;
};

}   // namespace mote
