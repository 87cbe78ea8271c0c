// mote attention: what each token looks at, as a page of heat maps or as numbers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "examples/cli/attention_page.h"
#include "examples/cli/common.h"
#include "examples/cli/input.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/npy.h"
#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

constexpr uint64_t kMostBytes = uint64_t{2} << 30;   // of weights, which are all held at once
constexpr uint32_t kDefaultBatch = 64;               // the session holds so many rows of every layer

struct AttentionOptions {
  CommonOptions common;
  std::string prompt, file, tokens, decoder_tokens, attention, output;
  bool has_prompt = false, has_file = false, has_tokens = false, has_decoder_tokens = false;
  std::optional<uint32_t> layer, head;
  uint32_t batch = kDefaultBatch, n_predict = 32;
};

struct TapName {
  const char* name;
  mote_tap tap;
};
constexpr TapName kTapNames[] = {{"decoder", MOTE_TAP_DECODER_ATTENTION},
                                 {"encoder", MOTE_TAP_ENCODER_ATTENTION},
                                 {"cross", MOTE_TAP_CROSS_ATTENTION}};

bool writes_page(const AttentionOptions& options) { return options.output.ends_with(".html"); }

// What is wrong with the arguments by themselves, before the model is looked at.
void check_usage(const AttentionOptions& options) {
  if (options.has_prompt + options.has_file + options.has_tokens != 1)
    throw Failure{kWrongUsage, "what is to be looked at? One of -p, -f and --tokens"};
  if (options.has_tokens) parse_ids(options.tokens, "--tokens");
  if (options.has_decoder_tokens && parse_ids(options.decoder_tokens, "--decoder-tokens").empty())
    throw Failure{kWrongUsage,
                  "--decoder-tokens: there are no token ids; without the option, the decoder says its own"};
  if (!writes_page(options) && !options.output.ends_with(".npy"))
    throw Failure{kWrongUsage, "-o: the name must end with .html or .npy"};
  if (options.head && !options.layer) throw Failure{kWrongUsage, "--head is of one --layer, which is missing"};
}

TapName attention_of(const AttentionOptions& options, const mote_model_info& info) {
  for (const TapName& each : kTapNames)
    if (options.attention == each.name) return each;
  return info.encodes == 0 ? kTapNames[0] : info.decodes == 0 ? kTapNames[1] : kTapNames[2];
}

std::string of_kind(const AttentionOptions& options) {
  return options.attention.empty() ? "" : " (--attention " + options.attention + ")";
}

// A model without what is to be looked at is refused when it opens; without the taps it then does open.
Opened open_tapped(const AttentionOptions& options) {
  mote_model_options model_options{};
  for (const TapName& each : kTapNames)
    if (options.attention.empty() || options.attention == each.name) model_options.taps |= each.tap;
  model_options.tap_first_layer = options.layer.value_or(0);
  model_options.tap_layers = options.layer ? 1 : 0;
  try {
    return open_model(options.common, model_options);
  } catch (const Failure& failure) {
    if (failure.status != MOTE_INVALID_ARGUMENT) throw;
  }
  open_model(options.common);
  throw Failure{kWrongUsage, options.layer ? "--layer is " + std::to_string(*options.layer) +
                                                 "; the model has no such attention there" + of_kind(options)
                                           : "the model has no such attention" + of_kind(options)};
}

// What the encoder reads, and what the decoder is fed; the second may be empty where it is to be generated.
struct AttentionIds {
  std::vector<int32_t> input, tokens;
};

AttentionIds ids_of(const AttentionOptions& options, const Opened& opened) {
  const bool encodes = opened.info.encodes != 0, decodes = opened.info.decodes != 0;
  std::vector<int32_t> ids;
  if (options.has_tokens) {
    ids = parse_ids(options.tokens, "--tokens");
  } else {
    const std::string text = options.has_file ? read_all(options.file) : options.prompt;
    ids = encodes ? tokenize(opened.model.get(), text, MOTE_ADD_SPECIAL) : tokenize_beginning(opened.model.get(), text);
  }
  if (ids.empty()) throw Failure{kWrongUsage, "a text without tokens looks at nothing"};
  if (options.has_decoder_tokens && !(encodes && decodes))
    throw Failure{kWrongUsage, "--decoder-tokens are for a model with an encoder and a decoder"};
  if (!encodes) return {{}, std::move(ids)};
  if (!options.has_decoder_tokens) return {std::move(ids), {}};
  return {std::move(ids), parse_ids(options.decoder_tokens, "--decoder-tokens")};
}

