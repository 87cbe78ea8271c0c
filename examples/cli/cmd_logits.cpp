// mote logits: the logits after each of some tokens, float32 [n_tokens, n_vocab], computed and written in slices.
#include <algorithm>
#include <cmath>
#include <optional>

#include "examples/cli/common.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/npy.h"
#include "examples/cli/numbers.h"
#include "examples/cli/output_file.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

constexpr uint64_t kSliceBytes = uint64_t{16} << 20;   // of logits held at once

struct LogitsOptions {
  CommonOptions common;
  std::string tokens, decoder_tokens, output;
  uint32_t batch = 0;
};

struct Writer {
  OutputFile* file;
  Progress* progress;
  size_t total;
  std::exception_ptr failure{};
  std::optional<size_t> bad_row{};   // the first with a NaN or an infinity
};

// Called from inside the library, which no exception may cross.
int32_t write_rows(void* user, size_t first, size_t rows, const float* logits, size_t n_vocab) {
  Writer* writer = static_cast<Writer*>(user);
  try {
    writer->file->write({reinterpret_cast<const char*>(logits), rows * n_vocab * sizeof(float)});
    const auto finite = [](float value) { return std::isfinite(value); };
    for (size_t row = 0; row < rows && !writer->bad_row; ++row)
      if (!std::all_of(logits + row * n_vocab, logits + (row + 1) * n_vocab, finite)) writer->bad_row = first + row;
    writer->progress->show(first + rows, writer->total);
    return 0;
  } catch (...) {
    writer->failure = std::current_exception();
    return 1;
  }
}

// What an encoder reads, and the tokens whose logits are wanted.
struct Ids {
  std::vector<int32_t> input, tokens;
};

Ids ids_of(const LogitsOptions& options, const mote_model_info& info) {
  Ids ids{{}, parse_ids(options.tokens, "--tokens")};
  const bool reads_input = info.encodes != 0 && info.decodes != 0;
  if (reads_input == options.decoder_tokens.empty())
    throw Failure{kWrongUsage, reads_input ? "the model has an encoder, which --tokens are for, and a decoder: "
                                             "--decoder-tokens are missing"
                                           : "--decoder-tokens are for a model with an encoder and a decoder"};
  if (reads_input) ids = {std::move(ids.tokens), parse_ids(options.decoder_tokens, "--decoder-tokens")};
  if (ids.tokens.empty() || (reads_input && ids.input.empty()))
    throw Failure{kWrongUsage, "--tokens: there are no token ids"};
  return ids;
}

void run(const LogitsOptions& options) {
  parse_ids(options.tokens, "--tokens");   // wrong usage before the model is looked at
  const Opened opened = open_model(options.common);
  check_decodes(opened);
  const Ids all = ids_of(options, opened.info);
  const std::vector<int32_t>& ids = all.tokens;
  mote_session_options session_options = session_options_of(options.common, MOTE_KV_F32);
  const auto n_input = static_cast<uint32_t>(all.input.size());
  if (session_options.context == 0) session_options.context = std::max(static_cast<uint32_t>(ids.size()), n_input);
  if (ids.size() > session_options.context)
    throw Failure{kFailed, "there are " + std::to_string(ids.size()) + " token ids, the context has " +
                               std::to_string(session_options.context) + " positions (--context)"};
  session_options.max_batch =
      std::min(std::max(options.batch == 0 ? 512 : options.batch, n_input), session_options.context);
  const uint64_t row_bytes = std::max<uint64_t>(1, opened.info.n_vocab) * sizeof(float);
  session_options.max_output_rows =
      static_cast<uint32_t>(std::clamp<uint64_t>(kSliceBytes / row_bytes, 1, session_options.max_batch));
  const Session session = open_session(opened, session_options);

  check_output_is_not_model(options.output, options.common.model);
  OutputFile file(options.output);
  file.write(npy_header({ids.size(), opened.info.n_vocab}));
  Progress progress("logits");
  Writer writer{&file, &progress, ids.size()};
  mote_error error{};
  const CancelOnInterrupt cancel(session.get());
  mote_status status = MOTE_OK;
  if (n_input != 0) status = mote_encode(session.get(), all.input.data(), n_input, &error);
  if (status == MOTE_OK)
    status = mote_evaluate(session.get(), ids.data(), ids.size(), write_rows, &writer, nullptr, &error);
  if (writer.failure) std::rethrow_exception(writer.failure);
  check(status, error);
  file.finish();
  progress.clear();
  if (writer.bad_row)
    throw Failure{kFailed, options.output + " is written, but has values that are not finite; the first are in row " +
                               std::to_string(*writer.bad_row)};
}

}   // namespace

void add_logits(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = app.add_subcommand("logits", "Write the logits after each token to a .npy file");
  add_common_options(*command, options->common);
  command->add_option("--tokens", options->tokens, "Token ids with commas between them, fed as they stand")->required();
  command->add_option(
      "--decoder-tokens", options->decoder_tokens,
      "For a model with an encoder and a decoder: what the decoder is fed; --tokens are then the input");
  command->add_option("--batch", options->batch, "Tokens computed at once (512)")->transform(decimal(1, 1u << 20));
  command->add_option("-o,--output", options->output, "The .npy file: float32 [n_tokens, n_vocab]")->required();
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, false}; });
}

}   // namespace cli
