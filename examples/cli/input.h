// What the user hands in: files, standard input, conversations.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cli {

struct Message {
  std::string role, content;
};

// All bytes of a file, or of standard input for "-"; unchanged. More than 256 MiB are refused.
std::string read_all(const std::string& path);

// [{"role": "user", "content": "..."}, ...], or an object whose "messages" is that.
std::vector<Message> read_messages(const std::string& path);

struct Line {
  std::string text;
  bool too_long = false;      // more than 16 MiB: passed over, the text is empty
  bool interrupted = false;   // Ctrl-C at a prompt: the text is what had been typed, as far as that is known
};

// Lines of standard input, without their ends (LF or CR LF). Nothing: the input has ended.
class LineReader {
 public:
  std::optional<Line> next();

 private:
  void read_more();

  std::string buffer_;
  size_t used_ = 0;
  bool ended_ = false;
};

}   // namespace cli
