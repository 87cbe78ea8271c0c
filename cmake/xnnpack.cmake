# mote_find_xnnpack(DOWNLOAD): the target mote_xnnpack, XNNPACK as one static archive, where it can be had; else no target.
# In this order:
#   1. MOTE_XNNPACK_DIR, an installation of cmake/xnnpack. tests/run.sh makes one in the scripts' cache.
#   2. An installed static XNNPACK that has the functions that backends/xnnpack calls. (Debian's is a shared library.)
#   3. When DOWNLOAD is true, that is when MOTE_BACKENDS names xnnpack: cmake/xnnpack inside this build, with the sources in
#      MOTE_SOURCES, else downloaded at the pinned commit.
function(mote_find_xnnpack download)
  if(MOTE_XNNPACK_DIR)
    set(archive ${MOTE_XNNPACK_DIR}/lib/libmote_xnnpack.a)
    if(EXISTS ${archive})
      mote_import_xnnpack(${MOTE_XNNPACK_DIR}/include ${archive})
      return()
    endif()
    message(STATUS "MOTE_XNNPACK_DIR is ${MOTE_XNNPACK_DIR}, which has no lib/libmote_xnnpack.a")
  endif()
  mote_find_installed_xnnpack()
  if(TARGET mote_xnnpack OR NOT download)
    return()
  endif()
  if(NOT MOTE_SOURCES)
    find_package(Git QUIET)
    set(reached 1)
    if(GIT_FOUND)
      execute_process(COMMAND ${GIT_EXECUTABLE} ls-remote --exit-code https://github.com/google/XNNPACK.git HEAD
        RESULT_VARIABLE reached OUTPUT_QUIET ERROR_QUIET TIMEOUT 30)
    endif()
    if(NOT reached EQUAL 0)
      return()
    endif()
    message(STATUS "No XNNPACK is installed: downloading it")
  endif()
  add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/xnnpack ${PROJECT_BINARY_DIR}/xnnpack EXCLUDE_FROM_ALL)
endfunction()

function(mote_import_xnnpack include_dir)
  add_library(mote_xnnpack INTERFACE)
  target_include_directories(mote_xnnpack SYSTEM INTERFACE ${include_dir})
  target_link_libraries(mote_xnnpack INTERFACE ${ARGN} m)
  set_target_properties(mote_xnnpack PROPERTIES MOTE_ARCHIVES "${ARGN}")
  list(GET ARGN 0 archive)
  message(STATUS "XNNPACK: ${archive}")
endfunction()

function(mote_find_installed_xnnpack)
  find_path(MOTE_XNNPACK_INCLUDE_DIR xnnpack.h)
  foreach(name IN ITEMS XNNPACK microkernels-prod cpuinfo)
    find_library(MOTE_LIBRARY_${name} NAMES lib${name}.a)
  endforeach()
  mark_as_advanced(MOTE_XNNPACK_INCLUDE_DIR MOTE_LIBRARY_XNNPACK MOTE_LIBRARY_microkernels-prod MOTE_LIBRARY_cpuinfo)
  if(NOT MOTE_XNNPACK_INCLUDE_DIR OR NOT MOTE_LIBRARY_XNNPACK OR NOT MOTE_LIBRARY_microkernels-prod OR NOT MOTE_LIBRARY_cpuinfo)
    return()
  endif()
  set(libraries ${MOTE_LIBRARY_XNNPACK} ${MOTE_LIBRARY_microkernels-prod} ${MOTE_LIBRARY_cpuinfo})
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${MOTE_XNNPACK_INCLUDE_DIR})
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)   # the functions of pthreadpool are the backend's
  check_cxx_source_compiles("
    #include <xnnpack.h>
    auto a = static_cast<xnn_status (*)(xnn_binary_operator, xnn_datatype, const xnn_quantization_params*,
      const xnn_quantization_params*, const xnn_quantization_params*, uint32_t, xnn_operator_t*)>(xnn_create_binary_elementwise_nd);
    auto b = static_cast<xnn_status (*)(size_t, size_t, size_t, size_t, const float*, const int8_t*, const float*, float,
      float, uint32_t, xnn_code_cache_t, xnn_weights_cache_t, xnn_operator_t*)>(xnn_create_fully_connected_nc_qd8_f32_qc8w);
    auto c = static_cast<xnn_status (*)(uint32_t, xnn_operator_t*)>(xnn_create_rope_nthc_f32);
    " MOTE_XNNPACK_IS_NEW_ENOUGH)
  if(MOTE_XNNPACK_IS_NEW_ENOUGH)
    mote_import_xnnpack(${MOTE_XNNPACK_INCLUDE_DIR} ${libraries})
  else()
    message(STATUS "The installed XNNPACK (${MOTE_LIBRARY_XNNPACK}) is not the version that backends/xnnpack calls")
  endif()
endfunction()