void feed_ids(mote_session* session, const int32_t* ids, size_t n) {
  mote_error error{};
  check(mote_feed(session, ids, n, nullptr, &error), error);
}

// Adds to `ids`, of one token, what a greedy decoder says to the input, as it is fed to it; the session is then at its
// beginning again.
void say_greedily(const Opened& opened, mote_session* session, uint32_t most, std::vector<int32_t>& ids) {
  mote_error error{};
  feed_ids(session, ids.data(), 1);
  while (ids.size() <= most) {
    int32_t token = -1;
    check(mote_next(session, &token, &error), error);
    if (mote_is_end_token(opened.model.get(), token) != 0) break;
    ids.push_back(token);
  }
  check(mote_rewind(session, 0, &error), error);
}

// Collects the weights of one kind of attention, batch by batch.
class Collector {
 public:
  Collector(mote_session* session, TapName tap, const AttentionOptions& options)
      : session_(session), tap_(tap), options_(options) {}

  // After a batch was run. The first one tells layers and heads.
  void take_batch(size_t n_rows, size_t n_columns, AttentionMaps* maps) {
    if (maps->layers.empty()) begin(n_rows, n_columns, maps);
    View view;
    for (size_t layer = 0; layer < maps->layers.size(); ++layer) {
      view = look(maps->layers[layer]);
      for (size_t row = 0; row < view.rows; ++row) {
        for (size_t head = 0; head < maps->heads.size(); ++head) {
          const float* from = view.weights + (row * view.heads + maps->heads[head]) * view.positions;
          float* to = maps->weights.data() + ((layer * maps->heads.size() + head) * n_rows + taken_ + row) * n_columns;
          std::copy(from, from + view.positions, to);
        }
      }
    }
    taken_ += view.rows;
  }

 private:
  struct View {
    const float* weights = nullptr;
    size_t rows = 0, heads = 0, positions = 0;
  };
  mote_status try_look(uint32_t layer, View* view, mote_error* error) const {
    return mote_attention(session_, tap_.tap, layer, &view->weights, &view->rows, &view->heads, &view->positions,
                          error);
  }
  View look(uint32_t layer) const {
    View view;
    mote_error error{};
    check(try_look(layer, &view, &error), error);
    return view;
  }

  void begin(size_t n_rows, size_t n_columns, AttentionMaps* maps) const {
    size_t n_heads = 0;
    View view;
    for (uint32_t layer = options_.layer.value_or(0);; ++layer) {
      if (!maps->layers.empty() && (options_.layer || try_look(layer, &view, nullptr) == MOTE_INVALID_ARGUMENT)) break;
      view = look(layer);
      if (n_heads != 0 && n_heads != view.heads)
        throw Failure{kFailed, "layers with " + std::to_string(n_heads) + " heads and with " +
                                   std::to_string(view.heads) + " do not make one array; choose a --layer"};
      n_heads = view.heads;
      maps->layers.push_back(layer);
    }
    if (options_.head && *options_.head >= n_heads)
      throw Failure{kWrongUsage, "--head is " + std::to_string(*options_.head) + "; layer " +
                                     std::to_string(*options_.layer) + " has " + std::to_string(n_heads) + " heads"};
    for (uint32_t head = options_.head.value_or(0); head < (options_.head ? *options_.head + 1 : n_heads); ++head)
      maps->heads.push_back(head);
    const uint64_t n_maps = uint64_t{maps->layers.size()} * maps->heads.size(), of_map = uint64_t{n_rows} * n_columns;
    if (of_map > kMostBytes / sizeof(float) / n_maps)
      throw Failure{kFailed, std::to_string(n_maps) + " maps of " + std::to_string(n_rows) + " x " +
                                 std::to_string(n_columns) + " weights are more than " + human_bytes(kMostBytes) +
                                 "; choose a --layer, or fewer tokens"};
    if (writes_page(options_) && page_weights(*maps) > kMostPageWeights)
      throw Failure{kFailed, "a page holds " + std::to_string(kMostPageWeights) + " weights, these are " +
                                 std::to_string(page_weights(*maps)) + "; choose a --layer, a --head or fewer tokens"};
    maps->weights.resize(static_cast<size_t>(n_maps * of_map));
  }

