// mote run without a prompt: a chat, one line of standard input a turn.
#include <algorithm>

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
    if (options.system) messages_.push_back({"system", *options.system});
    first_turn_ = messages_.size();
    tokens_of({{"user", "x"}});   // a model without a format: said at once
  }

  void turn(const std::string& line) {
    {
      const CancelOnInterrupt cancel(session_.get());
      answer(line);
    }
    forget_interrupts();   // one that came after the last call is over, too
    write_output("\n");
    if (finish_reason_ == "context_full")
      write_note("the context of " + std::to_string(context_) +
                 " positions is full; a longer one (--context) or --on-full slide goes on");
  }

 private:
  std::vector<int32_t> tokens_of(const std::vector<Message>& messages) const {
    return chat_tokens(opened_.model.get(), options_.chat, messages);
  }

  void answer(const std::string& line) {
    finish_reason_ = "";
    std::vector<Message> asked = messages_;
    asked.push_back({"user", line});
    const std::vector<int32_t> ids = fit(&asked);
    if (!ids.empty() && options_.show_prompt) write_prompt_text(chat_text(opened_.model.get(), options_.chat, asked));
    if (ids.empty() || !feed(ids)) return;   // as if nothing had been asked
    const Answer answer = generate(session_.get(), options_.limit, write_answer);
    finish_reason_ = answer.finish_reason;
    asked.push_back({"assistant", answer.text});
    messages_ = std::move(asked);
  }

  // The tokens of this conversation; where it is too long, it loses its oldest turns. Nothing: the question is too long
  // by itself.
  std::vector<int32_t> fit(std::vector<Message>* asked) const {
    size_t dropped = 0;
    std::vector<int32_t> ids = tokens_of(*asked);
    // Down to half of the context, so that not every turn has to drop some and to run all the others anew.
    if (ids.size() + answer_room() > context_)
      while (ids.size() > context_ / 2 && drop_oldest(asked) != 0) {
        ++dropped;
        ids = tokens_of(*asked);
      }
    if (ids.size() >= context_) {
      write_note("the question is too long and was not asked: it has " + std::to_string(ids.size()) +
                 " tokens with what stands around it, the context " + std::to_string(context_) +
                 " positions (--context)");
      return {};
    }
    if (dropped != 0)
      write_note("the conversation has grown too long: its oldest questions and answers are forgotten, " +
                 std::to_string(dropped) + " of each");
    return ids;
  }

  // Positions that an answer should find free.
  size_t answer_room() const {
    const size_t quarter = context_ / 4;
    return options_.limit < 0 ? quarter : static_cast<size_t>(std::min<int64_t>(options_.limit, int64_t(quarter)));
  }

  // Takes away the first question and its answer, but neither the system's words nor the question just asked. Returns
  // how many turns that were: 1 or 0.
  size_t drop_oldest(std::vector<Message>* asked) const {
    if (asked->size() < first_turn_ + 3) return 0;
    const auto first = asked->begin() + static_cast<std::ptrdiff_t>(first_turn_);
    asked->erase(first, first + 2);
    return 1;
  }

  // Makes these tokens the session's history; what they share with the last turn is not run again. False: interrupted.
  bool feed(const std::vector<int32_t>& ids) {
    mote_error error{};
    mote_status status = MOTE_OK;
    do status = mote_prompt(session_.get(), ids.data(), ids.size(), nullptr, nullptr, &error);
    while (cancelled_before(status));
    if (status == MOTE_CANCELLED) return false;
    check(status, error);
    return true;
  }

  const RunOptions& options_;
  Opened opened_;
  SamplerChain chain_;
  std::vector<const char*> stops_;
  Session session_;
  uint32_t context_ = 0;
  std::vector<Message> messages_;
  size_t first_turn_ = 0;   // index of the first question
  std::string finish_reason_;
};

}   // namespace

void chat(const RunOptions& options) {
  Chat chat(options);
  LineReader lines;
  const bool marks = input_is_terminal() && notes_are_seen();
  if (marks) write_note("One line is one question. Ctrl-C ends an answer, Ctrl-D or a second Ctrl-C the chat.");
  while (true) {
    if (marks) write_prompt_mark();
    const std::optional<Line> line = lines.next();
    if (!line) break;
    if (line->too_long) write_note("the question is too long and was not asked: a line has at most 16 MiB");
    if (!line->text.empty()) chat.turn(line->text);
  }
  if (marks) write_note("");
}

}   // namespace cli
