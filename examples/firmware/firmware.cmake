# mote_firmware_program(NAME SOURCES...): a program with the model in it, on the board or on the host.
# mote_firmware_quote(NAME EMULATOR...): runs the program NAME, which prints a header, and makes firmware_quote.h of it.
set(mote_firmware_folder ${CMAKE_CURRENT_LIST_DIR})

# Above all of mote's headers; only the two public ones are used.
get_filename_component(mote_firmware_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)

function(mote_firmware_program name)
  add_executable(${name} ${ARGN} ${mote_firmware_folder}/model.c)
  set_target_properties(${name} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON LINKER_LANGUAGE C)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers
    $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>)
  target_compile_definitions(${name} PRIVATE FIRMWARE_ROOM_BYTES=131072)
  target_link_libraries(${name} PRIVATE mote::mote)
  set_source_files_properties(${mote_firmware_folder}/model.c TARGET_DIRECTORY ${name} PROPERTIES
    COMPILE_DEFINITIONS FIRMWARE_MODEL_FILE="${MOTE_FIRMWARE_MODEL}" OBJECT_DEPENDS "${MOTE_FIRMWARE_MODEL}")
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")
    target_sources(${name} PRIVATE ${mote_firmware_folder}/host.c)
    return()
  endif()
  target_sources(${name} PRIVATE ${mote_firmware_folder}/startup.c)
  set(script ${mote_firmware_folder}/boards/${MOTE_BOARD}.ld)
  set_target_properties(${name} PROPERTIES SUFFIX .elf LINK_DEPENDS "${script};${mote_firmware_folder}/sections.ld")
  # No nosys.specs: nobody defines _sbrk, so the C library's malloc cannot be linked. sections.ld says it in words.
  target_link_options(${name} PRIVATE --specs=nano.specs -nostartfiles -L${mote_firmware_folder} -T${script}
    -Wl,--gc-sections -Wl,--print-memory-usage -Wl,--fatal-warnings -Wl,-z,noexecstack
    -Wl,-Map=$<TARGET_FILE:${name}>.map)
endfunction()

function(mote_firmware_quote name)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/firmware_quote.h
    COMMAND ${CMAKE_COMMAND} "-DCOMMAND=${ARGN};$<TARGET_FILE:${name}>"
      -DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/firmware_quote.h -P ${mote_firmware_folder}/write_quote.cmake
    DEPENDS ${name} ${mote_firmware_folder}/write_quote.cmake VERBATIM
    COMMENT "Asking ${name} what the model takes")
endfunction()
