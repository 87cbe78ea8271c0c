// A file that is complete or not there: written under a temporary name beside its place and renamed at the end.
// Devices, pipes, /dev/std* and a file that a descriptor of the program is already open for writing on (a redirection,
// under any name) are written directly; a symbolic link stays a link and its target is replaced. Other
// hard links of a file that is replaced keep what it held.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "examples/cli/interrupt.h"

namespace cli {

class OutputFile {
 public:
  // `user`: nobody else may read it, whatever the permissions of the file that was there. `user_at_first`: so a new
  // one; one that was there keeps its permissions.
  enum class Readers { all, user, user_at_first };
  explicit OutputFile(const std::string& path, Readers readers = Readers::all);
  ~OutputFile();   // without finish(): the temporary file is removed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  void share(int descriptor);
  void open_temporary(Readers readers);

  std::string path_;     // as the user gave it, for messages
  std::string target_;   // what is replaced in the end; empty: written directly
  std::string temporary_;
  std::unique_ptr<RemoveOnInterrupt> cleaner_;
  int descriptor_ = -1;
};

}   // namespace cli
