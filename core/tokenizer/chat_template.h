// Brings a chat template into a form in which two spellings of the same template are equal.
#pragma once
#include <span>
#include <string_view>

namespace mote {

// True when the squeezed form of `chat_template` is the marks in a row. A mark that begins with ? may be missing.
//
// Squeezing: inside of {{ }} and {% %}, white space outside of quotes, + and ~ between texts and the - of trimming are
// left out; quotes become ", and two texts in a row are one; .name after a word becomes ["name"]; inside of quotes a
// line end becomes \n and " becomes \". Between tags only white space that the reference trims away may stand
// (trim_blocks, lstrip_blocks, -), and }}{{ is left out. Comments and anything else outside of tags make the answer
// false.
bool template_is(std::string_view chat_template, std::span<const std::string_view> marks);

}   // namespace mote
