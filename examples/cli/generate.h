// Choosing tokens and turning them into text: what run and chat share.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/cli/common.h"
#include "examples/cli/input.h"

namespace cli {

struct SamplingOptions {
  double temperature = 0.8, top_p = 0.95, min_p = 0.05, typical = 1;
  int32_t top_k = 40;
  double repeat_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::string> logit_bias;   // "ID:VALUE"
  std::optional<uint64_t> seed;
};
void add_sampling_options(CLI::App& command, SamplingOptions& options);

// The stages in the order that llama.cpp uses by default: bias, penalties, top-k, typical, top-p, min-p, temperature.
struct SamplerChain {
  std::vector<mote_sampler> stages;
  std::vector<mote_logit_bias> bias;
  uint64_t seed = 0;
  bool greedy = false;
  void put_into(mote_session_options& options) const;
};
// Draws a seed, and tells it on standard error, where none was given and one matters.
SamplerChain make_chain(const SamplingOptions& options);

struct ChatOptions {
  std::string format;   // "": the model's own
  std::string think;    // on, off, or "": as the format has it
};
// A conversation as token ids in the chat format, up to where the answer begins, or without that where nobody asks.
std::vector<int32_t> chat_tokens(const mote_model* model, const ChatOptions& options,
                                 const std::vector<Message>& messages, bool asks = true);
std::string chat_text(const mote_model* model, const ChatOptions& options, const std::vector<Message>& messages);

struct Answer {
  std::string text;
  std::vector<int32_t> ids;    // without the end token
  std::string finish_reason;   // end_token, stop_string, length, context_full, interrupted
  uint32_t sampled = 0;        // the end token included
  double first_token_ms = 0, decode_ms = 0;
};

// True for the answer of a call that a Ctrl-C of an earlier turn cancelled, having come after that turn's last call: to
// be called again.
bool cancelled_before(mote_status status);

// Samples up to `limit` tokens (below 0: without end) and hands new text to `show` as it comes, until that returns
// false: interrupted.
Answer generate(mote_session* session, int64_t limit, const std::function<bool(std::string_view)>& show);

}   // namespace cli
