// The table of architectures. Each is one function that writes the forward pass as a plan.
#pragma once
#include <span>
#include <string_view>

#include "core/model/config.h"
#include "core/model/weights.h"
#include "core/ops/plan_builder.h"

namespace mote {

struct ArchitectureEntry {
  std::string_view name;
  Status (*build)(PlanBuilder& b, Weights& w, const gguf::File& file, const Config& config);
  std::string_view runs[4] = {};   // settings that others refuse; empty: none
};

std::span<const ArchitectureEntry> architectures();

// The row of this name; unsupported, with the names that are there, otherwise.
Result<const ArchitectureEntry*> find_architecture(std::string_view name);

}   // namespace mote
