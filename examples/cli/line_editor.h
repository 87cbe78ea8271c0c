// One line after the other on a terminal, edited with libedit, where the program was built with it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "examples/cli/history_file.h"
#include "examples/cli/input.h"

namespace cli {

class LineEditor {
 public:
  // "libedit 2.11", or why there is none: for --version.
  static std::string built_with();
  // Null where there is nothing to edit lines with: a build without libedit, or a terminal that cannot move its cursor
  // (TERM=dumb). Standard input and standard error are terminals.
  static std::unique_ptr<LineEditor> open(const HistoryFile& history);

  virtual ~LineEditor() = default;
  // Shows the prompt and returns what was entered, at most 1 MiB; a pasted text is part of one line, its line ends
  // included. Nothing: the input has ended.
  virtual std::optional<Line> next() = 0;
  // The newest line that the arrow keys bring back.
  virtual void remember(const std::string& text) = 0;
};

}   // namespace cli
