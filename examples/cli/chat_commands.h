// What begins with / at a chat's prompt.
#pragma once
#include <string>

#include "examples/cli/chat.h"

namespace cli {

// "/word", alone or with a blank and more behind it, on one line. Everything else is a question: "/etc/hosts has what
// in it?", " /help" (a blank in front), and a pasted text of several lines.
bool is_command(const std::string& line);

// Carries it out and says what came of it, on standard error. What fails or is no command of ours is a sentence; the
// chat goes on.
void run_command(Chat& chat, const std::string& line);

}   // namespace cli
