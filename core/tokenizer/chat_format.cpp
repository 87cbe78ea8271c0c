#include "core/tokenizer/chat_format.h"

#include <iterator>

#include "core/base/sha256.h"
#include "core/base/slice.h"
#include "core/base/utf8.h"
#include "core/tokenizer/chat_template.h"
#include "core/tokenizer/unicode/unicode.h"

namespace mote {
namespace {

// https://github.com/openai/openai-python/blob/release-v0.28.0/chatml.md
constexpr std::string_view kChatMlMarks[] = {
    R"(?{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%})",
    R"({%formessageinmessages%})",
    R"({{"<|im_start|>"message["role"]"\n"message["content"]"<|im_end|>\n"}})",
    R"({%endfor%}{%ifadd_generation_prompt%}{{"<|im_start|>assistant\n"}}{%endif%})",
};
constexpr ChatTurn kChatMlSystem = {"<|im_start|>system\n", "<|im_end|>\n"};
constexpr ChatTurn kChatMlUser = {"<|im_start|>user\n", "<|im_end|>\n"};
constexpr ChatTurn kChatMlAssistant = {"<|im_start|>assistant\n", "<|im_end|>\n"};
constexpr ChatStyle kChatMl = {
    .system = kChatMlSystem, .user = kChatMlUser, .assistant = kChatMlAssistant, .marks = kChatMlMarks};

// https://qwenlm.github.io/blog/qwen2.5 and /qwen3, without tools. The templates are too long for marks: these and the
// ones below without marks are known by their SHA-256 only.
constexpr ChatStyle kQwen25 = {
    .system = kChatMlSystem, .user = kChatMlUser, .assistant = kChatMlAssistant, .needs_message = true};
constexpr ChatStyle kQwen3 = {.system = kChatMlSystem,
                              .user = kChatMlUser,
                              .assistant = kChatMlAssistant,
                              .needs_message = true,
                              .has_thoughts = true};

// https://www.llama.com/docs/model-cards-and-prompt-formats/meta-llama-3/
constexpr std::string_view kLlama3Marks[] = {
    R"({%setloop_messages=messages%}{%formessageinloop_messages%})",
    R"({%setcontent="<|start_header_id|>"message["role"]"<|end_header_id|>\n\n"message["content"]|trim"<|eot_id|>"%})",
    R"({%ifloop["index0"]==0%}{%setcontent=bos_tokencontent%}{%endif%}{{content}}{%endfor%})",
    R"({%ifadd_generation_prompt%}{{"<|start_header_id|>assistant<|end_header_id|>\n\n"}}{%endif%})",
};
constexpr ChatTurn kLlama3System = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"};
constexpr ChatTurn kLlama3User = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"};
constexpr ChatTurn kLlama3Assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"};
constexpr ChatStyle kLlama3 = {.system = kLlama3System,
                               .user = kLlama3User,
                               .assistant = kLlama3Assistant,
                               .begins_with_bos = true,
                               .trims = true,
                               .marks = kLlama3Marks};

// Without tools.
constexpr ChatStyle kLlama31 = {.system = kLlama3System,
                                .user = kLlama3User,
                                .assistant = kLlama3Assistant,
                                .begins_with_bos = true,
                                .trims = true,
                                .needs_message = true,
                                .system_preface = "Cutting Knowledge Date: December 2023\nToday Date: ",
                                .date = "26 Jul 2024"};

// https://ai.google.dev/gemma/docs/core/prompt-structure
constexpr ChatStyle kGemma = {.system = {"<start_of_turn>system\n", "<end_of_turn>\n"},
                              .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
                              .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
                              .begins_with_bos = true,
                              .trims = true,
                              .needs_message = true,
                              .alternates = true,
                              .system_place = SystemPlace::first_user_turn};

// https://github.com/mistralai/cookbook/blob/main/concept-deep-dive/tokenization/chat_templates.md: versions 1 and 2.
// Their templates knew no system message; where those after them put one, it is put here.
constexpr std::string_view kMistralMarks[] = {
    R"({{bos_token}}{%formessageinmessages%}{%if(message["role"]=="user")!=(loop["index0"]%2==0)%})",
    R"({{raise_exception("Conversation roles must alternate user/assistant/user/assistant/...")}}{%endif%})",
    R"({%ifmessage["role"]=="user"%}{{"[INST] "message["content"]" [/INST]"}})",
    R"({%elifmessage["role"]=="assistant"%}{{message["content"]eos_token}})",
    R"({%else%}{{raise_exception("Only user and assistant roles are supported!")}}{%endif%}{%endfor%})",
};
constexpr ChatStyle kMistral = {.system = {},
                                .user = {"[INST] ", " [/INST]"},
                                .assistant = {},
                                .begins_with_bos = true,
                                .ends_answers_with_eos = true,
                                .needs_message = true,
                                .alternates = true,
                                .system_place = SystemPlace::first_user_turn,
                                .marks = kMistralMarks};
constexpr ChatStyle kMistral01 = {.system = {},
                                  .user = {"[INST] ", " [/INST]"},
                                  .assistant = {"", " "},
                                  .begins_with_bos = true,
                                  .ends_answers_with_eos = true,
                                  .needs_message = true,
                                  .alternates = true,
                                  .system_place = SystemPlace::first_user_turn};

constexpr ChatFormat kFormats[] = {
#define MOTE_CHAT_FORMAT(name, style, default_system, template_sha256) {name, &style, default_system, template_sha256},
#include "core/tokenizer/chat_formats.inc"
#undef MOTE_CHAT_FORMAT
};

bool is_bare(const ChatFormat& format) { return format.template_sha256.empty(); }

// What Python's str.strip takes away: White_Space and the four separators U+001C..1F.
bool is_stripped(uint32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) || character_class(code_point) == CharacterClass::space;
}

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character c = decode_utf8(text.data(), text.size());
    if (!c.valid || !is_stripped(c.code_point)) break;
    text.remove_prefix(c.bytes);
  }
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    const Utf8Character c = decode_utf8(text.data() + start, text.size() - start);
    if (!c.valid || c.bytes != text.size() - start || !is_stripped(c.code_point)) break;
    text.remove_suffix(c.bytes);
  }
  return text;
}

