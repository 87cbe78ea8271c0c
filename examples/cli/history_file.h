// What the user has asked in chats, one line a question, for the arrow keys of the next chat: a file of the user's
// alone.
#pragma once
#include <string>
#include <vector>

namespace cli {

class HistoryFile {
 public:
  // $XDG_STATE_HOME/mote/history, or ~/.local/state/mote/history; "": the environment names no folder for it.
  static std::string usual_path();

  explicit HistoryFile(std::string path) : path_(std::move(path)) {}   // "": nothing is read or written
  // The last 1000, oldest first. What is no history, or cannot be read, is none; a note says so.
  std::vector<std::string> read() const;
  // Reads the file anew, in which other chats may have written, and puts this behind it. The first failure is told.
  void add(const std::string& text);

 private:
  std::vector<std::string> lines() const;   // as they stand in the file
  void give_up(const std::string& why) const;

  std::string path_;
  mutable bool failed_ = false;
};

}   // namespace cli
