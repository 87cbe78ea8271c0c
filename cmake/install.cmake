# What `cmake --install` gives: the archive (and libmote.so), the headers, packages for CMake and pkg-config, and the
# program where it was built.
#
# Headers keep their paths from the root of the tree below include/mote, so an app includes "core/mote.h" in either case.
# core/ops and what it includes are for backends of an app's own. They follow the version: any release may change them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(mote_include_dir ${CMAKE_INSTALL_INCLUDEDIR}/mote)
set(mote_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mote)

set(mote_headers
  core/mote.h core/mote.hpp
  core/ops/backend.h core/ops/first_nan.h core/ops/interface_version.h core/ops/ops.inc core/ops/plan.h core/ops/plan_builder.h
  core/ops/rope_angles.h core/ops/step.h
  core/base/arena.h core/base/checked.h core/base/result.h core/base/status.h
  core/format/format.h core/format/formats.inc
  platform/parallel.h)
foreach(header IN LISTS mote_headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${mote_include_dir}/${folder})
endforeach()

# What the archive's backends need beside it: XNNPACK's archives, in one folder.
set(mote_xnnpack_names "")
if(TARGET mote_xnnpack)
  get_target_property(archives mote_xnnpack MOTE_ARCHIVES)
  foreach(archive IN LISTS archives)
    get_filename_component(name ${archive} NAME)
    list(APPEND mote_xnnpack_names ${name})
  endforeach()
  install(FILES ${archives} DESTINATION ${CMAKE_INSTALL_LIBDIR}/mote)
endif()

install(TARGETS mote EXPORT mote_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${mote_include_dir})
install(EXPORT mote_targets NAMESPACE mote:: DESTINATION ${mote_cmake_dir} FILE mote-targets.cmake)
if(MOTE_SHARED)
  install(TARGETS mote_shared EXPORT mote_shared_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} INCLUDES DESTINATION ${mote_include_dir})
  install(EXPORT mote_shared_targets NAMESPACE mote:: DESTINATION ${mote_cmake_dir} FILE mote-shared-targets.cmake)
endif()
if(TARGET mote_program)
  install(TARGETS mote_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET mote_jni)
  install(TARGETS mote_jni LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/mote-config.cmake.in ${PROJECT_BINARY_DIR}/generated/mote-config.cmake
  INSTALL_DESTINATION ${mote_cmake_dir} NO_SET_AND_CHECK_MACRO)
# Until 1.0 a minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/mote-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/mote-config.cmake ${PROJECT_BINARY_DIR}/generated/mote-config-version.cmake
  DESTINATION ${mote_cmake_dir})

# mote.pc finds its prefix from where it lies, so an installation may be moved. The archive's own needs stand in Libs:
# without a libmote.so beside it, -lmote is the archive whether or not pkg-config is asked for --static.
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
endif()
set(pc_libs "-lm -pthread")
if(CMAKE_DL_LIBS)
  string(APPEND pc_libs " -l${CMAKE_DL_LIBS}")
endif()
if(MOTE_PLATFORM STREQUAL "bare")
  set(pc_libs "-lm")
endif()
foreach(name IN LISTS mote_xnnpack_names)
  set(pc_libs "\${libdir}/mote/${name} ${pc_libs}")
endforeach()
set(pc_private "")
if(MOTE_SHARED)
  set(pc_private "${pc_libs}")
  set(pc_libs "")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/mote.pc.in ${PROJECT_BINARY_DIR}/generated/mote.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/mote.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
