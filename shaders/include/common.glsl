// What every shader starts with: the size of a work group and the rows of the run.
#include "../shared.h"

layout(local_size_x = MOTE_VK_GROUP) in;

// Written by the host before each run: the layout of BatchHeader in backends/vulkan/lowering.h.
#define MOTE_VK_BATCH(number)                        \
  layout(set = 0, binding = number) readonly buffer Batch { \
    uint batch_rows;                                 \
    uint batch_outputs;                              \
    uint batch_first_position;                       \
  };
