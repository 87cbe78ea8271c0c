#include "examples/cli/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "examples/cli/failure.h"
#include "examples/cli/interrupt.h"

namespace cli {
namespace {

constexpr size_t kReadBytes = 1 << 16;
constexpr size_t kMaxLineBytes = size_t{1} << 26;

std::string name_of(const std::string& path) { return path == "-" ? "standard input" : path; }

[[noreturn]] void fail_to_read(const std::string& path, int code) {
  throw Failure{kFailed, name_of(path) + " cannot be read: " + std::strerror(code)};
}

}   // namespace

std::string read_all(const std::string& path) {
  const int descriptor = path == "-" ? 0 : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_to_read(path, errno);
  std::string text;
  int code = 0;
  while (true) {
    const size_t used = text.size();
    text.resize(used + kReadBytes);
    const ssize_t got = read(descriptor, text.data() + used, kReadBytes);
    text.resize(used + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) code = errno;
    if (got <= 0) break;
  }
  if (descriptor != 0) close(descriptor);
  if (code != 0) fail_to_read(path, code);
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
    messages.push_back({entry["role"].get<std::string>(), entry["content"].get<std::string>()});
  }
  return messages;
}

std::optional<std::string> LineReader::next() {
  while (true) {
    if (const size_t end = buffer_.find('\n', used_); end != std::string::npos) {
      std::string line = buffer_.substr(used_, end - used_);
      used_ = end + 1;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    buffer_.erase(0, used_);
    used_ = 0;
    if (ended_) {
      if (buffer_.empty()) return std::nullopt;
      return std::exchange(buffer_, std::string());   // a last line without an end
    }
    if (buffer_.size() > kMaxLineBytes) throw Failure{kFailed, "a line of standard input is longer than 64 MiB"};
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const ssize_t got = read(0, buffer_.data() + before, kReadBytes);
    const int code = errno;
    buffer_.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && code == EINTR) {
      if (interrupted()) return std::nullopt;
      continue;
    }
    if (got < 0) fail_to_read("-", code);
    ended_ = got == 0;
  }
}

std::vector<int32_t> parse_ids(const std::string& text, const char* what) {
  std::vector<int32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (*at == ',' || *at == ' ' || *at == '\n') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const std::from_chars_result result = std::from_chars(at, end, id);
    const bool ends_well = result.ptr == end || *result.ptr == ',' || *result.ptr == ' ' || *result.ptr == '\n';
    if (result.ec != std::errc() || id < 0 || !ends_well)
      throw Failure{kWrongUsage, std::string(what) + ": '" + text.substr(static_cast<size_t>(at - text.data()), 20) +
                                     "' does not begin with a token id"};
    ids.push_back(id);
    at = result.ptr;
  }
  return ids;
}

}   // namespace cli
