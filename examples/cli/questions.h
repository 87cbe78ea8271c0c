// Where the questions of a chat come from: an edited line where that can be had, a terminal's own lines, or any other
// standard input.
#pragma once
#include <memory>
#include <optional>

#include "examples/cli/history_file.h"
#include "examples/cli/input.h"
#include "examples/cli/line_editor.h"

namespace cli {

class Questions {
 public:
  explicit Questions(bool keeps_history);

  // Somebody types them: Ctrl-C at the prompt is a Line, not the end.
  bool are_typed() const { return are_typed_; }
  // They come from a terminal and standard error is one: there is a prompt.
  bool have_prompt() const { return have_prompt_; }
  std::optional<Line> next();

 private:
  std::optional<Line> next_typed();

  bool are_typed_, have_prompt_;
  HistoryFile history_;
  std::unique_ptr<LineEditor> editor_;   // null: plain lines
  LineReader lines_;
};

}   // namespace cli
