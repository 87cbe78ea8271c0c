// Unicode normalisation form C (UAX #15) of valid UTF-8.
#pragma once
#include <cstdint>
#include <string_view>

namespace mote {

// NFC never takes more than this many times the bytes of valid UTF-8 (UAX #15, section 12.1).
inline constexpr uint64_t kNfcGrowth = 3;

// True when no character can change: the text is its own NFC. False only says that it might not be.
bool is_surely_nfc(std::string_view text);

// Writes NFC of `text` (valid UTF-8) to `to`, which has kNfcGrowth * text.size() bytes. Returns the bytes written and
// adds the code points looked at to *steps.
size_t normalize_nfc(std::string_view text, char* to, uint64_t* steps);

}   // namespace mote
