// mote tokenize: bytes on standard input to token ids.
#include "examples/cli/common.h"
#include "examples/cli/input.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

struct TokenizeOptions {
  std::string model;
  bool add_special = false, parse_special = false, json = false;
};

void run(const TokenizeOptions& options) {
  const Opened opened = open_vocabulary(options.model);
  uint32_t flags = 0;
  if (options.add_special) flags |= MOTE_ADD_SPECIAL;
  if (options.parse_special) flags |= MOTE_PARSE_SPECIAL;
  const std::vector<int32_t> ids = tokenize(opened.model.get(), read_all("-"), flags);
  if (options.json) return write_output(json_text({{"ids", ids}}) + "\n");
  std::string text;
  for (int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  write_output(text + "\n");
}

}   // namespace

void add_tokenize(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand(
      "tokenize",
      "Turn the bytes on standard input into token ids; a byte-level vocabulary drops bytes that it has no piece for");
  command->add_option("-m,--model", options->model, "Any GGUF file with a tokenizer, weights or not")->required();
  command->add_flag("--add-special", options->add_special, "Add what the model wants around a text (start token)");
  command->add_flag("--parse-special", options->parse_special, "Recognise control tokens in the text");
  command->add_flag("--json", options->json, "{\"ids\": [...]}");
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, options->json}; });
}

}   // namespace cli
