#include "backends/vulkan/kernels.h"

#include "vulkan_shaders.h"

namespace mote {

ShaderCode shader_code(Kernel kernel) {
  switch (kernel) {
#define MOTE_SHADER(name, file, ...) \
  case Kernel::name:                 \
    return {#name, mote_spirv_##name, sizeof mote_spirv_##name};
#include "shaders/variants.inc"
#undef MOTE_SHADER
  }
  return {"", nullptr, 0};
}

}   // namespace mote
