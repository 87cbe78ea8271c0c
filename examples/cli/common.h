// What the commands share: the options that open a model, the handles of mote.h as values, and small helpers.
#pragma once
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/mote.h"
#include "core/mote_dev.h"
#include "examples/cli/failure.h"

namespace cli {

// The command that the arguments chose. `json`: its output is JSON, and so is the record of its failure.
struct Chosen {
  std::function<void()> run;
  bool json = false;
};

// One function per command, each in its cmd_*.cpp: adds the subcommand and sets `chosen` when it is the one.
void add_run(CLI::App& app, Chosen& chosen);
void add_info(CLI::App& app, Chosen& chosen);
void add_tokenize(CLI::App& app, Chosen& chosen);
void add_detokenize(CLI::App& app, Chosen& chosen);
void add_logits(CLI::App& app, Chosen& chosen);
void add_embed(CLI::App& app, Chosen& chosen);
void add_attention(CLI::App& app, Chosen& chosen);
void add_perplexity(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);

struct CommonOptions {
  std::string model;
  std::string backends = "auto";
  uint32_t threads = 0;          // 0: the engine's default
  uint32_t decode_threads = 0;   // 0: all of them
  uint32_t context = 0;          // 0: the session's default
  std::string kv_type;           // empty: the command's default
  std::string instruction_set;   // empty: what MOTE_CPU_ISA says
  bool prefault = false;
  bool verbose = false;
};
void add_model_option(CLI::App& command, CommonOptions& options);
// -m and everything about how the model is run, but for how many threads.
void add_options_but_threads(CLI::App& command, CommonOptions& options);
// With that.
void add_common_options(CLI::App& command, CommonOptions& options);
// For a command that decodes.
void add_decode_threads(CLI::App& command, CommonOptions& options);

struct CloseHandle {
  void operator()(mote_engine* engine) const { mote_engine_close(engine, nullptr); }
  void operator()(mote_model* model) const { mote_model_close(model, nullptr); }
  void operator()(mote_session* session) const { mote_session_close(session, nullptr); }
};
using Engine = std::unique_ptr<mote_engine, CloseHandle>;
using Model = std::unique_ptr<mote_model, CloseHandle>;
using Session = std::unique_ptr<mote_session, CloseHandle>;

using Clock = std::chrono::steady_clock;
inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// An engine and the model on it. Failures to open the file or to make sense of it are kModelRefused.
struct Opened {
  Engine engine;
  Model model;
  mote_model_info info{};
  double load_ms = 0;
};
Opened open_model(const CommonOptions& options, const mote_model_options& model_options = {});
// The same for a command that continues a text and gives no encoder its input.
Opened open_text_model(const CommonOptions& options);
// A model that only encodes says nothing: refused.
void check_decodes(const Opened& opened);
// What a decoder that reads an encoder is fed first. Failure: the model names no such token.
int32_t decoder_start_of(const mote_model_info& info);
Opened open_vocabulary(const std::string& path);

// The source of a model's file. Where its name says that it is the first of several (model-00001-of-00003.gguf), those
// follow it in the chain, each by its name beside the first. Failure: the name is that of a later part.
class Sources {
 public:
  explicit Sources(const std::string& path, mote_load load = MOTE_LOAD_MAP);
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;
  const mote_source* first() const { return chain_.data(); }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::vector<std::string> paths_;
  std::vector<mote_source> chain_;
};
mote_model_info info_of(const mote_model* model);

// The session options that the common ones stand for; `default_kv` where --kv-type was not given (the oracle keeps
// f32).
mote_session_options session_options_of(const CommonOptions& options, mote_kv_type default_kv);
// Opens it, and warns when its context is longer than the model was trained for.
Session open_session(const Opened& opened, const mote_session_options& options);
// The backends that run it now, in the order of its steps; those of the engine that run none are not among them.
std::vector<std::string> backends_of(const mote_session* session);
// Positions that a session with these options has.
uint32_t context_of(const mote_session_options& options, const mote_model_info& info);

// auto or baseline.
const char* instruction_set_of(const CommonOptions& options);
// The engine options that the common ones stand for; views into them.
mote_engine_options engine_options_of(const CommonOptions& options);

// Throws kModelRefused when the model has no tokenizer; so do the three below.
void require_tokenizer(const mote_model* model);
std::vector<int32_t> tokenize(const mote_model* model, std::string_view text, uint32_t flags);
// A text that is to be continued: with the start token that the model wants, without an end token behind it.
std::vector<int32_t> tokenize_beginning(const mote_model* model, std::string_view text);
std::string detokenize(const mote_model* model, const std::vector<int32_t>& ids);

// Throws kWrongUsage when both are one file.
void check_output_is_not_model(const std::string& output, const std::string& model);

// Bytes that a quote names, kind by kind.
nlohmann::ordered_json quote_json(const mote_quote& quote);
// Memory of this process as Linux counts it; null where it cannot be read.
nlohmann::ordered_json process_memory();

// What was quoted for all three, and what the process takes.
nlohmann::ordered_json quoted_memory_json(const Opened& opened, const CommonOptions& options,
                                          const mote_session_options& session_options);

// JSON text; bytes that are not UTF-8 become U+FFFD, numbers that are not finite become null. `ascii`: everything else
// is
// \u1234, so that text out of a file cannot steer a terminal.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1, bool ascii = false);
// "513.4 MiB"
std::string human_bytes(uint64_t bytes);

}   // namespace cli
