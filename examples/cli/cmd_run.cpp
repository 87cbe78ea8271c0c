// mote run: answers one prompt, or continues a text with --raw.
#include <algorithm>

#include "examples/cli/interrupt.h"
#include "examples/cli/numbers.h"
#include "examples/cli/run_options.h"
#include "examples/cli/stream.h"

namespace cli {

mote_session_options run_session_options(const RunOptions& options, const SamplerChain& chain,
                                         const std::vector<const char*>& stops) {
  mote_session_options session = session_options_of(options.common, MOTE_KV_F16);
  session.on_full = options.on_full == "slide" ? MOTE_ON_FULL_SLIDE : MOTE_ON_FULL_STOP;
  session.keep = options.keep.value_or(0);
  session.stops = stops.data();
  session.n_stops = stops.size();
  chain.put_into(session);
  return session;
}

namespace {

struct Prompt {
  std::vector<int32_t> ids;
  std::string text;   // as --show-prompt tells it
};

bool asks_for_chat(const RunOptions& options) {
  return options.messages || options.system || !options.chat.format.empty() || !options.chat.think.empty();
}

bool encodes_prompt(const mote_model_info& info) { return info.encodes != 0 && info.decodes != 0; }

// Of a model whose encoder reads the whole text.
Prompt make_input(const RunOptions& options, const Opened& opened, const std::string& words) {
  if (asks_for_chat(options))
    throw Failure{kWrongUsage,
                  "the model's encoder reads a text, it does not chat: --messages, --system, --chat-format and --think "
                  "mean nothing to it"};
  Prompt prompt{tokenize(opened.model.get(), words, MOTE_ADD_SPECIAL), words};
  if (prompt.ids.empty()) throw Failure{kWrongUsage, "the prompt is empty"};
  return prompt;
}

Prompt make_prompt(const RunOptions& options, const Opened& opened) {
  const mote_model* model = opened.model.get();
  Prompt prompt;
  const std::string words = options.prompt ? *options.prompt : options.file ? read_all(*options.file) : "";
  if (encodes_prompt(opened.info)) return make_input(options, opened, words);
  if (options.raw) {
    prompt.ids = tokenize_beginning(model, words);
    prompt.text = words;
    if (prompt.ids.empty()) throw Failure{kWrongUsage, "the prompt is empty, and the model has no start token"};
    return prompt;
  }
  std::vector<Message> messages;
  if (options.system) messages.push_back({"system", *options.system});
  if (!options.messages)
    messages.push_back({"user", words});
  else
    for (Message& message : read_messages(*options.messages)) messages.push_back(std::move(message));
  prompt.ids = chat_tokens(model, options.chat, messages);
  if (options.show_prompt) prompt.text = chat_text(model, options.chat, messages);
  return prompt;
}

// In pieces, so that progress can be shown; how a prompt is cut changes no bit of what follows. False: interrupted.
// `done` counts the tokens that were fed.
bool feed(mote_session* session, const std::vector<int32_t>& ids, size_t* done) {
  constexpr size_t kPiece = 512;
  Progress progress("prompt");
  mote_error error{};
  while (*done < ids.size()) {
    const size_t count = std::min(kPiece, ids.size() - *done);
    size_t fed = 0;
    const int32_t* next = ids.data() + *done;
    const mote_status status = count == ids.size() - *done
                                   ? mote_evaluate(session, next, count, nullptr, nullptr, &fed, &error)
                                   : mote_feed(session, next, count, &fed, &error);
    *done += fed;
    if (status == MOTE_CANCELLED) return false;
    check(status, error);
    if (ids.size() > kPiece) progress.show(*done, ids.size());
  }
  const mote_status status = mote_step(session, &error);
  if (status == MOTE_CANCELLED) return false;
  check(status, error);
  return true;
}

// The same of a model with an encoder: it reads the prompt at once, and the decoder begins with a token of its own.
bool encode(mote_session* session, int32_t start, const std::vector<int32_t>& ids, size_t* done) {
  mote_error error{};
  mote_status status = mote_encode(session, ids.data(), ids.size(), &error);
  if (status == MOTE_OK) *done = ids.size();
  if (status == MOTE_OK) status = mote_evaluate(session, &start, 1, nullptr, nullptr, nullptr, &error);
  if (status == MOTE_CANCELLED) return false;
  check(status, error);
  return true;
}

nlohmann::ordered_json per_second(double count, double milliseconds) {
  if (count <= 0 || milliseconds <= 0) return nullptr;
  return count * 1000 / milliseconds;
}

nlohmann::ordered_json timings_json(const Opened& opened, size_t prompt_tokens, double prompt_ms,
                                    const Answer& answer) {
  // The first token falls out of the prompt; each later one takes a step.
  const double steps = answer.sampled == 0 ? 0 : answer.sampled - 1.0;
  nlohmann::ordered_json first = nullptr;
  if (answer.sampled != 0) first = opened.load_ms + prompt_ms + answer.first_token_ms;
  return {{"load_ms", opened.load_ms},
          {"prompt_ms", prompt_ms},
          {"decode_ms", answer.decode_ms},
          {"first_token_ms", first},
          {"prompt_tokens", prompt_tokens},
          {"decode_tokens", answer.sampled},
          {"prompt_tokens_per_second", per_second(static_cast<double>(prompt_tokens), prompt_ms)},
          {"decode_tokens_per_second", per_second(steps, answer.decode_ms - answer.first_token_ms)}};
}

void answer_one(const RunOptions& options) {
  const Opened opened = open_model(options.common);
  check_decodes(opened);
  const int32_t start = encodes_prompt(opened.info) ? decoder_start_of(opened.info) : -1;
  const Prompt prompt = make_prompt(options, opened);
  const SamplerChain chain = make_chain(options.sampling);
  std::vector<const char*> stops;
  for (const std::string& stop : options.stops) stops.push_back(stop.c_str());
  mote_session_options session_options = run_session_options(options, chain, stops);
  if (encodes_prompt(opened.info)) session_options.max_batch = static_cast<uint32_t>(prompt.ids.size());
  const uint32_t context = context_of(session_options, opened.info);
  if (prompt.ids.size() > context)
    throw Failure{kFailed, "the prompt has " + std::to_string(prompt.ids.size()) + " tokens, the context " +
                               std::to_string(context) + " positions (--context)"};
  const Session session = open_session(opened, session_options);
  if (options.show_prompt && !options.json) write_prompt_text(prompt.text);

  const CancelOnInterrupt cancel(session.get());
  const Clock::time_point began = Clock::now();
  size_t fed = 0;
  const bool is_fed = encodes_prompt(opened.info) ? encode(session.get(), start, prompt.ids, &fed)
                                                  : feed(session.get(), prompt.ids, &fed);
  const double prompt_ms = milliseconds_since(began);
  Answer answer;
  answer.finish_reason = "interrupted";   // before it began
  if (is_fed)
    answer = generate(session.get(), options.limit, [&](std::string_view text) {
      if (!options.json) write_output(text);
      return true;
    });

  const nlohmann::ordered_json timings = timings_json(opened, fed, prompt_ms, answer);
  if (options.json) {
    nlohmann::ordered_json result = {{"text", answer.text},
                                     {"ids", answer.ids},
                                     {"prompt_ids", prompt.ids},
                                     {"finish_reason", answer.finish_reason},
                                     {"seed", nullptr},
                                     {"timings", timings},
                                     {"memory", quoted_memory_json(opened, options.common, session_options)},
                                     {"backends", backends_of(session.get())},
                                     {"fallbacks", mote_dev_session_fallbacks(session.get())}};
    if (!chain.greedy) result["seed"] = chain.seed;
    if (options.show_prompt) result["prompt"] = prompt.text;
    forget_interrupts();   // heard: the object is written in full, also for a slow reader; a second one ends that
    write_output(json_text(result) + "\n");
  } else if (answer.sampled != 0 && (answer.text.empty() || answer.text.back() != '\n')) {
    write_output("\n");
  }
  if (options.common.verbose) write_note("timings " + json_text(timings));
  if (answer.finish_reason == "context_full") write_note("the context is full: the answer ends here");
  if (answer.finish_reason == "interrupted") throw Failure{kInterrupted, ""};
}

void run(const RunOptions& options) {
  const bool has_prompt = options.prompt || options.file || options.messages;
  if (options.file && options.file->empty()) throw Failure{kWrongUsage, "--file: the path is empty"};
  if (options.messages && options.messages->empty()) throw Failure{kWrongUsage, "--messages: the path is empty"};
  if (options.raw && asks_for_chat(options))
    throw Failure{kWrongUsage,
                  "--raw continues a text: --messages, --system, --chat-format and --think mean nothing to it"};
  if (!has_prompt && (options.raw || options.json))
    throw Failure{kWrongUsage, "--raw and --json need a prompt: -p, -f or --messages"};
  if (options.keep && options.on_full != "slide")
    throw Failure{kWrongUsage, "--keep: only --on-full slide lets tokens go, and keeps some"};
  for (const std::string& stop : options.stops)
    if (stop.empty()) throw Failure{kWrongUsage, "--stop: an empty text would end every answer"};
  has_prompt ? answer_one(options) : chat(options);
}

}   // namespace

namespace {

// CLI11 takes an empty value of an optional for none at all.
std::function<void(const std::string&)> into(std::optional<std::string>& value) {
  return [&value](const std::string& text) { value = text; };
}

void add_prompt_options(CLI::App& command, RunOptions& options) {
  CLI::Option* prompt = command.add_option_function("-p,--prompt", into(options.prompt), "What the user says");
  CLI::Option* file = command.add_option_function("-f,--file", into(options.file),
                                                  "The same from a file, unchanged; - is standard input");
  CLI::Option* messages = command.add_option_function(
      "--messages", into(options.messages), "A conversation: JSON, [{\"role\": \"user\", \"content\": \"...\"}, ...]");
  prompt->excludes(file)->excludes(messages);
  file->excludes(messages);
  command.add_option_function("--system", into(options.system), "What the system says first");
}

}   // namespace

void add_run(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Answer a prompt, or chat when there is none");
  add_common_options(*command, options->common);
  add_decode_threads(*command, options->common);
  add_prompt_options(*command, *options);
  command->add_flag("--raw", options->raw, "Continue the text as it stands, without a chat format");
  command
      ->add_option("-n,--n-predict", options->limit,
                   "At most this many tokens; without it, until the end or a full context")
      ->transform(decimal(0, uint64_t{1} << 40));
  add_sampling_options(*command, options->sampling);
  command->add_option("--stop", options->stops, "End before this text (may be given again)")->allow_extra_args(false);
  command->add_option("--on-full", options->on_full, "What a full context does to the answer")
      ->check(CLI::IsMember({"stop", "slide"}))
      ->capture_default_str();
  command->add_option("--keep", options->keep, "slide: tokens at the start that stay")->transform(decimal(0, 1u << 30));
  command->add_option("--chat-format", options->chat.format, "Chat format by name, instead of the model's own")
      ->check(not_empty());
  command->add_option("--think", options->chat.think, "Whether the model thinks first, where its format has a switch")
      ->check(CLI::IsMember({"on", "off"}));
  command->add_flag("--show-prompt", options->show_prompt,
                    "Tell the whole prompt on standard error, in a chat at every turn");
  command->add_flag("--no-history", options->no_history,
                    "A chat on a terminal neither reads nor writes the file of questions asked before");
  command->add_flag("--json", options->json,
                    "One object: text, ids, prompt_ids, finish_reason, seed, timings, memory, backends, fallbacks");
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, options->json}; });
}

}   // namespace cli
