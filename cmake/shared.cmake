# libmote.so: the archive's objects, but for those of the API, which are compiled again so that its symbols can be seen.
set(other_objects $<FILTER:$<TARGET_OBJECTS:mote>,EXCLUDE,/core/api_[a-z]+\\.cpp\\.>)
add_library(mote_shared SHARED ${MOTE_API_SOURCES} ${other_objects})
add_library(mote::shared ALIAS mote_shared)
set_target_properties(mote_shared PROPERTIES OUTPUT_NAME mote EXPORT_NAME shared UNITY_BUILD OFF LINKER_LANGUAGE C)
if(NOT ANDROID)
  # Until 1.0 a minor version may change the API.
  set_target_properties(mote_shared PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
target_include_directories(mote_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_link_libraries(mote_shared PRIVATE $<BUILD_INTERFACE:mote_library_flags> Threads::Threads m ${CMAKE_DL_LIBS}
  $<TARGET_NAME_IF_EXISTS:mote_xnnpack>)
mote_shared_flags(mote_shared)
