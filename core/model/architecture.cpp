#include "core/model/architecture.h"

#include "mote_build.h"

// MOTE_IF(1)(text) is the text, MOTE_IF(0)(text) is nothing: leaves out the rows that are not built in.
#define MOTE_IF_0(...)
#define MOTE_IF_1(...) __VA_ARGS__
#define MOTE_IF_(on) MOTE_IF_##on
#define MOTE_IF(on) MOTE_IF_(on)

namespace mote {

// Each row has at least the build function behind its name.
#define MOTE_FIRST(first, ...) first
#define MOTE_ARCHITECTURE(name, ...) \
  Status MOTE_FIRST(__VA_ARGS__, )(PlanBuilder & b, Weights & w, const gguf::File& file, const Config& config);
#include "core/model/arches.inc"
#undef MOTE_ARCHITECTURE

namespace {

constexpr ArchitectureEntry kArchitectures[] = {
#define MOTE_ARCHITECTURE(name, ...) MOTE_IF(MOTE_ARCH_##name)({#name, __VA_ARGS__}, )
#include "core/model/arches.inc"
#undef MOTE_ARCHITECTURE
};

}   // namespace

std::span<const ArchitectureEntry> architectures() { return kArchitectures; }

Result<const ArchitectureEntry*> find_architecture(std::string_view name) {
  char known[256];
  uint32_t length = 0;
  known[0] = 0;
  for (const ArchitectureEntry& entry : architectures()) {
    if (entry.name == name) return &entry;
    const FormatArgument arguments[] = {FormatArgument(length == 0 ? "" : ", "), FormatArgument(entry.name)};
    length += format_sentence(known + length, static_cast<uint32_t>(sizeof known) - length, "{}{}", arguments, 2);
  }
  return Status::error(Code::unsupported, "general.architecture is {}; this build runs {}", name,
                       std::string_view(known, length));
}

}   // namespace mote
