#include "core/tokenizer/text_stream.h"

#include <cstring>

#include "core/base/utf8.h"

namespace mote {
namespace {

// The first two bytes of an encoded surrogate are bad already, but the reference shows them together with the third.
bool surrogate_begins(const char* bytes, size_t count) {
  return count == 2 && bytes[0] == '\xED' && (bytes[1] & 0xE0) == 0xA0;
}

}   // namespace

size_t TextStream::push(std::string_view bytes, std::span<char> out) {
  size_t written = 0;
  const auto show = [&](std::string_view text) {
    const size_t fits = text.size() <= out.size() - written ? text.size() : out.size() - written;
    if (fits > 0) std::memcpy(out.data() + written, text.data(), fits);
    written += fits;
  };
  for (const char byte : bytes) {
    bytes_[held_++] = byte;
    while (held_ > 0) {
      const Utf8Character c = decode_utf8(bytes_, held_);
      if (c.unfinished || surrogate_begins(bytes_, held_)) break;
      show(c.valid ? std::string_view(bytes_, c.bytes) : kReplacementBytes);
      held_ -= c.bytes;
      std::memmove(bytes_, bytes_ + c.bytes, held_);
    }
  }
  return written;
}

bool TextStream::set_held(std::string_view bytes) {
  held_ = 0;
  if (bytes.size() >= sizeof bytes_) return false;
  char shown[room(sizeof bytes_)];
  if (push(bytes, shown) == 0) return true;
  held_ = 0;
  return false;
}

size_t TextStream::flush(std::span<char> out) {
  size_t written = 0;
  for (size_t at = 0; at < held_ && out.size() - written >= kReplacementBytes.size();
       written += kReplacementBytes.size()) {
    at += decode_utf8(bytes_ + at, held_ - at).bytes;
    std::memcpy(out.data() + written, kReplacementBytes.data(), kReplacementBytes.size());
  }
  held_ = 0;
  return written;
}

}   // namespace mote
