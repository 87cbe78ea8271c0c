// The standard streams: bytes as they are, errors noticed.
#pragma once
#include <string>
#include <string_view>

namespace cli {

// First thing in main: descriptors 0 to 2 that are closed get a stand-in, so that no file opened later takes their
// place, and writing to a closed pipe becomes an error instead of a signal.
void prepare_standard_streams();

// Writes all of it to standard output at once. When the reader has gone the program ends quietly with kFailed; any
// other failure is one with a message.
void write_output(std::string_view text);

// A line for the user, to standard error; a failure there is nobody's business.
void write_note(std::string_view line);

// "> ", where the user types.
void write_prompt_mark();

bool input_is_terminal();
bool output_is_terminal();
bool notes_are_seen();   // standard error is a terminal

// One line on a terminal that is overwritten and disappears at the end; nothing anywhere else.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(size_t done, size_t total);
  void clear();

 private:
  std::string what_;
  int last_percent_ = -1;
};

}   // namespace cli
