// mote detokenize: token ids to the exact bytes they stand for.
#include "examples/cli/common.h"
#include "examples/cli/numbers.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

struct DetokenizeOptions {
  std::string model;
  std::vector<std::string> ids;
};

void run(const DetokenizeOptions& options) {
  std::vector<int32_t> ids;
  for (const std::string& text : options.ids)
    for (int32_t id : parse_ids(text, "IDS")) ids.push_back(id);
  const Opened opened = open_vocabulary(options.model);
  write_output(detokenize(opened.model.get(), ids));
}

}   // namespace

void add_detokenize(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<DetokenizeOptions>();
  CLI::App* command = app.add_subcommand("detokenize", "Turn token ids into their exact bytes, nothing added");
  command->add_option("-m,--model", options->model, "Any GGUF file with a tokenizer, weights or not")->required();
  command->add_option("IDS", options->ids, "Token ids, apart or with commas")->required();
  command->callback([options, &chosen] { chosen = {[options] { run(*options); }, false}; });
}

}   // namespace cli
