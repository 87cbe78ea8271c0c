// Prints, as Markdown, what this build runs: its architectures, and each backend's ops and formats, asked of its own
// supports().
#include <cstdio>
#include <string>
#include <vector>

#include "core/model/architecture.h"
#include "core/mote_dev.h"

namespace {

std::vector<std::string> names(const char* (*name)(uint32_t)) {
  std::vector<std::string> found;
  for (uint32_t i = 0; name(i) != nullptr; ++i) found.push_back(name(i));
  return found;
}

void print_row(const std::string& head, const std::vector<std::string>& cells) {
  std::string line = "| " + head + " |";
  for (const std::string& cell : cells) line += " " + cell + " |";
  std::puts(line.c_str());
}

// "yes", "-" or, where the answer depends on the weight format, the formats that run.
std::string answer(const mote_engine* engine, const std::string& backend, const std::string& op,
                   const std::vector<std::string>& formats) {
  std::string some;
  size_t n = 0;
  for (const std::string& format : formats)
    if (mote_dev_supports(engine, backend.c_str(), op.c_str(), format.c_str())) some += (n++ ? ", " : "") + format;
  if (n == formats.size()) return "yes";
  return n == 0 ? "-" : some;
}

}   // namespace

int main() {
  std::string every;   // also what "auto" does not take; without its device a backend runs nothing
  for (uint32_t i = 0; const char* name = mote_dev_backend_name(i); ++i)
    every += (i == 0 ? "" : ",") + std::string(name);
  mote_engine_options options = {};
  options.struct_bytes = sizeof options;
  options.backends = every.c_str();
  mote_engine* engine = nullptr;
  mote_error error = {};
  if (mote_engine_open(&options, {nullptr, 0}, &engine, &error)) {
    std::fprintf(stderr, "support_matrix: %s\n", error.message);
    return 1;
  }
  std::string architectures = "Architectures:";
  for (const mote::ArchitectureEntry& entry : mote::architectures())
    architectures += " `" + std::string(entry.name) + "`";
  std::puts((architectures + ".\n").c_str());
  const std::vector<std::string> backends = names(mote_dev_backend_name);
  const std::vector<std::string> formats = names(mote_dev_format_name);
  print_row("op", backends);
  print_row("---", std::vector<std::string>(backends.size(), "---"));
  for (const std::string& op : names(mote_dev_op_name)) {
    std::vector<std::string> cells;
    for (const std::string& backend : backends) cells.push_back(answer(engine, backend, op, formats));
    print_row("`" + op + "`", cells);
  }
  std::string list = "\nWeight formats:";
  for (const std::string& format : formats) list += " `" + format + "`";
  std::puts((list + ".").c_str());
  return mote_engine_close(engine, &error) ? 1 : 0;
}
