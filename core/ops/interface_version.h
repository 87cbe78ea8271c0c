// The number of the interface that a backend was compiled against. It is made from what is compiled into a backend: the
// sizes of what crosses the border, the ops and the formats in their order. So a change of these is a new number by
// itself; a change that no size shows (the order of virtual functions, the meaning of a field) raises
// kInterfaceEdition.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/ops/plan.h"
#include "platform/parallel.h"

namespace mote {

inline constexpr uint32_t kInterfaceEdition = 6;

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
class InterfaceHash {
 public:
  constexpr void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<uint8_t>(c)) * 16777619u;
  }
  constexpr void add(size_t number) {
    for (int shift = 0; shift < 32; shift += 8) value_ = (value_ ^ static_cast<uint8_t>(number >> shift)) * 16777619u;
  }
  constexpr uint32_t value() const { return value_; }

 private:
  uint32_t value_ = 2166136261u;
};

// `more`: the sizes of backend.h's own structs.
template <class... More>
constexpr uint32_t interface_version() {
  InterfaceHash hash;
  hash.add(size_t{kInterfaceEdition});
  for (const size_t size :
       {sizeof(Step), sizeof(Value), sizeof(State), sizeof(Matrix), sizeof(Vector), sizeof(Plan), sizeof(ValueInfo),
        sizeof(StateInfo), sizeof(PlanPart), sizeof(Arena), sizeof(Status), sizeof(Parallel), sizeof(More)...})
    hash.add(size);
#define MOTE_OP(name, inputs, state, in_place) hash.add(std::string_view(#name));
#include "core/ops/ops.inc"
#undef MOTE_OP
#define MOTE_FORMAT(name, number, values, bytes) hash.add(std::string_view(#name));
#include "core/format/formats.inc"
#undef MOTE_FORMAT
  return hash.value();
}

}   // namespace mote
