#include "examples/cli/chat_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "examples/cli/failure.h"
#include "examples/cli/output_file.h"

namespace cli {
namespace {

constexpr std::string_view kMagic = "mote chat ", kVersion = "1\n";
constexpr size_t kHeadBytes = kMagic.size() + kVersion.size() + 4 + 3 * 8, kMessageHeadBytes = 9;
constexpr uint64_t kMostMessagesBytes = uint64_t{1} << 28;
constexpr const char* kRoles[] = {"system", "user", "assistant"};

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw Failure{kFailed, path + " " + why}; }
[[noreturn]] void refuse(const std::string& path, const char* what, int code) {
  refuse(path, std::string("cannot be ") + what + ": " + std::strerror(code));
}

void put_number(uint64_t number, size_t bytes, std::string* to) {
  for (size_t i = 0; i < bytes; ++i) *to += static_cast<char>(number >> 8 * i & 0xff);
}

uint64_t number_at(std::string_view text, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) number |= uint64_t{static_cast<unsigned char>(text[at + i])} << 8 * i;
  return number;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// A file that is open for reading while this lives. Nothing but a regular file: no device can hold up the chat.
class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (descriptor_ < 0) refuse(path, "opened", errno);
    struct stat there{};
    if (fstat(descriptor_, &there) == 0 && S_ISREG(there.st_mode)) {
      bytes_ = static_cast<uint64_t>(there.st_size);
      return;
    }
    close(descriptor_);
    refuse(path, "is no regular file");
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size_bytes() const { return bytes_; }
  template <class Bytes>
  Bytes read(size_t count) {
    Bytes bytes(count, 0);
    for (size_t done = 0; done < count;) {
      const ssize_t got = ::read(descriptor_, bytes.data() + done, count - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse(path_, "read", errno);
      if (got == 0) refuse(path_, "became shorter while it was read");
      done += static_cast<size_t>(got);
    }
    return bytes;
  }

 private:
  const std::string& path_;
  int descriptor_;
  uint64_t bytes_ = 0;
};

// A file of ours of any version, or an empty one, may be replaced.
void check_replaceable(const std::string& path) {
  if (path == "-") refuse(path, "is no regular file");   // but standard output to OutputFile
  struct stat there{};
  if (stat(path.c_str(), &there) != 0) return;   // not there, or OutputFile says why not
  InputFile file(path);
  const auto known = static_cast<size_t>(std::min<uint64_t>(kMagic.size(), file.size_bytes()));
  if (known != 0 && file.read<std::string>(known) != kMagic)
    refuse(path, "is there and no chat that /save wrote: it is left as it is");
}

std::string bytes_of(const std::vector<Message>& messages) {
  std::string bytes;
  for (const Message& message : messages) {
    const auto role = std::find(std::begin(kRoles), std::end(kRoles), message.role) - std::begin(kRoles);
    put_number(static_cast<uint64_t>(role), 1, &bytes);
    put_number(message.content.size(), 8, &bytes);
    bytes += message.content;
  }
  return bytes;
}

std::vector<Message> messages_of(const std::string& path, std::string_view bytes, uint64_t count) {
  std::vector<Message> messages;
  while (!bytes.empty()) {
    if (bytes.size() < kMessageHeadBytes || number_at(bytes, 1, 8) > bytes.size() - kMessageHeadBytes)
      refuse(path, "is damaged: message " + std::to_string(messages.size()) + " goes beyond the messages");
    const uint64_t role = number_at(bytes, 0, 1);
    const bool is_first = messages.empty();
    const bool asks = is_first || messages.back().role != "user";
    if (role > 2 || (role == 0 && !is_first) || (role == 1 && !asks) || (role == 2 && asks))
      refuse(path,
             "is damaged: message " + std::to_string(messages.size()) + " is neither a question nor an answer in turn");
    const auto length = static_cast<size_t>(number_at(bytes, 1, 8));
    messages.push_back({kRoles[role], std::string(bytes.substr(kMessageHeadBytes, length))});
    bytes.remove_prefix(kMessageHeadBytes + length);
  }
  if (messages.size() != count || (!messages.empty() && messages.back().role == "user"))
    refuse(path, "is damaged: it has " + std::to_string(messages.size()) + " messages, its head says " +
                     std::to_string(count) + ", and the last one must not be a question");
  return messages;
}

}   // namespace

void write_chat_file(const std::string& path, const ChatFile& chat) {
  check_replaceable(path);
  const std::string messages = bytes_of(chat.messages);
  if (messages.size() > kMostMessagesBytes) refuse(path, "was not written: the chat has more than 256 MiB of text");
  std::string head = std::string(kMagic) + std::string(kVersion);
  put_number(chat.messages.size(), 4, &head);
  put_number(messages.size(), 8, &head);
  put_number(chat.snapshot.size(), 8, &head);
  put_number(fnv1a(messages), 8, &head);
  OutputFile file(path, OutputFile::Readers::user_at_first);
  file.write(head);
  file.write(messages);
  file.write({chat.snapshot.data(), chat.snapshot.size()});
  file.finish();
}

ChatFile read_chat_file(const std::string& path, uint64_t most_snapshot_bytes) {
  InputFile file(path);
  const auto head_bytes = static_cast<size_t>(std::min<uint64_t>(kHeadBytes, file.size_bytes()));
  const auto head = file.read<std::string>(head_bytes);
  if (head.compare(0, kMagic.size(), kMagic) != 0) refuse(path, "is no chat that /save wrote");
  if (head.compare(kMagic.size(), kVersion.size(), kVersion) != 0)
    refuse(path, "was written by another version of mote, whose files this one does not read");
  if (head_bytes < kHeadBytes) refuse(path, "is damaged: it ends in its head");
  const size_t at = kMagic.size() + kVersion.size();
  const uint64_t count = number_at(head, at, 4), messages_bytes = number_at(head, at + 4, 8),
                 snapshot_bytes = number_at(head, at + 12, 8), left = file.size_bytes() - kHeadBytes;
  if (messages_bytes > left || snapshot_bytes != left - messages_bytes)
    refuse(path, "is damaged: it has " + std::to_string(left) + " bytes behind its head, which says " +
                     std::to_string(messages_bytes) + " and " + std::to_string(snapshot_bytes));
  if (messages_bytes > kMostMessagesBytes) refuse(path, "has more than the 256 MiB of text that are read");
  if (snapshot_bytes > most_snapshot_bytes)
    refuse(path, "has a snapshot of " + std::to_string(snapshot_bytes) +
                     " bytes, more than this session can hold (--context)");
  ChatFile chat;
  const auto messages = file.read<std::string>(static_cast<size_t>(messages_bytes));
  if (fnv1a(messages) != number_at(head, at + 20, 8))
    refuse(path, "is damaged: its words are not those that were saved");
  chat.messages = messages_of(path, messages, count);
  chat.snapshot = file.read<std::vector<char>>(static_cast<size_t>(snapshot_bytes));
  return chat;
}

}   // namespace cli
