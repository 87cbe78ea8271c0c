#include "examples/cli/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "examples/cli/failure.h"
#include "examples/cli/output_file.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

constexpr size_t kMostLines = 1000;
constexpr size_t kMostLineBytes = 1 << 16;   // what is longer is not remembered
constexpr size_t kMostFileBytes = 1 << 22;
constexpr std::string_view kFolder = "/mote", kFile = "/history";

// One line: a line feed is \n, a backslash is two.
std::string escaped(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return line;
}

std::string unescaped(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool is_escape = line[i] == '\\' && i + 1 < line.size();
    if (is_escape) ++i;
    text += is_escape && line[i] == 'n' ? '\n' : line[i] == 0 ? ' ' : line[i];
  }
  return text;
}

// 0, or an errno. The folders above ours have the permissions that others gave them.
int make_folders(const std::string& folder) {
  for (size_t end = folder.find('/', 1); end != std::string::npos; end = folder.find('/', end + 1))
    if (mkdir(folder.substr(0, end).c_str(), 0700) != 0 && errno != EEXIST) return errno;
  return mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST ? errno : 0;
}

}   // namespace

std::string HistoryFile::usual_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (state != nullptr && *state == '/')   // what is not absolute counts as not set
    folder = state;
  else if (home != nullptr && *home == '/')
    folder = std::string(home) + "/.local/state";
  return folder.empty() ? "" : folder + std::string(kFolder) + std::string(kFile);
}

void HistoryFile::give_up(const std::string& why) const {
  if (!failed_) write_note("the history is not kept: " + path_ + " " + why + " (--no-history)");
  failed_ = true;
}

std::vector<std::string> HistoryFile::lines() const {
  std::vector<std::string> lines;
  // No FIFO may hold up the chat.
  const int descriptor = path_.empty() ? -1 : open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    if (!path_.empty() && errno != ENOENT) give_up(std::string("cannot be read: ") + std::strerror(errno));
    return lines;
  }
  std::string text;
  struct stat there{};
  const bool is_file = fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode);
  ssize_t got = 0;
  do {
    const size_t used = text.size();
    text.resize(used + (1 << 16));
    got = is_file ? ::read(descriptor, text.data() + used, 1 << 16) : 0;
    text.resize(used + (got > 0 ? static_cast<size_t>(got) : 0));
  } while (got > 0 && text.size() <= kMostFileBytes);
  const int code = errno;
  close(descriptor);
  if (got < 0) give_up(std::string("cannot be read: ") + std::strerror(code));
  if (text.size() > kMostFileBytes) give_up("is too large for a history");
  if (failed_) return lines;
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    if (end != at && end - at <= 2 * kMostLineBytes) lines.push_back(text.substr(at, end - at));
  }
  return lines;
}

std::vector<std::string> HistoryFile::read() const {
  std::vector<std::string> texts = lines();
  for (std::string& text : texts) text = unescaped(text);
  return texts;
}

void HistoryFile::add(const std::string& text) {
  if (path_.empty() || failed_ || text.size() > kMostLineBytes) return;
  std::vector<std::string> all = lines();
  if (failed_) return;
  const std::string line = escaped(text);
  if (!all.empty() && all.back() == line) return;
  all.push_back(line);
  std::string whole;
  size_t first = all.size(), bytes = 0;
  while (first > 0 && all.size() - first < kMostLines && bytes + all[first - 1].size() < kMostFileBytes)
    bytes += all[--first].size() + 1;
  for (size_t i = first; i < all.size(); ++i) whole += all[i] + "\n";
  const int code = make_folders(path_.substr(0, path_.rfind('/')));
  if (code != 0) return give_up(std::string("has no folder: ") + std::strerror(code));
  try {
    OutputFile file(path_, OutputFile::Readers::user);
    file.write(whole);
    file.finish();
  } catch (const Failure& failure) {
    failed_ = true;
    write_note("the history is not kept: " + failure.message + " (--no-history)");
  }
}

}   // namespace cli
