// core/base/utf8.h and sha256.h.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "core/base/sha256.h"
#include "core/base/utf8.h"

namespace mote::test {
namespace {

std::string replaced(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.data() + i, text.size() - i);
    out += c.valid ? std::string(text.substr(i, c.bytes)) : std::string(kReplacementBytes);
    i += c.bytes;
  }
  return out;
}

std::string marks(size_t count) {
  std::string out;
  while (count-- > 0) out += kReplacementBytes;
  return out;
}

}   // namespace

TEST_CASE("Every code point survives encoding and decoding, and surrogates do not", "[base][unit]") {
  uint32_t wrong = 0, first_wrong = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    char text[4];
    const uint32_t bytes = encode_utf8(c, text);
    const Utf8Character decoded = decode_utf8(text, bytes);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    const bool right = surrogate ? !decoded.valid : decoded.valid && decoded.code_point == c && decoded.bytes == bytes;
    if (!right && wrong++ == 0) first_wrong = c;
  }
  INFO("first wrong: " << first_wrong);
  CHECK(wrong == 0);
}

TEST_CASE("Bad UTF-8 is one replacement for each maximal bad part", "[base][unit]") {
  CHECK(replaced("\xC0\xAF") == marks(2));   // overlong
  CHECK(replaced("\xE0\x80\xAF") == marks(3));
  CHECK(replaced("\xED\xA0\x80") == marks(3));       // a surrogate
  CHECK(replaced("\xF4\x90\x80\x80") == marks(4));   // beyond U+10FFFF
  CHECK(replaced("\xF0\x80\x80\x80") == marks(4));   // overlong
  CHECK(replaced("\xF5\x80\x80\x80") == marks(4));   // never the first of four
  CHECK(replaced("\xF0\x9F\x98") == marks(1));       // cut off
  CHECK(replaced("a\xE2\x82z") == "a" + marks(1) + "z");
  CHECK(replaced("\x80\xBF\xFE\xFF") == marks(4));
  CHECK(replaced("\xF1\x80\x80\xE1\x80\xC2\x62") == marks(3) + "b");   // the standard's own example
}

TEST_CASE("SHA-256 gives the digests of the standard's examples", "[base][unit]") {
  CHECK(digest_is(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
  CHECK(digest_is(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  CHECK(digest_is(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
  CHECK(
      digest_is(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
  CHECK_FALSE(digest_is(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ae"));
  CHECK_FALSE(digest_is(sha256("abc"), ""));
}

}   // namespace mote::test
