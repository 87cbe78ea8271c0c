# Toolchain: Cortex-M without an operating system, with arm-none-eabi-gcc and newlib.
# MOTE_BOARD is one of the boards of boards/, all of which qemu-system-arm emulates.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
# A program cannot be linked before there is start-up code.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MOTE_BOARD)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

set(MOTE_BOARD mps3-an547 CACHE STRING "mps3-an547 (Cortex-M55) or mps2-an386 (Cortex-M4)")
if(MOTE_BOARD STREQUAL "mps3-an547")
  # Without Helium's floats: their vectors turn subnormals to zero, and mote's results are defined bit by bit.
  set(cpu_flags "-mcpu=cortex-m55+nomve.fp -mfloat-abi=hard")
elseif(MOTE_BOARD STREQUAL "mps2-an386")
  set(cpu_flags "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard")
else()
  message(FATAL_ERROR "MOTE_BOARD is '${MOTE_BOARD}'; known are mps3-an547 and mps2-an386")
endif()
set(common_flags "${cpu_flags} -mthumb -ffunction-sections -fdata-sections")
set(CMAKE_C_FLAGS_INIT "${common_flags}")
set(CMAKE_CXX_FLAGS_INIT "${common_flags} -fno-unwind-tables -fno-asynchronous-unwind-tables")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -M ${MOTE_BOARD} -display none -monitor none -serial none
  -chardev stdio,id=output -semihosting-config enable=on,target=native,chardev=output -kernel)
