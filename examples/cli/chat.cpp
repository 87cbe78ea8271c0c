#include "examples/cli/chat.h"

#include <algorithm>
#include <cstdio>

#include "examples/cli/chat_file.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

std::string rate(double count, double milliseconds) {
  if (count <= 0 || milliseconds <= 0) return "- t/s";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f t/s", count * 1000 / milliseconds);
  return text;
}

std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}   // namespace

Chat::Chat(const RunOptions& options)
    : options_(options), opened_(open_model(options.common)), chain_(make_chain(options.sampling)) {
  check_decodes(opened_);
  if (opened_.info.encodes != 0)
    throw Failure{kWrongUsage, "the model's encoder reads one text at a time, which -p or -f gives; it does not chat"};
  for (const std::string& stop : options.stops) stops_.push_back(stop.c_str());
  session_options_ = run_session_options(options, chain_, stops_);
  context_ = context_of(session_options_, opened_.info);
  if (options.system) messages_.push_back({"system", *options.system});
  tokens_of({{"user", "x"}});   // a model without a format: said at once
  if (session_options_.on_full == MOTE_ON_FULL_SLIDE && !options.keep) session_options_.keep = tokens_that_stay();
  session_ = open_session(opened_, session_options_);
}

size_t Chat::first_turn(const std::vector<Message>& messages) const {
  return !messages.empty() && messages[0].role == "system" ? 1 : 0;
}

std::vector<int32_t> Chat::tokens_of(const std::vector<Message>& messages, bool asks) const {
  return chat_tokens(opened_.model.get(), options_.chat, messages, asks);
}

// What a slide keeps unless --keep says otherwise: the words of the system, or else the start token.
uint32_t Chat::tokens_that_stay() const {
  const size_t stay = messages_.empty() ? (opened_.info.adds_bos != 0 ? 1 : 0) : tokens_of(messages_, false).size();
  return stay < context_ / 2 ? static_cast<uint32_t>(stay) : 0;
}

size_t Chat::n_history() const {
  const int32_t* tokens = nullptr;
  size_t count = 0;
  mote_error error{};
  check(mote_history(session_.get(), &tokens, &count, &error), error);
  return count;
}

// ------------------------------------------------------------------------------------------------ turns

void Chat::turn(const std::string& question) {
  {
    const CancelOnInterrupt cancel(session_.get());
    answer(question);
  }
  forget_interrupts();   // one that came after the last call is over, too
  write_output("\n");
  if (last_.finish_reason == "context_full")
    write_note("the context of " + std::to_string(context_) +
               " positions is full; a longer one (--context) or --on-full slide goes on");
}

void Chat::answer(const std::string& question) {
  last_ = {};
  std::vector<Message> asked = messages_;
  asked.push_back({"user", question});
  const std::vector<int32_t> ids = fit(&asked);
  if (!ids.empty() && options_.show_prompt) write_prompt_text(chat_text(opened_.model.get(), options_.chat, asked));
  if (ids.empty() || !feed(ids)) return;   // as if nothing had been asked
  last_ = generate(session_.get(), options_.limit, write_answer);
  asked.push_back({"assistant", last_.text});
  messages_ = std::move(asked);
}

// The tokens of this conversation; where it is too long, it loses its oldest turns. Nothing: the question is too long
// by itself.
std::vector<int32_t> Chat::fit(std::vector<Message>* asked) const {
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
size_t Chat::answer_room() const {
  const size_t quarter = context_ / 4;
  return options_.limit < 0 ? quarter : static_cast<size_t>(std::min<int64_t>(options_.limit, int64_t(quarter)));
}

// Takes away the first question and its answer, but neither the system's words nor the question just asked. Returns
// how many turns that were: 1 or 0.
size_t Chat::drop_oldest(std::vector<Message>* asked) const {
  const size_t turn = first_turn(*asked);
  if (asked->size() < turn + 3) return 0;
  const auto first = asked->begin() + static_cast<std::ptrdiff_t>(turn);
  asked->erase(first, first + 2);
  return 1;
}

// Makes these tokens the session's history; what they share with the last turn is not run again. False: interrupted.
bool Chat::feed(const std::vector<int32_t>& ids) {
  mote_error error{};
  mote_status status = MOTE_OK;
  const Clock::time_point start = Clock::now();
  do status = mote_prompt(session_.get(), ids.data(), ids.size(), &reused_tokens_, nullptr, &error);
  while (cancelled_before(status));
  if (status == MOTE_CANCELLED) return false;
  check(status, error);
  prompt_tokens_ = ids.size();
  prompt_ms_ = milliseconds_since(start);
  return true;
}

// ------------------------------------------------------------------------------------------------ commands

void Chat::reset() {
  mote_error error{};
  check(mote_rewind(session_.get(), 0, &error), error);
  messages_.resize(first_turn(messages_));
  last_ = {};
}

void Chat::save(const std::string& path) {
  mote_error error{};
  uint64_t bytes = 0;
  check(mote_snapshot_bytes(session_.get(), &bytes, &error), error);
  ChatFile file{messages_, std::vector<char>(static_cast<size_t>(bytes))};
  check(mote_snapshot(session_.get(), file.snapshot.data(), bytes, &bytes, &error), error);
  write_chat_file(path, file);
  write_note(path + ": saved, " + counted((messages_.size() - first_turn(messages_)) / 2, "question") + " and " +
             counted(n_history(), "token"));
}

void Chat::load(const std::string& path) {
  mote_quote session{};
  session.struct_bytes = sizeof session;
  mote_error error{};
  check(mote_session_quote(opened_.model.get(), &session_options_, &session, &error), error);
  // A snapshot holds no more than the session does, but for its head and in another order.
  const ChatFile file = read_chat_file(path, 2 * session.total_bytes);
  mote_status status = MOTE_OK;
  do status = mote_restore(session_.get(), file.snapshot.data(), file.snapshot.size(), &error);
  while (cancelled_before(status));
  if (status != MOTE_OK && status != MOTE_CANCELLED) throw Failure{kFailed, path + ": " + error.message, status};
  check(status, error);
  messages_ = file.messages;
  last_ = {};
  write_note(path + ": loaded, " + counted((messages_.size() - first_turn(messages_)) / 2, "question") + " and " +
             counted(n_history(), "token"));
}

void Chat::tell_stats() const {
  if (last_.sampled != 0)
    write_note("last answer: " + counted(last_.sampled, "token") + ", " +
               rate(last_.sampled - 1.0, last_.decode_ms - last_.first_token_ms) + "; its prompt: " +
               counted(prompt_tokens_, "token") + ", " + std::to_string(prompt_tokens_ - reused_tokens_) +
               " of them new, " + rate(static_cast<double>(prompt_tokens_ - reused_tokens_), prompt_ms_));
  const size_t used = std::min<size_t>(n_history(), context_);
  write_note("conversation: " + counted((messages_.size() - first_turn(messages_)) / 2, "question"));
  write_note("context: " + std::to_string(used) + " of " + std::to_string(context_) + " positions used, " +
             std::to_string(context_ - used) + " left");
  const nlohmann::ordered_json memory = quoted_memory_json(opened_, options_.common, session_options_);
  const auto part = [&](const char* key) {
    return memory[key].is_null() ? std::string("unknown") : human_bytes(memory[key].get<uint64_t>());
  };
  write_note("memory: engine " + part("engine_bytes") + ", model " + part("model_bytes") + ", session " +
             part("session_bytes") + ", file " + part("file_bytes") + "; the process now " + part("anonymous_bytes") +
             " and " + part("file_backed_bytes") + " of files");
}

}   // namespace cli
