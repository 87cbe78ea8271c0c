// mote run without a prompt: a chat, one line of standard input a turn.
#include "examples/cli/chat.h"
#include "examples/cli/chat_commands.h"
#include "examples/cli/questions.h"
#include "examples/cli/stream.h"

namespace cli {

void chat(const RunOptions& options) {
  Chat chat(options);
  Questions questions(!options.no_history);
  if (questions.have_prompt())
    write_note("One line is one question, /help lists commands. Ctrl-C ends an answer, Ctrl-D the chat.");
  bool is_ending = false;   // Ctrl-C at an empty prompt: once
  while (const std::optional<Line> line = questions.next()) {
    if (line->interrupted) {
      if (line->text.empty() && is_ending) throw Failure{kInterrupted, ""};
      is_ending = line->text.empty();
      if (is_ending) write_note("Ctrl-C once more ends the chat, like Ctrl-D.");
      continue;
    }
    is_ending = false;
    if (line->too_long) write_note("the question is too long and was not asked: a line has at most 16 MiB");
    if (questions.are_typed() && is_command(line->text))   // a pipe's lines are questions, whoever wrote them
      run_command(chat, line->text);
    else if (!line->text.empty())
      chat.turn(line->text);
  }
  if (questions.have_prompt()) write_note("");
}

}   // namespace cli
