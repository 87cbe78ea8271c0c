#include "examples/cli/chat_commands.h"

#include <cstdlib>
#include <new>
#include <string_view>

#include "examples/cli/interrupt.h"
#include "examples/cli/stream.h"

namespace cli {
namespace {

void help(Chat&, const std::string&);

struct Command {
  std::string_view name;
  const char* argument;   // what must follow, or null: nothing may
  const char* help;
  void (*run)(Chat& chat, const std::string& argument);
};

constexpr Command kCommands[] = {
    {"/help", nullptr, "this list", help},
    {"/reset", nullptr, "forget all questions and answers, but not the words of the system",
     [](Chat& chat, const std::string&) {
       chat.reset();
       write_note("what was said is forgotten");
     }},
    {"/save", "FILE", "write this chat to a file", [](Chat& chat, const std::string& path) { chat.save(path); }},
    {"/load", "FILE", "go on with the chat of such a file instead",
     [](Chat& chat, const std::string& path) { chat.load(path); }},
    {"/stats", nullptr, "tokens, speed, context and memory", [](Chat& chat, const std::string&) { chat.tell_stats(); }},
};

void help(Chat&, const std::string&) {
  for (const Command& command : kCommands) {
    std::string left =
        std::string(command.name) + (command.argument == nullptr ? "" : std::string(" ") + command.argument);
    left.resize(12, ' ');
    write_note(left + " " + command.help);
  }
  write_note("A question may begin with / where a blank stands in front.");
}

size_t word_end(std::string_view line) {
  size_t end = 1;
  while (end < line.size() && ((line[end] >= 'a' && line[end] <= 'z') || (line[end] >= 'A' && line[end] <= 'Z'))) ++end;
  return end;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

// ~/file is a file of the user's, as in a shell.
std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.compare(0, 2, "~/") == 0 && home != nullptr ? home + path.substr(1) : path;
}

}   // namespace

bool is_command(const std::string& line) {
  if (line.empty() || line[0] != '/' || line.find('\n') != std::string::npos) return false;
  const size_t end = word_end(line);
  return end > 1 && (end == line.size() || is_blank(line[end]));
}

void run_command(Chat& chat, const std::string& line) {
  const size_t end = word_end(line);
  const std::string name = line.substr(0, end), argument = trimmed(std::string_view(line).substr(end));
  const Command* command = nullptr;
  for (const Command& known : kCommands)
    if (known.name == name) command = &known;
  if (command == nullptr)
    return write_note(name + " is no command; /help lists them. With a blank in front it is a question.");
  if (command->argument != nullptr && argument.empty())
    return write_note(name + " wants a " + command->argument + " behind it");
  if (command->argument == nullptr && !argument.empty()) return write_note(name + " wants nothing behind it");
  try {
    const CancelOnInterrupt cancel(chat.session());
    command->run(chat, with_home(argument));
  } catch (const Failure& failure) {
    write_note(failure.message.empty() ? name + " was interrupted" : failure.message);
  } catch (const std::bad_alloc&) {
    write_note(name + ": there is not enough memory for it");
  }
  forget_interrupts();
}

}   // namespace cli
