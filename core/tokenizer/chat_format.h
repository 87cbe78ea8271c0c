// Chat formats: how a conversation becomes a prompt. Not a template engine: a table of formats (chat_formats.inc), and
// a comparison that tells to which of them a model's own template belongs. A template that none of them equals is
// refused, never guessed at.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/listing.h"
#include "core/base/result.h"

namespace mote {

struct ChatMessage {
  std::string_view role;      // "system", "user" or "assistant"
  std::string_view content;   // any bytes
};

// The messages of a conversation, wherever they are: no list of our own bounds their number.
using ChatMessages = Listing<ChatMessage>;

// What is asked of a format.
struct ChatPrompt {
  ChatMessages messages;
  bool add_generation_prompt = true;   // end where the answer begins
  bool thinks = true;                  // false: the model is told not to think first, where the format has a switch
};

// What a format writes around a message. Both empty: the format has no such messages.
struct ChatTurn {
  std::string_view before, after;
};

// A system message at the beginning is a turn of its own, or stands before the first user's text, as it is, with a
// blank line between.
enum class SystemPlace : uint8_t { own_turn, first_user_turn };

struct ChatStyle {
  ChatTurn system, user, assistant;   // the answer begins after assistant.before
  bool begins_with_bos = false;
  bool ends_answers_with_eos = false;   // the model's end token, before assistant.after
  bool trims = false;                   // white space at both ends of a content is cut, as Python's strip does
  bool needs_message = false;
  bool alternates = false;   // user and assistant in turn, after the system message; nothing else
  SystemPlace system_place = SystemPlace::own_turn;
  // A system message always comes first and begins with this, the date and a blank line, when not empty.
  std::string_view system_preface = {}, date = {};
  // Answers may begin with a thought, <think> to </think>. Those before the last question are left out of the prompt;
  // an empty one at the end of the prompt keeps the model from thinking.
  bool has_thoughts = false;
  // The template in squeezed form (chat_template.h), in stretches; one that begins with ? may be missing.
  std::span<const std::string_view> marks = {};
};

struct ChatFormat {
  std::string_view name;
  const ChatStyle* style;
  std::string_view default_system;    // said when the conversation does not begin with a system message; empty: nothing
  std::string_view template_sha256;   // of the template that is just this; empty: recognised by marks and by name
};

// The bare format of that name, without a default system message. unsupported lists the names.
Result<const ChatFormat*> find_chat_format(std::string_view name);
// The index-th row of chat_formats.inc, or nullptr.
const ChatFormat* chat_format_row(uint32_t index);
// The index-th name, or empty.
std::string_view chat_format_name(uint32_t index);

// The format of a model's template: by its SHA-256, then by marks that must make up the whole of it. unsupported says
// what the caller can do instead.
Result<const ChatFormat*> match_chat_format(std::string_view chat_template);
// That status, for a template that is none of ours or for a model without one.
Status no_chat_format(bool has_template);

// Takes the prompt piece by piece. parse_special: the text is the format's own; messages are not.
struct ChatSink {
  void* user;
  void (*put)(void* user, std::string_view text, bool parse_special);
};

// The model's start and end token as text; empty: it has none.
struct ChatTokens {
  std::string_view bos, eos;
};

// invalid_argument for a role that the format does not know, roles in an order that it does not have, or no message
// where it needs one.
Status render_chat(const ChatFormat& format, const ChatPrompt& prompt, const ChatTokens& tokens, const ChatSink& sink);

// Calls of `put` that rendering n messages makes at most.
constexpr uint64_t chat_parts(uint64_t n_messages) { return 6 * n_messages + 12; }

}   // namespace mote
