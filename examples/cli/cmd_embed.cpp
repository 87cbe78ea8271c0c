// mote embed: texts, or ids, to vectors: one for each text, or one for each token.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/cli/common.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/npy.h"
#include "examples/cli/numbers.h"
#include "examples/cli/output_file.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

struct EmbedOptions {
  CommonOptions common;
  std::vector<std::string> texts;
  std::string tokens, pool, output;
  bool has_tokens = false, has_output = false, raw = false;
};

struct PoolName {
  const char* name;
  mote_pooling pooling;
};
constexpr PoolName kPoolNames[] = {
    {"none", MOTE_POOLING_NONE}, {"mean", MOTE_POOLING_MEAN}, {"cls", MOTE_POOLING_CLS}, {"last", MOTE_POOLING_LAST}};

mote_pooling pooling_of(const EmbedOptions& options) {
  for (const PoolName& each : kPoolNames)
    if (options.pool == each.name) return each.pooling;
  return MOTE_POOLING_OF_MODEL;
}

// Rows of d_model values, of one input.
struct Rows {
  const float* values = nullptr;
  size_t rows = 0, d_model = 0;
};

std::vector<std::vector<int32_t>> inputs_of(const EmbedOptions& options, const Opened& opened) {
  std::vector<std::vector<int32_t>> inputs;
  if (options.has_tokens) inputs.push_back(parse_ids(options.tokens, "--tokens"));
  for (const std::string& text : options.texts) inputs.push_back(tokenize(opened.model.get(), text, MOTE_ADD_SPECIAL));
  for (const std::vector<int32_t>& ids : inputs)
    if (ids.empty()) throw Failure{kWrongUsage, "a text without tokens has no vector"};
  return inputs;
}

Rows encode(mote_session* session, const EmbedOptions& options, const std::vector<int32_t>& ids) {
  Rows found;
  mote_error error{};
  mote_status status = mote_encode(session, ids.data(), ids.size(), &error);
  if (status == MOTE_OK && options.pool == "none") {
    status = mote_hidden(session, &found.values, &found.rows, &found.d_model, &error);
  } else if (status == MOTE_OK) {
    found.rows = 1;
    status = mote_embedding(session, options.raw ? MOTE_EMBEDDING_RAW : 0, &found.values, &found.d_model, &error);
  }
  check(status, error);
  for (size_t i = 0; i < found.rows * found.d_model; ++i)
    if (!std::isfinite(found.values[i]))
      throw Failure{kFailed, "the hidden state of token " + std::to_string(i / found.d_model) + " is not finite"};
  return found;
}

// "[0.25,-1]": so many digits that the same float32 is read back.
std::string vector_text(const float* values, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%.9g", i == 0 ? "" : ",", static_cast<double>(values[i]));
    text += number;
  }
  return text + "]";
}

// A line for each input: its vector, or the list of its tokens' vectors.
std::string line_of(const Rows& rows, bool pooled) {
  if (pooled) return vector_text(rows.values, rows.d_model) + "\n";
  std::string text = "[";
  for (size_t row = 0; row < rows.rows; ++row)
    text += (row == 0 ? "" : ",") + vector_text(rows.values + row * rows.d_model, rows.d_model);
  return text + "]\n";
}

void run(const EmbedOptions& options) {
  if (options.texts.empty() != options.has_tokens)
    throw Failure{kWrongUsage, "what is to be embedded? Texts, or --tokens, and not both"};
  if (options.has_output && options.output.empty()) throw Failure{kWrongUsage, "--output: the path is empty"};
  if (options.has_tokens) parse_ids(options.tokens, "--tokens");   // wrong usage before the model is looked at
  if (options.has_output) check_output_is_not_model(options.output, options.common.model);
  mote_model_options model_options{};
  model_options.pooling = pooling_of(options);
  const Opened opened = open_model(options.common, model_options);
  if (opened.info.encodes == 0)
    throw Failure{kModelRefused, "the model has no encoder: mote run and mote logits continue its texts"};
  const std::vector<std::vector<int32_t>> inputs = inputs_of(options, opened);
  size_t longest = 0, total = 0;
  for (const std::vector<int32_t>& ids : inputs) longest = std::max(longest, ids.size()), total += ids.size();
  mote_session_options session_options = session_options_of(options.common, MOTE_KV_F32);
  if (session_options.context == 0) session_options.context = static_cast<uint32_t>(longest);
  if (longest > session_options.context)
    throw Failure{kFailed, "a text has " + std::to_string(longest) + " tokens, the context " +
                               std::to_string(session_options.context) + " positions (--context)"};
  session_options.max_batch = static_cast<uint32_t>(longest);   // an input is encoded at once
  const Session session = open_session(opened, session_options);
  const CancelOnInterrupt cancel(session.get());
  const bool pooled = options.pool != "none";
  if (!options.has_output) {
    for (const std::vector<int32_t>& ids : inputs) write_output(line_of(encode(session.get(), options, ids), pooled));
    return;
  }
  OutputFile file(options.output);
  bool has_header = false;
  for (const std::vector<int32_t>& ids : inputs) {
    const Rows rows = encode(session.get(), options, ids);
    if (!has_header) file.write(npy_header({pooled ? inputs.size() : total, rows.d_model}));
    has_header = true;
    file.write({reinterpret_cast<const char*>(rows.values), rows.rows * rows.d_model * sizeof(float)});
  }
  file.finish();
}

}   // namespace

void add_embed(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<EmbedOptions>();
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors, one JSON array a line");
  add_common_options(*command, options->common);
  command->add_option("text", options->texts, "The texts");
  CLI::Option* tokens = command->add_option("--tokens", options->tokens,
                                            "Instead of texts: one input as token ids with commas between them, as "
                                            "they stand");
  command
      ->add_option("--pool", options->pool,
                   "How a text becomes one vector; none: a vector for each token. Without it, as the model says")
      ->check(CLI::IsMember({"mean", "cls", "last", "none"}));
  command->add_flag("--raw", options->raw, "Vectors as they are pooled, not divided by their length");
  CLI::Option* output = command->add_option(
      "-o,--output", options->output,
      "A .npy file instead: float32 [n_texts, d_model], with --pool none [n_tokens of all, d_model]");
  command->callback([options, tokens, output, &chosen] {
    options->has_tokens = tokens->count() != 0;
    options->has_output = output->count() != 0;
    chosen = {[options] { run(*options); }, false};
  });
}

}   // namespace cli
