#include "core/tokenizer/chat_format.h"

#include "core/base/sha256.h"
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
constexpr ChatStyle kChatMl = {"<|im_start|>", "\n", "<|im_end|>\n", false, false, {}, {}, kChatMlMarks};

// https://www.llama.com/docs/model-cards-and-prompt-formats/meta-llama-3/
constexpr std::string_view kLlama3Marks[] = {
    R"({%setloop_messages=messages%}{%formessageinloop_messages%})",
    R"({%setcontent="<|start_header_id|>"message["role"]"<|end_header_id|>\n\n"message["content"]|trim"<|eot_id|>"%})",
    R"({%ifloop["index0"]==0%}{%setcontent=bos_tokencontent%}{%endif%}{{content}}{%endfor%})",
    R"({%ifadd_generation_prompt%}{{"<|start_header_id|>assistant<|end_header_id|>\n\n"}}{%endif%})",
};
constexpr ChatStyle kLlama3 = {"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", true, true, {}, {},
                               kLlama3Marks};

// Without tools. The template is too long for marks: it is known by its SHA-256 only.
constexpr ChatStyle kLlama31 = {"<|start_header_id|>",
                                "<|end_header_id|>\n\n",
                                "<|eot_id|>",
                                true,
                                true,
                                "Cutting Knowledge Date: December 2023\nToday Date: ",
                                "26 Jul 2024",
                                {}};

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

bool is_known_role(std::string_view role) { return role == "system" || role == "user" || role == "assistant"; }

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

Status render_chat(const ChatFormat& format, const ChatMessages& messages, bool add_generation_prompt,
                   std::string_view bos_text, const ChatSink& sink) {
  const ChatStyle& style = *format.style;
  for (size_t i = 0; i < messages.size(); ++i)
    if (!is_known_role(messages[i].role))
      return Status::error(Code::invalid_argument, "message {} has the role {}; known are system, user and assistant",
                           i, messages[i].role);
  const auto say = [&](std::string_view text) { sink.put(sink.user, text, true); };
  const auto quote = [&](std::string_view text) { sink.put(sink.user, style.trims ? strip(text) : text, false); };
  const auto begin = [&](std::string_view role) { say(style.before_role), say(role), say(style.after_role); };

  const size_t n = messages.size();
  size_t first = 0;
  const bool has_system = n != 0 && messages[0].role == "system";
  if (!style.system_preface.empty()) {
    if (n == 0)
      return Status::error(Code::invalid_argument, "the chat format {} needs at least one message", format.name);
    say(bos_text);
    begin("system"), say(style.system_preface), say(style.date), say("\n\n");
    if (has_system) quote(messages[0].content);
    say(style.after_content);
    first = has_system ? 1 : 0;
  } else {
    if (style.begins_with_bos && n != 0) say(bos_text);
    if (n != 0 && !has_system && !format.default_system.empty())
      begin("system"), say(format.default_system), say(style.after_content);
  }
  for (size_t i = first; i < n; ++i) {
    const ChatMessage message = messages[i];
    begin(message.role);
    quote(message.content);
    say(style.after_content);
  }
  if (add_generation_prompt) begin("assistant");
  return {};
}

}   // namespace mote
