// mote perplexity: how well the model foresees a text. The definition is llama-perplexity's: the text's tokens are cut
// into chunks of CTX; in each, the start token takes the place of the first one where the model adds it, and the second
// half is scored: tokens CTX/2 + 1 to CTX - 1, each given all before it in the chunk.
#include <algorithm>
#include <cmath>

#include "examples/cli/common.h"
#include "examples/cli/input.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

struct PerplexityOptions {
  CommonOptions common;
  std::string file;
  uint32_t max_chunks = 0;
  bool json = false;
};

// Sums of the negative log-likelihoods and of their squares.
struct Score {
  const int32_t* next = nullptr;   // next[i] is the token that follows row i of the current call
  double sum = 0, squares = 0;
  uint64_t count = 0;
  bool finite = true;
  double mean() const { return sum / static_cast<double>(count); }
  double perplexity() const { return std::exp(mean()); }
  // Of the perplexity, from the spread of the tokens' values; not defined for a single one.
  double standard_error() const {
    if (count < 2) return std::nan("");
    const double variance = squares / static_cast<double>(count) - mean() * mean();
    return perplexity() * std::sqrt(std::max(variance, 0.0) / static_cast<double>(count - 1));
  }
};

int32_t score_rows(void* user, size_t first, size_t rows, const float* logits, size_t n_vocab) {
  Score* score = static_cast<Score*>(user);
  for (size_t row = 0; row < rows; ++row, logits += n_vocab) {
    const double largest = *std::max_element(logits, logits + n_vocab);
    double sum = 0;
    for (size_t i = 0; i < n_vocab; ++i) sum += std::exp(logits[i] - largest);
    const double value = largest + std::log(sum) - logits[score->next[first + row]];
    if (!std::isfinite(value)) {
      score->finite = false;
      return 1;
    }
    score->sum += value;
    score->squares += value * value;
    ++score->count;
  }
  return 0;
}

void score_chunk(mote_session* session, const int32_t* ids, uint32_t context, Score* score) {
  const uint32_t half = context / 2;
  mote_error error{};
  check(mote_rewind(session, 0, &error), error);
  check(mote_feed(session, ids, half, nullptr, &error), error);
  score->next = ids + half + 1;
  const mote_status status = mote_evaluate(session, ids + half, context - 1 - half, score_rows, score, nullptr, &error);
  if (!score->finite)
    throw Failure{kFailed, "the model gives logits that are not finite, after " + std::to_string(score->count) +
                               " tokens scored"};
  check(status, error);
}

nlohmann::ordered_json result_json(const Score& score, size_t chunks, uint32_t context, const mote_session* session) {
  return {{"perplexity", score.perplexity()},
          {"standard_error", score.standard_error()},
          {"negative_log_likelihood", score.mean()},
          {"tokens_scored", score.count},
          {"chunks", chunks},
          {"context", context},
          {"backends", backends_of(session)}};
}

void run(const PerplexityOptions& options) {
  if (options.file.empty()) throw Failure{kWrongUsage, "--file: the path is empty"};
  const std::string text = read_all(options.file);
  const Opened opened = open_text_model(options.common);
  const uint32_t context = options.common.context == 0 ? 512 : options.common.context;
  if (context < 4) throw Failure{kWrongUsage, "--context: a chunk needs at least 4 tokens"};
  std::vector<int32_t> ids = tokenize_beginning(opened.model.get(), text);
  size_t chunks = ids.size() / context;
  if (chunks == 0)
    throw Failure{kFailed, options.file + " has " + std::to_string(ids.size()) + " tokens, one chunk needs " +
                               std::to_string(context)};
  if (options.max_chunks != 0) chunks = std::min<size_t>(chunks, options.max_chunks);

  mote_session_options session_options = session_options_of(options.common, MOTE_KV_F32);
  session_options.context = context;
  session_options.max_output_rows = std::min(context, 16u);
  const Session session = open_session(opened, session_options);
  const CancelOnInterrupt cancel(session.get());
  Score score;
  Progress progress("perplexity");
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    int32_t* first = ids.data() + chunk * context;
    if (opened.info.adds_bos != 0) *first = opened.info.bos_token;
    score_chunk(session.get(), first, context, &score);
    progress.show(chunk + 1, chunks);
  }
  progress.clear();
  if (options.json) return write_output(json_text(result_json(score, chunks, context, session.get())) + "\n");
  char line[160];
  std::snprintf(line, sizeof line, "perplexity %.4f +/- %.5f (%llu tokens scored in %llu chunks of %u)\n",
                score.perplexity(), score.standard_error(), static_cast<unsigned long long>(score.count),
                static_cast<unsigned long long>(chunks), context);
  write_output(line);
}

}   // namespace

void add_perplexity(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command =
      app.add_subcommand("perplexity", "Measure the perplexity of a text, as llama-perplexity defines it");
  add_common_options(*command, options->common);
  command->add_option("-f,--file", options->file, "The text; - is standard input")->required();
  command->add_option("--chunks", options->max_chunks, "At most this many chunks")->transform(decimal(1, 1u << 30));
  command->add_flag("--json", options->json, "One object");
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, options->json}; });
}

}   // namespace cli
