#include "examples/cli/generate.h"

#include <charconv>
#include <cmath>
#include <random>

#include "examples/cli/interrupt.h"
#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

constexpr int32_t kPenaltyWindow = 64;   // tokens that the repeat, presence and frequency penalties look back at

mote_logit_bias parse_bias(const std::string& text) {
  const char* end = text.data() + text.size();
  int32_t token = 0;
  float bias = 0;
  auto result = std::from_chars(text.data(), end, token);
  bool good = result.ec == std::errc() && token >= 0 && result.ptr != end && *result.ptr == ':';
  if (good) {
    result = std::from_chars(result.ptr + 1, end, bias);
    good = result.ec == std::errc() && result.ptr == end && !std::isnan(bias);
  }
  if (!good) throw Failure{kWrongUsage, "--logit-bias: '" + text + "' is not ID:VALUE"};
  return {token, bias};
}

}   // namespace

void add_sampling_options(CLI::App& command, SamplingOptions& options) {
  auto number = [&](const char* name, double& value, const char* help, double least, double most) {
    command.add_option(name, value, help)->check(number_between(least, most))->capture_default_str();
  };
  number("--temp", options.temperature, "Temperature; 0 always takes the most probable token", 0, 1000);
  command.add_option("--top-k", options.top_k, "Keep this many tokens; 0 keeps all")
      ->transform(decimal(0, 1 << 30))
      ->capture_default_str();
  number("--top-p", options.top_p, "Keep the smallest set with this mass; 1 keeps all", 0, 1);
  number("--min-p", options.min_p, "Keep tokens with this share of the largest probability; 0 keeps all", 0, 1);
  command.add_option("--typical", options.typical, "Keep the most typical tokens with this mass; 1 keeps all")
      ->check(number_above(0, 1))   // as the library has it
      ->capture_default_str();
  number("--repeat-penalty", options.repeat_penalty, "Penalty for tokens among the last 64; 1 is none", 0.001, 1000);
  number("--presence-penalty", options.presence_penalty, "Subtracted once for a token among the last 64", -1000, 1000);
  number("--frequency-penalty", options.frequency_penalty, "Subtracted for each occurrence among the last 64", -1000,
         1000);
  command.add_option("--logit-bias", options.logit_bias, "ID:VALUE is added to a token's logit; -inf forbids it")
      ->allow_extra_args(false);
  command.add_option("--seed", options.seed, "Seed of the choice; a random one is told on standard error")
      ->transform(decimal(0, UINT64_MAX));
}

void SamplerChain::put_into(mote_session_options& options) const {
  options.samplers = stages.data();
  options.n_samplers = stages.size();
  options.logit_bias = bias.data();
  options.n_logit_bias = bias.size();
  options.seed = seed;
}

SamplerChain make_chain(const SamplingOptions& options) {
  SamplerChain chain;
  auto add = [&](mote_sampler_kind kind, int32_t count, double value, double value2 = 0) {
    chain.stages.push_back({kind, count, value, value2});
  };
  for (const std::string& text : options.logit_bias) chain.bias.push_back(parse_bias(text));
  if (!chain.bias.empty()) add(MOTE_SAMPLER_LOGIT_BIAS, 0, 0);
  if (options.repeat_penalty != 1) add(MOTE_SAMPLER_REPETITION_PENALTY, kPenaltyWindow, options.repeat_penalty);
  if (options.presence_penalty != 0 || options.frequency_penalty != 0)
    add(MOTE_SAMPLER_FREQUENCY_PRESENCE, kPenaltyWindow, options.frequency_penalty, options.presence_penalty);
  chain.greedy = options.temperature == 0;
  if (chain.greedy) {
    add(MOTE_SAMPLER_GREEDY, 0, 0);
    chain.seed = options.seed.value_or(0);
    return chain;
  }
  if (options.top_k != 0) add(MOTE_SAMPLER_TOP_K, options.top_k, 0);
  if (options.typical != 1) add(MOTE_SAMPLER_TYPICAL_P, 0, options.typical);
  if (options.top_p != 1) add(MOTE_SAMPLER_TOP_P, 0, options.top_p);
  if (options.min_p != 0) add(MOTE_SAMPLER_MIN_P, 0, options.min_p);
  add(MOTE_SAMPLER_TEMPERATURE, 0, options.temperature);
  if (options.seed) {
    chain.seed = *options.seed;
  } else {
    chain.seed = std::random_device()();   // 32 bits: every JSON reader keeps them exactly
    write_note("seed " + std::to_string(chain.seed));
  }
  return chain;
}

