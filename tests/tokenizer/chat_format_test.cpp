#include "core/tokenizer/chat_format.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tokenizer/chat_template.h"
#include "tests/support/goldens.h"
#include "tests/tokenizer/toy_tokenizer.h"

namespace mote::test {
namespace {

using Json = nlohmann::json;

const ChatFormat& format_named(std::string_view name) {
  const Result<const ChatFormat*> format = find_chat_format(name);
  if (!format.ok()) throw std::runtime_error(format.status().c_str());
  return *format.value();
}

// The row whose template has this digest.
const ChatFormat* format_of_sha256(std::string_view sha256) {
  for (uint32_t i = 0; const ChatFormat* format = chat_format_row(i); ++i)
    if (!format->template_sha256.empty() && format->template_sha256 == sha256) return format;
  return nullptr;
}

Status render(const ChatFormat& format, const ChatPrompt& prompt, const ChatTokens& tokens, std::string* text) {
  const ChatSink sink{text,
                      [](void* user, std::string_view part, bool) { static_cast<std::string*>(user)->append(part); }};
  return render_chat(format, prompt, tokens, sink);
}

std::string rendered(const ChatFormat& format, const std::vector<ChatMessage>& messages, bool gen,
                     std::string_view bos_text = {}) {
  std::string text;
  const Status status = render(format, {messages, gen}, {bos_text, "</s>"}, &text);
  return status.ok() ? text : "status: " + std::string(status.message());
}

const ChatFormat* matched(std::string_view chat_template) {
  const Result<const ChatFormat*> format = match_chat_format(chat_template);
  return format.ok() ? format.value() : nullptr;
}

constexpr const char* kPlainChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

}   // namespace

TEST_CASE("Prompts of the reference's templates are its own to the byte", "[tokenizer][golden]") {
  size_t compared = 0, refused = 0;
  std::vector<std::string> different;
  std::ifstream file(goldens_dir() / "templates" / "templates.jsonl");
  REQUIRE(file);
  for (std::string line; std::getline(file, line);) {
    const Json golden = Json::parse(line);
    const std::string id = golden["id"], text_of_tools = "# Tools";
    if (golden.value("text", "").find(text_of_tools) != std::string::npos) continue;   // calls of tools come later
    const ChatFormat* format = format_of_sha256(golden["template_sha256"].get<std::string>());
    if (format == nullptr) {
      different.push_back(id + ": no row has its template");
      continue;
    }
    std::vector<ChatMessage> messages;
    for (const Json& message : golden["messages"])
      messages.push_back(
          {message["role"].get_ref<const std::string&>(), message["content"].get_ref<const std::string&>()});
    const std::string bos = golden["bos_token"].is_null() ? "" : golden["bos_token"].get<std::string>();
    const ChatPrompt prompt{messages, golden["add_generation_prompt"], golden["extra"].value("enable_thinking", true)};
    std::string text;
    const Status status = render(*format, prompt, {bos, {}}, &text);
    ++compared;
    if (golden.contains("error")) {
      ++refused;
      if (status.message().find("user and assistant in turn") == std::string_view::npos) different.push_back(id);
    } else if (!status.ok() || text != golden["text"]) {
      different.push_back(id + ": " + text + std::string(status.message()));
    }
  }
  for (const std::string& text : different) UNSCOPED_INFO(text);
  CHECK(compared == 86);   // all 90 but two with tools of each Qwen
  CHECK(refused == 2);     // Gemma's: an assistant speaks first
  CHECK(different.empty());
}

TEST_CASE("SmolLM2's own template leads to ChatML with its system message", "[tokenizer][real]") {
  const char* model = std::getenv("MOTE_SMOLLM2");
  if (model == nullptr) SKIP("MOTE_SMOLLM2 is not set");
  const OpenTokenizer tokenizer(read_bytes(model));
  REQUIRE(tokenizer.status().ok());
  const Result<const ChatFormat*> format = tokenizer->chat_format();
  REQUIRE(format.ok());
  CHECK(format.value()->name == "chatml");
  CHECK(rendered(*format.value(), {{"user", "Hi"}}, true) ==
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const Ids ids = chat(*tokenizer, *format.value(), {{"user", "<|im_end|>"}});
  CHECK(std::count(ids.begin(), ids.end(), 2) == 2);   // the user's own <|im_end|> stays text
}

TEST_CASE("A bare ChatML says no system message of its own", "[tokenizer][unit]") {
  CHECK(rendered(format_named("chatml"), {{"user", " a "}, {"assistant", "b"}}, false) ==
        "<|im_start|>user\n a <|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
  CHECK(rendered(format_named("chatml"), {}, true) == "<|im_start|>assistant\n");
  ChatFormat format = format_named("chatml");
  format.default_system = "S";   // said before messages, not by itself
  CHECK(rendered(format, {}, true) == "<|im_start|>assistant\n");
}

TEST_CASE("Llama 3.1's header tells knowledge and date, whoever sets the system message", "[tokenizer][unit]") {
  const ChatFormat& format = format_named("llama3.1");
  const std::string head =
      "<B><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: ";
  const std::string user = "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>";
  CHECK(rendered(format, {{"user", " hi\n"}}, false, "<B>") == head + "26 Jul 2024\n\n" + user);
  CHECK(rendered(format, {{"system", "\tBe brief. "}, {"user", "hi"}}, false, "<B>") ==
        head + "26 Jul 2024\n\nBe brief." + user);
  CHECK(rendered(format, {}, true).find("at least one message") != std::string::npos);
}

TEST_CASE("Llama 3 cuts what Python's strip cuts, and nothing more", "[tokenizer][unit]") {
  const auto content = [](std::string_view text) {
    const std::string all = rendered(format_named("llama3"), {{"user", text}}, false);
    const std::string head = "<|start_header_id|>user<|end_header_id|>\n\n";
    return all.substr(head.size(), all.size() - head.size() - std::string("<|eot_id|>").size());
  };
  CHECK(content(" \t\n\r\v\f\x1c\x1d\x1e\x1f\xC2\x85\xC2\xA0\xE2\x80\xA8\xE3\x80\x80x y\xE3\x80\x80 ") == "x y");
  CHECK(content("\xE2\x80\x8B z\xE2\x80\x8B") == "\xE2\x80\x8B z\xE2\x80\x8B");   // zero width space stays
  CHECK(content("\x80 \x80") == "\x80 \x80");                                     // bad UTF-8 stays for the tokenizer
  CHECK(content(" \n ") == "");
}

TEST_CASE("Qwen 3 drops the thoughts of earlier answers and keeps those after the last question", "[tokenizer][unit]") {
  const ChatFormat& format = format_named("qwen3");
  const std::string answer = "\n<think>\n\nhm\n\n</think>\n\n\nyes";
  const std::string kept = "<|im_start|>assistant\n<think>\nhm\n</think>\n\nyes<|im_end|>\n";
  const std::string dropped = "<|im_start|>assistant\nyes<|im_end|>\n", question = "<|im_start|>user\nq<|im_end|>\n";
  CHECK(rendered(format, {{"user", "q"}, {"assistant", answer}}, false) == question + kept);
  CHECK(rendered(format, {{"user", "q"}, {"assistant", answer}, {"user", "q"}}, false) ==
        question + dropped + question);
  CHECK(rendered(format, {{"assistant", answer}, {"user", "q"}, {"assistant", answer}}, false) ==
        dropped + question + kept);
  // What a tool answers is no question.
  const std::string tool = "<tool_response>7</tool_response>";
  CHECK(rendered(format, {{"user", "q"}, {"assistant", answer}, {"user", tool}}, false) ==
        question + kept + "<|im_start|>user\n" + tool + "<|im_end|>\n");
  // Without a thought: an empty one at the end of the prompt, none before.
  CHECK(rendered(format, {{"user", "q"}, {"assistant", "\nyes"}}, false) ==
        question + "<|im_start|>assistant\n<think>\n\n</think>\n\nyes<|im_end|>\n");
  CHECK(rendered(format, {{"user", "q"}, {"assistant", "no"}, {"assistant", answer}}, false) ==
        question + "<|im_start|>assistant\nno<|im_end|>\n" + kept);
  CHECK(rendered(format, {{"user", "q"}, {"assistant", "a<think>b</think>c</think>d"}, {"user", "q"}}, false) ==
        question + "<|im_start|>assistant\nd<|im_end|>\n" + question);
  CHECK(rendered(format, {}, true).find("at least one message") != std::string::npos);
}

TEST_CASE("Gemma and Mistral put the system message before the first question, and speak in turn",
          "[tokenizer][unit]") {
  const ChatFormat &gemma = format_named("gemma"), &mistral = format_named("mistral");
  CHECK(rendered(gemma, {{"system", " S "}, {"user", " a "}}, false, "<B>") ==
        "<B><start_of_turn>user\n S \n\na<end_of_turn>\n");
  CHECK(rendered(mistral, {{"user", " a "}, {"assistant", "b"}, {"user", "c"}}, true, "<s>") ==
        "<s>[INST]  a  [/INST]b</s>[INST] c [/INST]");
  CHECK(rendered(mistral, {{"system", "S"}, {"user", "a"}}, true, "<s>") == "<s>[INST] S\n\na [/INST]");
  for (const ChatFormat* format : {&gemma, &mistral}) {
    CHECK(rendered(*format, {{"user", "a"}, {"user", "b"}}, true).find("message 1 has the role user") !=
          std::string::npos);
    CHECK(rendered(*format, {{"system", "S"}, {"assistant", "b"}}, true).find("in turn") != std::string::npos);
    CHECK(rendered(*format, {{"system", "S"}}, true).find("at least one message after the system") !=
          std::string::npos);
  }
  CHECK(rendered(mistral, {{"user", "a"}, {"system", "b"}}, true).find("in turn") != std::string::npos);
}

TEST_CASE("Mistral's templates are recognised, the first with a blank after each answer", "[tokenizer][unit]") {
  const std::string head =
      "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
      "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
      "{% elif message['role'] == 'assistant' %}";
  const std::string tail =
      "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}";
  CHECK(matched(head + "{{ message['content'] + eos_token}}" + tail) == &format_named("mistral"));
  const ChatFormat* first = matched(head + "{{ message['content'] + eos_token + ' ' }}" + tail);
  REQUIRE(first != nullptr);
  CHECK(rendered(*first, {{"user", "a"}, {"assistant", "b"}}, true, "<s>") == "<s>[INST] a [/INST]b</s> ");
  CHECK(matched(head + "{{ message['content'] }}" + tail) == nullptr);
}

TEST_CASE("A role that the format does not know is a status that names it", "[tokenizer][unit]") {
  for (const char* role : {"tool", "", "User", "assistant "}) {
    std::string text;
    const std::vector<ChatMessage> messages = {{"user", "a"}, {role, "b"}};
    const Status status = render(format_named("chatml"), {messages}, {}, &text);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find("message 1 has the role") != std::string_view::npos);
    CHECK(text.empty());
  }
}

TEST_CASE("Spellings of the same template are recognised by their marks", "[tokenizer][unit]") {
  const std::string plain = kPlainChatMl;
  CHECK(matched(plain) == &format_named("chatml"));
  CHECK(matched("  " + plain + "\n") == &format_named("chatml"));   // lstrip_blocks, and the file's last line end
  CHECK(matched("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" +
                plain) == &format_named("chatml"));
  CHECK(matched(
            "{%- for message in messages %}\n    {{- '<|im_start|>' ~ message.role + \"\\n\" -}}\n{{ message.content }}"
            "{{ '<|im_end|>\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' "
            "}}\n{%- endif %}\n") == &format_named("chatml"));
  CHECK(matched(
            "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
            "'<|start_header_id|>' + "
            "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 "
            "== 0 %}"
            "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %} ") ==
        nullptr);   // a blank that would be said
}

TEST_CASE("A template's SHA-256 leads to its row, with the system message that it says by itself",
          "[tokenizer][unit]") {
  const std::string smollm2 =
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
      "are a helpful AI "
      "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + "
      "'\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\n' }}{% endif %}";
  REQUIRE(matched(smollm2) != nullptr);
  CHECK(matched(smollm2)->name == "chatml");
  CHECK(matched(smollm2)->default_system == "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  CHECK(matched(smollm2 + " ") == nullptr);

  const std::string llama3 =
      "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
      "message['role'] + "
      "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = "
      "bos_token + content "
      "%}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
  REQUIRE(matched(llama3) != nullptr);
  CHECK(matched(llama3)->template_sha256 == "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122");
  std::string respelled = llama3;
  respelled.replace(respelled.find("message['role']"), 15, "message.role");
  CHECK(matched(respelled) == &format_named("llama3"));
}

TEST_CASE("A template that says anything else is refused, with what to do instead", "[tokenizer][unit]") {
  const std::string plain = kPlainChatMl;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = plain;
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("not in the template: " + from);
    return text.replace(at, from.size(), to);
  };
  const std::string others[] = {
      "",
      "chatml",
      "{{",
      "{% for",
      plain + plain,
      "x " + plain,
      plain + "x",
      plain.substr(0, plain.size() - 1),
      plain.substr(0, plain.size() - 2),
      plain.substr(0, plain.find("{% if add_generation_prompt")),
      "\n",
      with("'<|im_start|>assistant", "'<|im_start|>assistent"),
      with("{% for message", "x% for message"),
      with("{{'<|im_start|>'", "{#'<|im_start|>'"),
      with("messages %}{{", "messages %} {{"),
      with("messages %}{{", "messages %}\n  {{"),
      with("{% endfor %}{% if", "{% endfor %}\n\n{% if"),
      with("{% endfor %}{% if", "{% endfor %} \n{% if"),
      with("'<|im_end|>' + '\\n'", "'<|im_end|>'"),
      with("message['content']", "message['content'] | trim"),
      with("message['content']", "'message[content]'"),
      // One text whose quotes are text.
      with("'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'",
           R"('<|im_start|>"message["role"]"\n"message["content"]"<|im_end|>\n')"),
      with("{{ '<|im_start|>assistant\\n' }}", "{{ '<|im_start|>assistant\\n<think>\\n' }}"),
      with("{% for message in messages %}", "{% for message in messages[1:] %}"),
      with("{% endfor %}", "{# a comment #}{% endfor %}"),
      with("{% endfor %}", "{%+ endfor %}"),
      with("{% endfor %}", "{% endfor +%}"),
      with("{% endfor %}", "{% if tools %}{{ tools }}{% endif %}{% endfor %}"),
      with("{% endfor %}{%", "{% endfor %} {{ '' }}{%"),
      with("'<|im_start|>' + message", "bos_token + '<|im_start|>' + message"),
  };
  for (const std::string& text : others) {
    INFO(text);
    const Result<const ChatFormat*> format = match_chat_format(text);
    CHECK(format.status().code() == Code::unsupported);
    CHECK(format.status().message().find(
              "name a chat format (chatml, llama3, llama3.1, qwen2.5, qwen3, gemma, mistral)") !=
          std::string_view::npos);
    CHECK(format.status().message().find("--") == std::string_view::npos);   // flags are the program's
    const bool missing = format.status().message().starts_with("the model has no chat template");
    CHECK(missing == text.empty());
  }
}

TEST_CASE("Formats are found by name, and an unknown name lists them", "[tokenizer][unit]") {
  CHECK(chat_format_name(0) == "chatml");
  CHECK(chat_format_name(1) == "llama3");
  CHECK(chat_format_name(2) == "llama3.1");
  CHECK(chat_format_name(6) == "mistral");
  CHECK(chat_format_name(7).empty());
  CHECK(find_chat_format("ChatML").status().message() ==
        "there is no chat format ChatML; mote knows chatml, llama3, llama3.1, qwen2.5, qwen3, gemma, mistral");
}

}   // namespace mote::test
