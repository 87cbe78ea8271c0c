#include "examples/cli/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "examples/cli/failure.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

constexpr size_t kReadBytes = 1 << 16;
constexpr size_t kMaxLineBytes = size_t{1} << 24;
constexpr size_t kMaxInputBytes = size_t{1} << 28;   // its tokens take four times that

std::string name_of(const std::string& path) { return path == "-" ? "standard input" : path; }

[[noreturn]] void fail_to_read(const std::string& path, int code) {
  if (code == EINTR) throw Failure{kInterrupted, ""};
  throw Failure{kFailed, name_of(path) + " cannot be read: " + std::strerror(code)};
}

}   // namespace

std::string read_all(const std::string& path) {
  const int descriptor = path == "-" ? 0 : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_to_read(path, errno);
  std::string text;
  int code = 0;
  while (text.size() <= kMaxInputBytes) {
    const size_t used = text.size();
    text.resize(used + kReadBytes);
    const std::ptrdiff_t got = read_some(descriptor, text.data() + used, kReadBytes);
    if (got < 0) code = errno;
    text.resize(used + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got <= 0) break;
  }
  if (descriptor != 0) close(descriptor);
  if (code != 0) fail_to_read(path, code);
  if (text.size() > kMaxInputBytes) throw Failure{kFailed, name_of(path) + " has more than the 256 MiB that are read"};
  return text;
}

std::vector<Message> read_messages(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(read_all(path), nullptr, false);
  if (json.is_discarded()) throw Failure{kWrongUsage, name_of(path) + " is not JSON"};
  const nlohmann::json& list = json.is_object() && json.contains("messages") ? json["messages"] : json;
  if (!list.is_array() || list.empty())
    throw Failure{kWrongUsage,
                  name_of(path) + " is not a list of messages: [{\"role\": \"user\", \"content\": \"...\"}]"};
  std::vector<Message> messages;
  for (const nlohmann::json& entry : list) {
    const bool whole = entry.is_object() && entry.contains("role") && entry["role"].is_string() &&
                       entry.contains("content") && entry["content"].is_string();
    if (!whole)
      throw Failure{kWrongUsage, "message " + std::to_string(messages.size()) + " of " + name_of(path) +
                                     " lacks a text \"role\" or a text \"content\""};
    // The library takes the role as a C string, which would end here.
    if (entry["role"].get_ref<const std::string&>().find('\0') != std::string::npos)
      throw Failure{kWrongUsage, "message " + std::to_string(messages.size()) + " of " + name_of(path) +
                                     " has a \"role\" with a NUL in it"};
    messages.push_back({entry["role"].get<std::string>(), entry["content"].get<std::string>()});
  }
  return messages;
}

std::optional<Line> LineReader::next() {
  bool too_long = false;
  while (true) {
    const size_t end = buffer_.find('\n', used_);
    if (end != std::string::npos || (ended_ && used_ < buffer_.size())) {   // a last line may lack its end
      const size_t length = std::min(end, buffer_.size()) - used_;
      Line line{too_long || length > kMaxLineBytes ? "" : buffer_.substr(used_, length),
                too_long || length > kMaxLineBytes};
      used_ += length + (end != std::string::npos ? 1 : 0);
      if (end != std::string::npos && !line.text.empty() && line.text.back() == '\r') line.text.pop_back();
      return line;
    }
    if (ended_) return too_long ? std::optional<Line>(Line{"", true}) : std::nullopt;
    buffer_.erase(0, used_);
    used_ = 0;
    if (buffer_.size() > kMaxLineBytes) {
      too_long = true;
      buffer_.clear();
    }
    read_more();
  }
}

void LineReader::read_more() {
  const size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const std::ptrdiff_t got = read_some(0, buffer_.data() + before, kReadBytes);
  const int code = errno;
  buffer_.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
  if (got < 0) fail_to_read("-", code);
  ended_ = got == 0;
}

}   // namespace cli