namespace {

// The calls for chat prompts have the same manner of buffers: ask, and ask again with the size that came back.
// A format that the user named is the user's mistake, a model without one is the model's.
template <class Buffer, class Call>
Buffer ask_twice(size_t guess, const std::string& format, Call&& call) {
  Buffer buffer;
  size_t count = guess;
  mote_error error{};
  mote_status status = MOTE_BUFFER_TOO_SMALL;
  for (int attempt = 0; attempt < 2 && status == MOTE_BUFFER_TOO_SMALL; ++attempt) {
    buffer.resize(count);
    status = call(buffer, &count, &error);
  }
  if (status == MOTE_UNSUPPORTED && format.empty())
    throw Failure{kModelRefused, std::string(error.message) + " (--chat-format NAME, --raw)", status};
  check(status, error, status == MOTE_UNSUPPORTED ? kWrongUsage : kFailed);
  buffer.resize(count);
  return buffer;
}

std::vector<mote_message> as_plain(const std::vector<Message>& messages) {
  std::vector<mote_message> plain;
  for (const Message& m : messages) plain.push_back({m.role.c_str(), m.content.data(), m.content.size()});
  return plain;
}

mote_chat_options as_plain(const ChatOptions& options) {
  mote_chat_options plain{};
  plain.struct_bytes = sizeof plain;
  plain.format = options.format.empty() ? nullptr : options.format.c_str();
  if (!options.think.empty()) plain.thinking = options.think == "on" ? MOTE_THINKING_ON : MOTE_THINKING_OFF;
  return plain;
}

size_t guess_bytes(const std::vector<Message>& messages) {
  size_t bytes = 256;
  for (const Message& m : messages) bytes += m.role.size() + m.content.size() + 64;
  return bytes;
}

}   // namespace

bool cancelled_before(mote_status status) { return status == MOTE_CANCELLED && !interrupted(); }

std::vector<int32_t> chat_tokens(const mote_model* model, const ChatOptions& options,
                                 const std::vector<Message>& messages, bool asks) {
  require_tokenizer(model);
  const std::vector<mote_message> plain = as_plain(messages);
  mote_chat_options asked = as_plain(options);
  asked.no_generation_prompt = asks ? 0 : 1;
  return ask_twice<std::vector<int32_t>>(guess_bytes(messages), options.format,
                                         [&](std::vector<int32_t>& ids, size_t* count, mote_error* error) {
                                           return mote_chat_tokens(model, &asked, plain.data(), plain.size(),
                                                                   {nullptr, 0}, ids.data(), ids.size(), count, error);
                                         });
}

std::string chat_text(const mote_model* model, const ChatOptions& options, const std::vector<Message>& messages) {
  const std::vector<mote_message> plain = as_plain(messages);
  const mote_chat_options asked = as_plain(options);
  return ask_twice<std::string>(
      guess_bytes(messages), options.format, [&](std::string& text, size_t* bytes, mote_error* error) {
        return mote_chat_text(model, &asked, plain.data(), plain.size(), text.data(), text.size(), bytes, error);
      });
}

Answer generate(mote_session* session, int64_t limit, const std::function<bool(std::string_view)>& show) {
  Answer answer;
  mote_error error{};
  bool shown = true;
  auto take = [&](const mote_text& text) {
    answer.text.append(text.bytes, text.n_bytes);
    if (text.n_bytes != 0 && shown) shown = show({text.bytes, text.n_bytes});
  };
  const Clock::time_point start = Clock::now();
  while (answer.finish_reason.empty() && (limit < 0 || answer.sampled < static_cast<uint64_t>(limit))) {
    mote_text text{};
    text.struct_bytes = sizeof text;
    const mote_status status = mote_text_next(session, &text, &error);
    if (cancelled_before(status)) continue;
    if (status == MOTE_CANCELLED) {
      answer.finish_reason = "interrupted";
      break;
    }
    check(status, error);
    if (text.token >= 0 && answer.sampled++ == 0) answer.first_token_ms = milliseconds_since(start);
    if (text.token >= 0 && text.finish != MOTE_FINISH_END_TOKEN) answer.ids.push_back(text.token);
    take(text);
    if (text.finish == MOTE_FINISH_END_TOKEN) answer.finish_reason = "end_token";
    if (text.finish == MOTE_FINISH_STOP_STRING) answer.finish_reason = "stop_string";
    if (text.finish == MOTE_FINISH_CONTEXT_FULL) answer.finish_reason = "context_full";
    if (!shown) answer.finish_reason = "interrupted";
  }
  answer.decode_ms = milliseconds_since(start);
  if (answer.finish_reason.empty()) answer.finish_reason = "length";
  if (answer.finish_reason == "length" || answer.finish_reason == "interrupted") {
    mote_text held{};
    held.struct_bytes = sizeof held;
    check(mote_text_flush(session, &held, &error), error);
    take(held);
  }
  return answer;
}

}   // namespace cli
