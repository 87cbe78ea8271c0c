#include "examples/cli/questions.h"

#include "examples/cli/failure.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/stream.h"

namespace cli {

Questions::Questions(bool keeps_history)
    : are_typed_(input_is_terminal()),
      have_prompt_(are_typed_ && notes_are_seen()),
      history_(keeps_history ? HistoryFile::usual_path() : "") {
  if (have_prompt_) editor_ = LineEditor::open(history_);
}

std::optional<Line> Questions::next() {
  if (!are_typed_) return lines_.next();
  const AtPrompt waiting;
  std::optional<Line> line = next_typed();
  if (editor_ != nullptr && line && !line->interrupted && !line->text.empty()) {
    editor_->remember(line->text);
    history_.add(line->text);
  }
  if (interrupted()) line = Line{line ? line->text : "", false, true};
  forget_interrupts();
  return line;
}

std::optional<Line> Questions::next_typed() {
  if (editor_ != nullptr) return editor_->next();
  if (have_prompt_) write_prompt_mark();
  try {
    return lines_.next();
  } catch (const Failure& failure) {
    if (failure.exit_code != kInterrupted || !interrupted()) throw;
    write_fully(2, "\n");
    return Line{"", false, true};
  }
}

}   // namespace cli
