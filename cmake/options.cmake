# The compile flags of the library (mote_library_flags) and of programs and tests (mote_program_flags), and the
# header mote_build.h with what was chosen at configure time.
set(CMAKE_CXX_STANDARD 20)   # also inside a project of another standard: it is what is tested
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")   # no operating system, no threads
  find_package(Threads REQUIRED)
endif()

# Tests write sizes as uint64_t, as mote.h does: where size_t has 32 bits, only the library's conversions are looked at.
set(mote_conversions -Wconversion)
set(mote_library_conversions)
if(MOTE_BUILD_TESTS AND CMAKE_SIZEOF_VOID_P EQUAL 4)
  set(mote_conversions -Wno-narrowing)
  set(mote_library_conversions -Wconversion -Wnarrowing)
endif()

add_library(mote_common_flags INTERFACE)
target_compile_features(mote_common_flags INTERFACE cxx_std_20)
# A project around this one may have any flags of its own, -Ofast too: ours come after them. Results are defined bit by
# bit, so arithmetic must be what is written; lanes write side by side, so a store must not touch its neighbours.
# The compilers of C and of C++ need not be of one make.
set(mote_gcc "$<OR:$<COMPILE_LANG_AND_ID:C,GNU>,$<COMPILE_LANG_AND_ID:CXX,GNU>>")
set(mote_clang "$<OR:$<COMPILE_LANG_AND_ID:C,Clang,AppleClang>,$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>>")
target_compile_options(mote_common_flags INTERFACE -fno-fast-math -ffp-contract=off
  $<${mote_gcc}:-fno-single-precision-constant> $<${mote_gcc}:-fno-allow-store-data-races>
  -Wall -Wextra -Wpedantic -Wshadow ${mote_conversions}
  $<$<BOOL:${MOTE_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^arm")
  target_compile_options(mote_common_flags INTERFACE $<${mote_gcc}:-Wno-psabi>)   # notes on what gcc 6 did
endif()
if(MOTE_SANITIZE)
  target_compile_options(mote_common_flags INTERFACE -fsanitize=${MOTE_SANITIZE} -fno-sanitize-recover=all -fno-sanitize=vptr
    -fno-omit-frame-pointer)
  target_link_options(mote_common_flags INTERFACE -fsanitize=${MOTE_SANITIZE})
endif()

# Core, backends and platform: nothing that could end the host's process.
add_library(mote_library_flags INTERFACE)
target_link_libraries(mote_library_flags INTERFACE mote_common_flags)
target_compile_options(mote_library_flags INTERFACE ${mote_library_conversions} -fvisibility=hidden
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility-inlines-hidden>
  # One section each, so that a linker with --gc-sections leaves out what an app does not call.
  -ffunction-sections -fdata-sections
  # Unwind tables serve debuggers and profilers: a twelfth of the smallest program.
  $<$<CONFIG:MinSizeRel>:-fno-unwind-tables -fno-asynchronous-unwind-tables>)

# Feedback for libFuzzer, and 64-bit counters that serve coverage reports and the count of work.
if(MOTE_FUZZ)
  target_compile_options(mote_library_flags INTERFACE -fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(mote_common_flags INTERFACE -fprofile-instr-generate)
endif()

# Under sanitizers gcc takes minutes for a source of unrolled intrinsics, with -O3 and a check in line at each load.
set(mote_flags_by_hand)
if(MOTE_SANITIZE)
  set(mote_flags_by_hand -O1)
  if(MOTE_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND mote_flags_by_hand --param=asan-instrumentation-with-call-threshold=0)
  endif()
endif()

# All of a public call fits in 64 KiB of stack (tests/memory); one frame may take a fifth of that. Unoptimised code and
# sanitizers take more than anybody wrote.
if(NOT MOTE_SANITIZE)
  set(mote_optimises "$<NOT:$<OR:$<CONFIG:Debug>,$<CONFIG:>>>")
  target_compile_options(mote_library_flags INTERFACE
    "$<$<AND:${mote_optimises},${mote_gcc}>:-Werror=frame-larger-than=12288>"   # the same, spelled in two ways
    "$<$<AND:${mote_optimises},${mote_clang}>:-Wframe-larger-than=12288;-Werror=frame-larger-than>")
endif()

# mote_shared_flags(TARGET): for shared libraries. 16 KB pages, as newer Android devices have them, and nothing left to
# be found at run time.
function(mote_shared_flags target)
  if(CMAKE_SYSTEM_NAME MATCHES "^(Linux|Android)$")
    target_link_options(${target} PRIVATE -Wl,-z,max-page-size=16384)
    if(NOT MOTE_SANITIZE)
      target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--gc-sections)
    endif()
  endif()
endfunction()

# Command line, examples and tests.
add_library(mote_program_flags INTERFACE)
target_link_libraries(mote_program_flags INTERFACE mote_common_flags mote $<TARGET_NAME_IF_EXISTS:Threads::Threads>)
# Their time goes into being compiled, not into running: what is hot lies in the library. A target that itself computes
# for long names its level as its property MOTE_OPTIMISATION. (Options of its own come before these.)
set(mote_level "$<TARGET_PROPERTY:MOTE_OPTIMISATION>")
if(MOTE_SANITIZE)
  target_compile_options(mote_program_flags INTERFACE $<IF:$<BOOL:${mote_level}>,${mote_level},-O0> -g1)
  # What UBSan says of places is tables of a million addresses, and a program that may lie anywhere mends them all at each start.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(mote_program_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
else()
  target_compile_options(mote_program_flags INTERFACE $<$<CONFIG:Release>:$<IF:$<BOOL:${mote_level}>,${mote_level},-O1>>)
endif()

# mote_build.h: MOTE_BACKEND_<NAME>, MOTE_ARCH_<NAME> (and so on) are 1 for what is built in, else 0. Each
# is also there spelled as in its table (MOTE_FORMAT_q4_0), for code that is made from the table's rows.
set(MOTE_KNOWN_BACKENDS reference cpu vulkan xnnpack)

# The names in the first column of a table of rows MACRO(name, ...); a change of the table configures again.
function(mote_table_names table macro out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${table})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${table} rows REGEX "^${macro}\\(")
  set(names)
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^${macro}\\(([a-z0-9_]+),.*" "\\1" name "${row}")
    list(APPEND names ${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()
mote_table_names(core/model/arches.inc MOTE_ARCHITECTURE MOTE_KNOWN_ARCHES)
mote_table_names(core/format/formats.inc MOTE_FORMAT MOTE_KNOWN_FORMATS)
mote_table_names(core/tokenizer/tokenizer_kinds.inc MOTE_TOKENIZER MOTE_KNOWN_TOKENIZERS)

# "all" becomes the list of what is known, for the folders' own lists too.
set(mote_backends_are_named TRUE)
if(MOTE_BACKENDS STREQUAL "all")
  set(mote_backends_are_named FALSE)
endif()
set(MOTE_KNOWN_INSTRUCTION_SETS avx2 avxvnni avx512 avx512vnni neon dotprod i8mm)
set(mote_own_instruction_sets)   # of the processor that this build is for
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(mote_own_instruction_sets avx2 avxvnni avx512 avx512vnni)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(mote_own_instruction_sets neon dotprod i8mm)
endif()
if(MOTE_INSTRUCTION_SETS STREQUAL "all")
  set(MOTE_INSTRUCTION_SETS "${mote_own_instruction_sets}")   # quoted: an empty list would leave what the cache has
elseif(MOTE_INSTRUCTION_SETS STREQUAL "none")
  set(MOTE_INSTRUCTION_SETS "")
elseif("i8mm" IN_LIST MOTE_INSTRUCTION_SETS)
  list(APPEND MOTE_INSTRUCTION_SETS dotprod)   # whose kernels for few rows it takes
endif()
foreach(list IN ITEMS BACKENDS ARCHES FORMATS TOKENIZERS)
  if(MOTE_${list} STREQUAL "all")
    set(MOTE_${list} "${MOTE_KNOWN_${list}}")
  endif()
endforeach()

# mote_leave_out(BACKEND REASON): what this machine lacks for a backend is a message where the list is `all`, an error
# where the list names it. XNNPACK is downloaded only for those who name it.
macro(mote_leave_out backend reason)
  if(mote_backends_are_named)
    message(FATAL_ERROR "MOTE_BACKENDS names ${backend}, which cannot be built here: ${reason}")
  endif()
  message(STATUS "The backend ${backend} is not built: ${reason}")
  list(REMOVE_ITEM MOTE_BACKENDS ${backend})
endmacro()
include(${CMAKE_CURRENT_LIST_DIR}/vulkan.cmake)
if("xnnpack" IN_LIST MOTE_BACKENDS)
  include(${CMAKE_CURRENT_LIST_DIR}/xnnpack.cmake)
  mote_find_xnnpack(${mote_backends_are_named})
  if(NOT TARGET mote_xnnpack)
    mote_leave_out(xnnpack "there is no XNNPACK of the kind that it calls, and none to be downloaded")
  endif()
endif()

function(mote_build_switches kind chosen known out)
  string(TOUPPER ${kind} prefix)
  foreach(name IN LISTS chosen)
    if(NOT name IN_LIST known)
      message(FATAL_ERROR "there is no ${kind} ${name}; known are: ${known}")
    endif()
  endforeach()
  set(text "")
  set(count 0)
  foreach(name IN LISTS known)
    string(TOUPPER ${name} upper)
    if(name IN_LIST chosen)
      set(built_in 1)
      math(EXPR count "${count} + 1")
    else()
      set(built_in 0)
    endif()
    string(APPEND text "#define MOTE_${prefix}_${upper} ${built_in}\n#define MOTE_${prefix}_${name} ${built_in}\n")
  endforeach()
  set(${out} "${${out}}${text}#define MOTE_${prefix}_COUNT ${count}\n" PARENT_SCOPE)
endfunction()

set(mote_switches "")
mote_build_switches(backend "${MOTE_BACKENDS}" "${MOTE_KNOWN_BACKENDS}" mote_switches)
mote_build_switches(arch "${MOTE_ARCHES}" "${MOTE_KNOWN_ARCHES}" mote_switches)
mote_build_switches(format "${MOTE_FORMATS}" "${MOTE_KNOWN_FORMATS}" mote_switches)
mote_build_switches(tokenizer "${MOTE_TOKENIZERS}" "${MOTE_KNOWN_TOKENIZERS}" mote_switches)
set(mote_instruction_sets)   # a list may name those of several processors
foreach(name IN LISTS MOTE_INSTRUCTION_SETS)
  if(name IN_LIST mote_own_instruction_sets OR NOT name IN_LIST MOTE_KNOWN_INSTRUCTION_SETS)
    list(APPEND mote_instruction_sets ${name})
  endif()
endforeach()
mote_build_switches(kernels "${mote_instruction_sets}" "${MOTE_KNOWN_INSTRUCTION_SETS}" mote_switches)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/mote_build.h CONTENT
  "// Written by CMake: what this build holds.\n#pragma once\n#define MOTE_VERSION \"${PROJECT_VERSION}\"\n${mote_switches}"
  @ONLY)
target_include_directories(mote_common_flags INTERFACE ${PROJECT_BINARY_DIR}/generated)
