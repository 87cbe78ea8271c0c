// The options of mote run, which is also the chat.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "examples/cli/generate.h"

namespace cli {

struct RunOptions {
  CommonOptions common;
  SamplingOptions sampling;
  std::optional<std::string> prompt, file, messages, system;   // an empty one was given, too
  ChatOptions chat;
  bool raw = false, show_prompt = false, json = false, no_history = false;
  int64_t limit = -1;   // tokens; below 0: until the end or a full context
  std::vector<std::string> stops;
  std::string on_full = "stop";
  std::optional<uint32_t> keep;
};

// The session options that these stand for. `chain` and `stops` must outlive what is returned.
mote_session_options run_session_options(const RunOptions& options, const SamplerChain& chain,
                                         const std::vector<const char*>& stops);

// Turns until the input ends.
void chat(const RunOptions& options);

}   // namespace cli
