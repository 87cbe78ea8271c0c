#include "examples/cli/stream.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "examples/cli/failure.h"

namespace cli {
namespace {

// 0 or an errno.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}   // namespace

void prepare_standard_streams() {
  signal(SIGPIPE, SIG_IGN);
  for (int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Output to it must fail, so it is opened for reading.
    const int stand_in = open("/dev/null", descriptor == 2 ? O_WRONLY : O_RDONLY);
    if (stand_in >= 0 && stand_in != descriptor) close(stand_in);
  }
}

void write_output(std::string_view text) {
  const int code = write_all(1, text);
  if (code == EPIPE) throw Failure{kFailed, ""};
  if (code != 0) throw Failure{kFailed, std::string("standard output cannot be written: ") + std::strerror(code)};
}

void write_note(std::string_view line) { write_all(2, std::string(line) + "\n"); }

void write_prompt_mark() { write_all(2, "> "); }

bool input_is_terminal() { return isatty(0) == 1; }
bool output_is_terminal() { return isatty(1) == 1; }
bool notes_are_seen() { return isatty(2) == 1; }

void Progress::show(size_t done, size_t total) {
  const int percent =
      total == 0 ? 100 : static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (!notes_are_seen() || percent == last_percent_) return;
  last_percent_ = percent;
  write_all(2, "\r" + what_ + " " + std::to_string(percent) + "%\x1b[K");
}

void Progress::clear() {
  if (last_percent_ >= 0) write_all(2, "\r\x1b[K");
  last_percent_ = -1;
}

}   // namespace cli
