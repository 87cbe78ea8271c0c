#include "examples/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "examples/cli/failure.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

[[noreturn]] void fail_with(const std::string& path, const char* what, int code) {
  throw Failure{kFailed, path + " cannot be " + what + ": " + std::strerror(code)};
}

// The descriptor that /dev/stdout and its like stand for, or -1. Opening such a name anew would start at byte 0 of the
// file that the shell has opened.
int standard_descriptor(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  for (const char* folder : {"/dev/fd/", "/proc/self/fd/"}) {
    const size_t length = std::strlen(folder);
    if (path.compare(0, length, folder) == 0 && path.size() > length && path.size() < length + 8 &&
        path.find_first_not_of("0123456789", length) == std::string::npos)
      return std::stoi(path.substr(length));
  }
  return -1;
}

// A descriptor open for writing whose file this is, under whatever name, or -1. Those above 255 are not looked at:
// shells and scripts hand out low numbers.
int descriptor_of(const struct stat& file) {
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    struct stat there{};
    if (fstat(descriptor, &there) != 0 || there.st_dev != file.st_dev || there.st_ino != file.st_ino) continue;
    if ((fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY) return descriptor;
  }
  return -1;
}

// Where the path leads once the symbolic links at its end are followed; the last of them may lead nowhere yet.
std::string follow_links(std::string path) {
  for (int i = 0; i < 40; ++i) {
    char link[4096];
    const ssize_t length = readlink(path.c_str(), link, sizeof link);
    if (length < 0) return path;
    const std::string to(link, static_cast<size_t>(length));
    const size_t slash = path.rfind('/');
    path = to[0] == '/' || slash == std::string::npos ? to : path.substr(0, slash + 1) + to;
  }
  return path;
}

bool folder_forbids(int code) { return code == EACCES || code == EPERM || code == EROFS; }

}   // namespace

OutputFile::OutputFile(const std::string& path, Readers readers) : path_(path) {
  if (path.empty()) throw Failure{kWrongUsage, "the path of the output is empty"};
  if (const int standard = standard_descriptor(path); standard >= 0) {
    share(standard);
    return;
  }
  struct stat there{};
  const bool exists = stat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT && errno != ENOTDIR) fail_with(path, "opened", errno);   // a loop of links, say
  if (exists && S_ISDIR(there.st_mode)) fail_with(path, "opened", EISDIR);
  if (exists && !S_ISREG(there.st_mode)) {
    descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ < 0) fail_with(path, "opened", errno);
    return;
  }
  // What a shell has redirected to this file, and is going to, stays in it.
  if (const int open_already = exists ? descriptor_of(there) : -1; open_already >= 0) {
    share(open_already);
    return;
  }
  // A new file takes the old one's place, which asks the folder for leave; the file must give it too.
  if (exists && (access(path.c_str(), W_OK) != 0 || (there.st_mode & 0222) == 0)) fail_with(path, "opened", EACCES);
  target_ = follow_links(path);
  open_temporary(readers);
  if (!exists) return;
  const int ignored = fchown(descriptor_, there.st_uid, there.st_gid);   // where the system lets us
  static_cast<void>(ignored);
  fchmod(descriptor_, there.st_mode & (readers == Readers::user ? 0700 : 07777));
}

// Writes go on where the descriptor's own writes stand.
void OutputFile::share(int descriptor) {
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (descriptor_ < 0) fail_with(path_, "opened", errno);
}

void OutputFile::open_temporary(Readers readers) {
  const size_t slash = target_.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : target_.substr(0, slash + 1);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    // Short, whatever the length of the name it stands for.
    const std::string name = folder + ".mote" + std::to_string(getpid()) + "-" + std::to_string(attempt) + ".part";
    const HoldSignals held;   // between making the file and knowing that it is ours
    descriptor_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, readers == Readers::all ? 0666 : 0600);
    if (descriptor_ >= 0) {
      temporary_ = name;
      cleaner_ = std::make_unique<RemoveOnInterrupt>(temporary_);
      return;
    }
    if (errno == EEXIST && attempt < 100) continue;
    const int code = errno;
    if (folder_forbids(code) && access(target_.c_str(), F_OK) == 0)
      throw Failure{kFailed, path_ + " cannot be replaced, since its folder cannot be written (" + std::strerror(code) +
                                 "); -o - > FILE writes into a file that is there"};
    fail_with(path_, "created", code);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  const int code = write_fully(descriptor_, bytes);
  if (code == EPIPE) throw Failure{kFailed, ""};   // the reader has gone: end quietly
  if (code == EINTR) throw Failure{kInterrupted, ""};
  if (code != 0) fail_with(path_, "written", code);
}

void OutputFile::finish() {
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0 && errno != EINTR) fail_with(path_, "written", errno);
  if (target_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_with(path_, "written", errno);
  temporary_.clear();
}

}   // namespace cli
