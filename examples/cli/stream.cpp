#include "examples/cli/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "examples/cli/failure.h"
#include "examples/cli/interrupt.h"
#include "examples/cli/printable.h"

namespace cli {
namespace {

// What a pipe that is ready takes without waiting.
constexpr size_t kPieceBytes = 4096;

}   // namespace

int write_fully(int descriptor, std::string_view text) {
  struct stat there{};
  const bool is_file = fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode);
  while (!text.empty()) {
    if (!is_file && !wait_for(descriptor, POLLOUT)) return EINTR;
    const ssize_t written = write(descriptor, text.data(), is_file ? text.size() : std::min(text.size(), kPieceBytes));
    if (written < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

std::ptrdiff_t read_some(int descriptor, char* bytes, size_t most) {
  while (true) {
    if (!wait_for(descriptor, POLLIN)) {
      errno = EINTR;
      return -1;
    }
    const ssize_t got = read(descriptor, bytes, most);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    return got;
  }
}

void prepare_standard_streams() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);   // a limit on file sizes is an error of the write
  for (int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Using it must fail, so it is opened the wrong way round.
    const int stand_in = open("/dev/null", descriptor == 1 ? O_RDONLY : O_WRONLY);
    if (stand_in >= 0 && stand_in != descriptor) close(stand_in);
  }
}

bool write_answer(std::string_view text) {
  const int code = write_fully(1, text);
  if (code == EPIPE) throw Failure{kFailed, ""};
  if (code != 0 && code != EINTR)
    throw Failure{kFailed, std::string("standard output cannot be written: ") + std::strerror(code)};
  return code == 0;
}

void write_output(std::string_view text) {
  if (!write_answer(text)) throw Failure{kInterrupted, ""};
}

void write_note(std::string_view line) { write_fully(2, printable(line, true) + "\n"); }

void write_prompt_text(std::string_view text) {
  if (notes_are_seen()) return write_note(text);
  write_fully(2, std::string(text) + "\n");
}

void write_prompt_mark() { write_fully(2, "> "); }

bool input_is_terminal() { return isatty(0) == 1; }
bool output_is_terminal() { return isatty(1) == 1; }
bool notes_are_seen() { return isatty(2) == 1; }

void Progress::show(size_t done, size_t total) {
  const int percent =
      total == 0 ? 100 : static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (!notes_are_seen() || percent == last_percent_) return;
  last_percent_ = percent;
  write_fully(2, "\r" + what_ + " " + std::to_string(percent) + "%\x1b[K");
}

void Progress::clear() {
  if (last_percent_ >= 0) write_fully(2, "\r\x1b[K");
  last_percent_ = -1;
}

}   // namespace cli