  mote_session* session_;
  TapName tap_;
  const AttentionOptions& options_;
  size_t taken_ = 0;   // rows
};

// A feed runs all tokens but the last, so that each call here runs one batch.
void run_decoder(mote_session* session, const std::vector<int32_t>& ids, size_t n_columns, uint32_t batch,
                 Collector& collector, AttentionMaps* maps) {
  mote_error error{};
  Progress progress("attention");
  for (size_t fed = 0; fed < ids.size();) {
    const size_t n = std::min<size_t>(ids.size() - fed, batch + (fed == 0 ? 1 : 0));
    feed_ids(session, ids.data() + fed, n);
    fed += n;
    if (fed > 1) collector.take_batch(ids.size(), n_columns, maps);
    progress.show(fed, ids.size());
  }
  check(mote_step(session, &error), error);
  collector.take_batch(ids.size(), n_columns, maps);
}

// A token's text as it stands behind another one: SentencePiece leaves out a blank where a text begins.
std::vector<std::string> texts_of(const Opened& opened, const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  mote_error error{};
  size_t count = 0;
  const bool has_texts =
      mote_tokenize(opened.model.get(), "", 0, 0, {nullptr, 0}, nullptr, 0, &count, &error) != MOTE_UNSUPPORTED;
  for (const int32_t id : ids) {
    if (!has_texts) {
      texts.push_back(std::to_string(id));
      continue;
    }
    const std::string once = detokenize(opened.model.get(), {id}), twice = detokenize(opened.model.get(), {id, id});
    texts.push_back(twice.substr(std::min(once.size(), twice.size())));
  }
  return texts;
}

void write_file(const AttentionOptions& options, const AttentionMaps& maps) {
  const auto bad = std::find_if(maps.weights.begin(), maps.weights.end(), [](float w) { return !std::isfinite(w); });
  const size_t at = static_cast<size_t>(bad - maps.weights.begin()), of_layer = maps.cells() * maps.heads.size();
  const bool all_finite = bad == maps.weights.end();
  const std::string sentence = all_finite ? ""
                                          : "the weights of layer " + std::to_string(maps.layers[at / of_layer]) +
                                                " are not finite in row " +
                                                std::to_string(at % maps.cells() / maps.columns.size());
  if (writes_page(options) && !all_finite) throw Failure{kFailed, sentence};
  OutputFile file(options.output);
  if (writes_page(options)) {
    write_attention_page(file, options.common.model.substr(options.common.model.find_last_of('/') + 1), maps);
  } else {
    file.write(npy_header({maps.layers.size(), maps.heads.size(), maps.rows.size(), maps.columns.size()}));
    file.write({reinterpret_cast<const char*>(maps.weights.data()), maps.weights.size() * sizeof(float)});
  }
  file.finish();
  if (!all_finite) throw Failure{kFailed, options.output + " is written, but " + sentence};
}

// `given`: token ids; `needed`: with those that the decoder may say.
void check_context(uint32_t context, uint64_t given, uint64_t needed, const AttentionOptions& options) {
  const std::string has = ", the context has " + std::to_string(context) + " positions (--context)";
  if (given > context) throw Failure{kFailed, "there are " + std::to_string(given) + " token ids" + has};
  if (needed > context)
    throw Failure{kFailed,
                  "the decoder's start token and up to " + std::to_string(options.n_predict) + " more (-n)" + has};
}

