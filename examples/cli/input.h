// What the user hands in: files, standard input, conversations.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/mote.h"

namespace cli {

struct Message {
  std::string role, content;
};

// All bytes of a file, or of standard input for "-"; unchanged.
std::string read_all(const std::string& path);

// [{"role": "user", "content": "..."}, ...], or an object whose "messages" is that.
std::vector<Message> read_messages(const std::string& path);

// Lines of standard input, without their ends (LF or CR LF). Nothing: the input has ended, or Ctrl-C came (see
// interrupted()).
class LineReader {
 public:
  std::optional<std::string> next();

 private:
  std::string buffer_;
  size_t used_ = 0;
  bool ended_ = false;
};

// "1,2,3" or "1 2 3"; `what` names the option in messages.
std::vector<int32_t> parse_ids(const std::string& text, const char* what);

}   // namespace cli
