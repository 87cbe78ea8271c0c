// The standard streams: bytes as they are, errors noticed.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace cli {

// First thing in main: descriptors 0 to 2 that are closed get a stand-in, so that no file opened later takes their
// place, and writing to a closed pipe becomes an error instead of a signal.
void prepare_standard_streams();

// Writes all of it, waiting where that is needed, also for a descriptor that does not block by itself. Returns 0, an
// errno, or EINTR: Ctrl-C came while nothing more could be written.
int write_fully(int descriptor, std::string_view text);
// Reads some bytes, waiting as above; 0 at the end. -1: errno says why, EINTR being Ctrl-C.
std::ptrdiff_t read_some(int descriptor, char* bytes, size_t most);

// Writes all of it to standard output at once. When the reader has gone the program ends quietly with kFailed, after
// Ctrl-C with kInterrupted where it could not be written; any other failure is one with a message.
void write_output(std::string_view text);
// The same, but false where Ctrl-C ended the waiting.
bool write_answer(std::string_view text);

// A line for the user, to standard error, made safe for a terminal; a failure there is nobody's business.
void write_note(std::string_view line);
// A line that is handed on as it is, but for a terminal's sake.
void write_prompt_text(std::string_view text);

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