void run(const AttentionOptions& options) {
  check_usage(options);
  const Opened opened = open_tapped(options);
  check_output_is_not_model(options.output, options.common.model);
  const TapName tap = attention_of(options, opened.info);
  AttentionIds ids = ids_of(options, opened);
  const bool runs_decoder = tap.tap != MOTE_TAP_ENCODER_ATTENTION, generates = runs_decoder && ids.tokens.empty();
  if (generates) ids.tokens = {decoder_start_of(opened.info)};
  mote_session_options session_options = session_options_of(options.common, MOTE_KV_F32);
  const uint64_t n_input = ids.input.size(), n_said = generates ? options.n_predict : 0;
  const uint64_t needed = std::max<uint64_t>(ids.tokens.size() + n_said, n_input);
  if (session_options.context == 0) session_options.context = static_cast<uint32_t>(needed);
  check_context(session_options.context, std::max<uint64_t>(ids.tokens.size(), n_input), needed, options);
  session_options.max_batch = std::max(runs_decoder ? options.batch : 0, static_cast<uint32_t>(n_input));
  const Session session = open_session(opened, session_options);
  const CancelOnInterrupt cancel(session.get());
  mote_error error{};
  if (!ids.input.empty()) check(mote_encode(session.get(), ids.input.data(), ids.input.size(), &error), error);
  if (generates) say_greedily(opened, session.get(), options.n_predict, ids.tokens);
  const std::vector<int32_t>& rows = runs_decoder ? ids.tokens : ids.input;
  const std::vector<int32_t>& columns = tap.tap == MOTE_TAP_DECODER_ATTENTION ? ids.tokens : ids.input;
  AttentionMaps maps{tap.name, {}, {}, texts_of(opened, rows), texts_of(opened, columns), {}};
  Collector collector(session.get(), tap, options);
  if (runs_decoder)
    run_decoder(session.get(), rows, columns.size(), options.batch, collector, &maps);
  else
    collector.take_batch(rows.size(), columns.size(), &maps);
  write_file(options, maps);
}

}   // namespace

void add_attention(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<AttentionOptions>();
  CLI::App* command = app.add_subcommand("attention", "Show what each token looks at: a page of heat maps, or .npy");
  add_common_options(*command, options->common);
  CLI::Option* prompt = command->add_option("-p,--prompt", options->prompt, "The text, as it is");
  CLI::Option* file =
      command->add_option("-f,--file", options->file, "A file with the text; -: standard input")->check(not_empty());
  CLI::Option* tokens = command->add_option("--tokens", options->tokens,
                                            "Instead of a text: token ids with commas between them, as they stand");
  CLI::Option* decoder_tokens = command->add_option(
      "--decoder-tokens", options->decoder_tokens,
      "For a model with an encoder and a decoder: what the decoder is fed. Without them, what it says by itself");
  command->add_option("-n,--n-predict", options->n_predict, "Tokens that it says at most")
      ->transform(decimal(1, 1u << 16))
      ->capture_default_str();
  command
      ->add_option("--attention", options->attention,
                   "Whose: of a decoder to what it has read, of an encoder to its input, of the one to the other. "
                   "Without it, the last of them that the model has")
      ->check(CLI::IsMember({"decoder", "encoder", "cross"}));
  command->add_option("--layer", options->layer, "This layer alone, from 0")->transform(decimal(0, 1u << 16));
  command->add_option("--head", options->head, "This head of it alone, from 0")->transform(decimal(0, 1u << 16));
  command->add_option("--batch", options->batch, "Tokens computed at once")
      ->transform(decimal(1, 1u << 16))
      ->capture_default_str();
  command
      ->add_option("-o,--output", options->output,
                   "FILE.html: a page that needs nothing else; FILE.npy: float32 [layers, heads, rows, positions]")
      ->required();
  command->callback([options, prompt, file, tokens, decoder_tokens, &chosen] {
    options->has_prompt = prompt->count() != 0;
    options->has_file = file->count() != 0;
    options->has_tokens = tokens->count() != 0;
    options->has_decoder_tokens = decoder_tokens->count() != 0;
    chosen = {[options] { run(*options); }, false};
  });
}

}   // namespace cli
