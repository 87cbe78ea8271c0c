# Catch2 3, for the tests: an installed one (CMAKE_PREFIX_PATH may name a folder of the scripts' cache), else the pinned
# release, downloaded and built here. tests/run.sh sees to the former; the latter serves other systems.
find_package(Catch2 3 QUIET)
if(NOT Catch2_FOUND)
  include(FetchContent)
  message(STATUS "No Catch2 3 is installed: downloading release 3.7.1")
  FetchContent_Declare(Catch2
    URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
    URL_HASH SHA256=c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c)
  FetchContent_MakeAvailable(Catch2)
  list(APPEND CMAKE_MODULE_PATH ${catch2_SOURCE_DIR}/extras)
endif()
include(Catch)