enum class Role : uint8_t { system, user, assistant, unknown };

Role role_of(const ChatMessage& message) {
  if (message.role == "system") return Role::system;
  if (message.role == "user") return Role::user;
  return message.role == "assistant" ? Role::assistant : Role::unknown;
}

std::string_view strip_lines(std::string_view text, bool front = true, bool back = true) {
  while (front && !text.empty() && text.front() == '\n') text.remove_prefix(1);
  while (back && !text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

// All names in one text, for messages.
struct NameList {
  char text[128];
  uint32_t bytes = 0;
  NameList() {
    for (const ChatFormat& format : kFormats) {
      if (!is_bare(format)) continue;
      const std::string_view comma = bytes == 0 ? "" : ", ";
      for (const std::string_view part : {comma, format.name})
        for (const char c : part)
          if (bytes < sizeof text) text[bytes++] = c;
    }
  }
  std::string_view view() const { return {text, bytes}; }
};

}   // namespace

Result<const ChatFormat*> find_chat_format(std::string_view name) {
  for (const ChatFormat& format : kFormats)
    if (is_bare(format) && format.name == name) return &format;
  return Status::error(Code::unsupported, "there is no chat format {}; mote knows {}", name, NameList().view());
}

const ChatFormat* chat_format_row(uint32_t index) { return index < std::size(kFormats) ? &kFormats[index] : nullptr; }

std::string_view chat_format_name(uint32_t index) {
  for (const ChatFormat& format : kFormats)
    if (is_bare(format) && index-- == 0) return format.name;
  return {};
}

Result<const ChatFormat*> match_chat_format(std::string_view chat_template) {
  if (chat_template.empty()) return no_chat_format(false);
  const Sha256Digest digest = sha256(chat_template);
  for (const ChatFormat& format : kFormats)
    if (!is_bare(format) && digest_is(digest, format.template_sha256)) return &format;
  for (const ChatFormat& format : kFormats)
    if (is_bare(format) && template_is(chat_template, format.style->marks)) return &format;
  return no_chat_format(true);
}

Status no_chat_format(bool has_template) {
  if (!has_template)
    return Status::error(Code::unsupported,
                         "the model has no chat template (tokenizer.chat_template); name a chat format ({}), or let it "
                         "continue plain text",
                         NameList().view());
  return Status::error(Code::unsupported,
                       "the model's chat template is none that mote knows; name a chat format ({}), or let it continue "
                       "plain text",
                       NameList().view());
}

namespace {

// One conversation on its way into a sink.
class Rendering {
 public:
  Rendering(const ChatFormat& format, const ChatPrompt& prompt, const ChatTokens& tokens, const ChatSink& sink)
      : format_(format), style_(*format.style), prompt_(prompt), tokens_(tokens), sink_(sink) {}

  Status check() const;
  void run();

 private:
  // The format's own text, and a message's.
  void say(std::string_view text) { sink_.put(sink_.user, text, true); }
  void quote(std::string_view text) { sink_.put(sink_.user, style_.trims ? strip(text) : text, false); }
  bool has_system() const { return prompt_.messages.size() != 0 && role_of(prompt_.messages[0]) == Role::system; }
  bool joins_system() const { return has_system() && style_.system_place == SystemPlace::first_user_turn; }
  void say_system();
  void say_answer(std::string_view content, bool keeps_thought, bool is_last);
  size_t last_question() const;

  const ChatFormat& format_;
  const ChatStyle& style_;
  const ChatPrompt& prompt_;
  const ChatTokens& tokens_;
  const ChatSink& sink_;
};

Status Rendering::check() const {
  const size_t n = prompt_.messages.size(), first = joins_system() ? 1 : 0;
  for (size_t i = 0; i < n; ++i)
    if (role_of(prompt_.messages[i]) == Role::unknown)
      return Status::error(Code::invalid_argument, "message {} has the role {}; known are system, user and assistant",
                           i, prompt_.messages[i].role);
  if (style_.needs_message && n == first)
    return Status::error(Code::invalid_argument, "the chat format {} needs at least one message{}", format_.name,
                         first == 0 ? "" : " after the system message");
  for (size_t i = first; i < n && style_.alternates; ++i) {
    const Role role = role_of(prompt_.messages[i]);
    const bool is_question = (i - first) % 2 == 0;
    if (is_question != (role == Role::user) || (role == Role::system && style_.system.before.empty()))
      return Status::error(Code::invalid_argument,
                           "message {} has the role {}; the chat format {} has user and assistant in turn", i,
                           prompt_.messages[i].role, format_.name);
  }
  return {};
}

void Rendering::say_system() {
  if (!style_.system_preface.empty()) {
    say(style_.system.before), say(style_.system_preface), say(style_.date), say("\n\n");
    if (has_system()) quote(prompt_.messages[0].content);
    say(style_.system.after);
  } else if (!has_system() && prompt_.messages.size() != 0 && !format_.default_system.empty()) {
    say(style_.system.before), say(format_.default_system), say(style_.system.after);
  }
}

// The last user message that is not the answer of a tool; the last message where there is none.
size_t Rendering::last_question() const {
  const size_t n = prompt_.messages.size();
  for (size_t i = n; i > 0; --i) {
    const ChatMessage message = prompt_.messages[i - 1];
    const bool is_tools =
        message.content.starts_with("<tool_response>") && message.content.ends_with("</tool_response>");
    if (role_of(message) == Role::user && !is_tools) return i - 1;
  }
  return n - 1;
}

void Rendering::say_answer(std::string_view content, bool keeps_thought, bool is_last) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  std::string_view thought;
  if (const size_t end = content.find(kEnd); end != std::string_view::npos) {
    thought = strip_lines(slice(content, 0, end), false);
    if (const size_t begin = thought.rfind(kBegin); begin != std::string_view::npos)
      thought = slice(thought, begin + kBegin.size());
    thought = strip_lines(thought, true, false);
    content = strip_lines(slice(content, content.rfind(kEnd) + kEnd.size()), true, false);
  }
  if (keeps_thought && (is_last || !thought.empty())) {
    say("<think>\n"), quote(strip_lines(thought)), say("\n</think>\n\n");
    content = strip_lines(content, true, false);
  }
  quote(content);
}

void Rendering::run() {
  const size_t n = prompt_.messages.size();
  if (style_.begins_with_bos && n != 0) say(tokens_.bos);
  say_system();
  const size_t question = style_.has_thoughts && n != 0 ? last_question() : n;
  const bool is_said = has_system() && (!style_.system_preface.empty() || joins_system());
  for (size_t i = is_said ? 1 : 0; i < n; ++i) {
    const ChatMessage message = prompt_.messages[i];
    const Role role = role_of(message);
    const ChatTurn& turn = role == Role::system ? style_.system : role == Role::user ? style_.user : style_.assistant;
    say(turn.before);
    if (i == 1 && joins_system()) {
      sink_.put(sink_.user, prompt_.messages[0].content, false);
      say("\n\n");
    }
    if (role == Role::assistant && style_.has_thoughts)
      say_answer(message.content, i > question, i + 1 == n);
    else
      quote(message.content);
    if (role == Role::assistant && style_.ends_answers_with_eos) say(tokens_.eos);
    say(turn.after);
  }
  if (!prompt_.add_generation_prompt) return;
  say(style_.assistant.before);
  if (style_.has_thoughts && !prompt_.thinks) say("<think>\n\n</think>\n\n");
}

}   // namespace

Status render_chat(const ChatFormat& format, const ChatPrompt& prompt, const ChatTokens& tokens, const ChatSink& sink) {
  Rendering rendering(format, prompt, tokens, sink);
  MOTE_RETURN_IF_ERROR(rendering.check());
  rendering.run();
  return {};
}

}   // namespace mote
