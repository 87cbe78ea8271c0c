// mote run without a prompt: a chat, one line of standard input a turn.
#include "examples/cli/interrupt.h"
#include "examples/cli/run_options.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

class Chat {
 public:
  explicit Chat(const RunOptions& options)
      : options_(options), opened_(open_model(options.common)), chain_(make_chain(options.sampling)) {
    for (const std::string& stop : options.stops) stops_.push_back(stop.c_str());
    const mote_session_options session_options = run_session_options(options, chain_, stops_);
    session_ = open_session(opened_, session_options);
    context_ = context_of(session_options, opened_.info);
    if (!options.system.empty()) messages_.push_back({"system", options.system});
    chat_tokens(opened_.model.get(), options.chat_format, {{"user", "x"}});   // a model without a format: said at once
  }

  void turn(const std::string& line) {
    messages_.push_back({"user", line});
    const CancelOnInterrupt cancel(session_.get());
    if (!feed()) {
      messages_.pop_back();   // interrupted before the answer began: as if nothing had been asked
      return write_output("\n");
    }
    const Answer answer = generate(session_.get(), options_.limit, [](std::string_view text) { write_output(text); });
    write_output("\n");
    messages_.push_back({"assistant", answer.text});
    if (answer.finish_reason == "context_full")
      write_note("the context of " + std::to_string(context_) +
                 " positions is full; --context or --on-full slide go on");
  }

 private:
  // Makes the session's history this conversation; what it shares with the last turn is not run again.
  bool feed() {
    std::vector<int32_t> ids = chat_tokens(opened_.model.get(), options_.chat_format, messages_);
    while (options_.on_full == "slide" && ids.size() >= context_ && drop_oldest())
      ids = chat_tokens(opened_.model.get(), options_.chat_format, messages_);
    mote_error error{};
    const mote_status status = mote_prompt(session_.get(), ids.data(), ids.size(), nullptr, nullptr, &error);
    if (status == MOTE_CANCELLED) return false;
    check(status, error);
    return true;
  }

  // Forgets the first question and its answer, but neither the system's words nor the question just asked.
  bool drop_oldest() {
    const std::ptrdiff_t first = options_.system.empty() ? 0 : 1;
    if (static_cast<std::ptrdiff_t>(messages_.size()) - first < 3) return false;
    messages_.erase(messages_.begin() + first, messages_.begin() + first + 2);
    return true;
  }

  const RunOptions& options_;
  Opened opened_;
  SamplerChain chain_;
  std::vector<const char*> stops_;
  Session session_;
  uint32_t context_ = 0;
  std::vector<Message> messages_;
};

}   // namespace

void chat(const RunOptions& options) {
  Chat chat(options);
  LineReader lines;
  const bool marks = input_is_terminal() && notes_are_seen();
  if (marks) write_note("One line is one question. Ctrl-C ends an answer, Ctrl-D or a second Ctrl-C the chat.");
  while (true) {
    if (marks) write_prompt_mark();
    const std::optional<std::string> line = lines.next();
    if (!line) break;
    if (line->empty()) continue;
    forget_interrupts();
    chat.turn(*line);
  }
  if (marks) write_note("");
}

}   // namespace cli
