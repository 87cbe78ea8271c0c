// The SPIR-V modules of shaders/variants.inc.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mote {

enum class Kernel : uint8_t {
#define MOTE_SHADER(name, file, ...) name,
#include "shaders/variants.inc"
#undef MOTE_SHADER
};
#define MOTE_SHADER(name, file, ...) +1
inline constexpr uint32_t kKernelCount = 0
#include "shaders/variants.inc"
    ;
#undef MOTE_SHADER

struct ShaderCode {
  const char* name;
  const uint32_t* words;
  size_t bytes;
};
ShaderCode shader_code(Kernel kernel);

}   // namespace mote
