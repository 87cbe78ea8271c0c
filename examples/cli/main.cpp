// mote: the command line. Every command is a file of its own; this one parses, runs and turns failures into exit codes.
#include <list>
#include <sstream>

#include "examples/cli/common.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/line_editor.h"
#include "examples/cli/stream.h"

namespace {

using cli::Chosen;
using cli::Failure;

// Help and version are answers, to standard output; everything else is a mistake in the arguments.
int answer_parser(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, notes;
  const int code = app.exit(error, out, notes);
  cli::write_output(out.str());
  if (code == 0) return cli::kDone;
  std::string text = notes.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  cli::write_note(text);
  return cli::kWrongUsage;
}

int report(const Failure& failure, bool json) {
  const bool cancelled = failure.status == MOTE_CANCELLED;   // Ctrl-C: the user knows, a script's reader does not
  if (failure.message.empty() && !cancelled) return failure.exit_code;
  if (!cancelled) cli::write_note("mote: " + failure.message);
  if (!json) return failure.exit_code;
  const std::string message = cancelled ? "interrupted" : failure.message;
  try {
    cli::write_output(cli::json_text({{"error", message}, {"exit_code", failure.exit_code}}, -1, true) + "\n");
  } catch (const Failure&) {   // the output cannot be written either: said once is enough
  }
  return failure.exit_code;
}

// Whether the argument is an option of the command that takes the next argument as its value, whatever that looks like.
bool takes_next(const CLI::App* command, std::string_view argument) {
  if (command == nullptr || argument.size() < 2 || argument[0] != '-') return false;
  const CLI::Option* option = command->get_option_no_throw(std::string(argument));
  return option != nullptr && option->get_items_expected_min() > 0;
}

// "--prompt=" is "--prompt" and an empty value; CLI11 would take the next argument for it. Only where an option can
// stand: the same text as a value, or behind "--", is left alone.
std::vector<const char*> with_empty_values(const CLI::App& app, int argc, char** argv) {
  static std::list<std::string> names;   // as long-lived as argv
  std::vector<const char*> arguments;
  const CLI::App* command = nullptr;
  for (const CLI::App* other : app.get_subcommands({}))
    if (argc > 1 && other->get_name() == argv[1]) command = other;
  bool is_value = false, only_values = false;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool is_empty_value =
        !is_value && argument.size() > 3 && argument.substr(0, 2) == "--" && argument.find('=') == argument.size() - 1;
    if (is_empty_value) {
      names.emplace_back(argument.substr(0, argument.size() - 1));
      arguments.push_back(names.back().c_str());
    }
    arguments.push_back(is_empty_value ? "" : argv[i]);
    only_values = only_values || (!is_value && argument == "--");
    is_value = only_values || (!is_value && takes_next(command, argument));
  }
  return arguments;
}

int run(int argc, char** argv, Chosen& chosen) {
  CLI::App app(
      "mote runs transformers on the device itself. Text goes to standard output, everything else to standard error.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 model missing or refused, 130 interrupted.",
      "mote");
  app.set_version_flag("--version",
                       std::string("mote ") + mote_version() + "\nline editing: " + cli::LineEditor::built_with());
  app.require_subcommand(1);
  cli::add_run(app, chosen);
  cli::add_info(app, chosen);
  cli::add_tokenize(app, chosen);
  cli::add_detokenize(app, chosen);
  cli::add_logits(app, chosen);
  cli::add_embed(app, chosen);
  cli::add_attention(app, chosen);
  cli::add_perplexity(app, chosen);
  cli::add_bench(app, chosen);
  const std::vector<const char*> arguments = with_empty_values(app, argc, argv);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {
    return answer_parser(app, error);
  }
  chosen.run();
  return cli::kDone;
}

}   // namespace

int main(int argc, char** argv) {
  cli::prepare_standard_streams();
  cli::install_signal_handlers();
  Chosen chosen;
  try {
    return run(argc, argv, chosen);
  } catch (const Failure& failure) {
    return report(failure, chosen.json);
  } catch (const std::bad_alloc&) {
    return report({cli::kFailed, "the program has no memory left"}, chosen.json);
  } catch (const std::exception& error) {
    return report({cli::kFailed, error.what()}, chosen.json);
  }
}
