#!/bin/sh
# Builds everything with warnings as errors and runs all tests; on a fresh machine it first installs what is missing.
#
#   tests/run.sh [--real] [CTEST ARGUMENTS...]
#
# --real adds the tests that download larger models. What follows goes to ctest, whose lines are the last ones printed.
# MOTE_GOLDENS_DIR: a full set of reference outputs to compare with; naming one that is not there is a failure.
# The builds are presets of their own under build/, so a second run only builds what changed.
set -eu
mote_root=$(cd "$(dirname "$0")/.." && pwd)
. "$mote_root/tools/dependencies.sh"
. "$mote_root/tools/oldest.sh"
. "$mote_root/tools/kotlin.sh"
cd "$mote_root"

case ${1:-} in -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
test_spec_real='~[large]'
if [ "${1:-}" = --real ]; then
  shift
  test_spec_real='*'
fi
if [ -n "${MOTE_GOLDENS_DIR:-}" ]; then
  [ -d "$MOTE_GOLDENS_DIR" ] || die "MOTE_GOLDENS_DIR names $MOTE_GOLDENS_DIR, which is not a folder"
  MOTE_GOLDENS_DIR=$(cd "$MOTE_GOLDENS_DIR" && pwd)
  export MOTE_GOLDENS_DIR
fi

started=$(date +%s)
cmake=cmake
heading() { printf '== %s (%s s)\n' "$*" "$(($(date +%s) - started))"; }

# build PRESET SANITIZER FOLDER OPTIONS...: configures into build/FOLDER and builds all of it, quietly while all is well.
build() {
  preset=$1
  sanitizer=$2
  folder=build/$3
  shift 3
  heading "building $folder"
  case $folder in
    */size | */fuzz | */oldest | */reference-only) ;;   # no test program of theirs is Catch2's
    *) need_catch2 "${CXX:-c++}" "$sanitizer" ;;
  esac
  mkdir -p "$folder"
  "$cmake" --preset "$preset" -B "$folder" -DMOTE_WARNINGS_AS_ERRORS=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" \
    -DCMAKE_PREFIX_PATH="$catch2_prefix" "$@" \
    > "$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; die "$folder could not be configured"; }
  "$cmake" --build "$folder" > "$folder/build.log" 2>&1 || { tail -n 60 "$folder/build.log"; die "$folder does not build"; }
}

heading "installing what is missing"
need_packages program tests
(need_packages editing) || say "chats are built without line editing, which is not tested: libedit is not to be had here"
(need_packages browser) || say "the page of mote attention is not looked at: no chromium is to be had here"
has_clang=yes
(need_packages checks) || has_clang=no
(need_packages firmware) || say "examples/firmware is not tried here: there is no compiler or emulator for its boards"
# Vulkan with a driver that needs no GPU. Where that is there, its tests may not be skipped.
if (need_packages vulkan); then
  MOTE_VULKAN_MUST_RUN=1
  export MOTE_VULKAN_MUST_RUN
else
  say "the Vulkan backend is not tested here, or not in full: its headers, tools, layers or a driver are not to be had"
fi
# The Java bridge, where a JDK and Kotlin can be had.
with_jni=OFF
if (need_packages java) && JAVA_HOME=$(find_java_home) && [ -e "$JAVA_HOME/include/jni.h" ] && MOTE_KOTLIN=$(need_kotlin); then
  export JAVA_HOME MOTE_KOTLIN
  with_jni=ON
else
  say "the Java bridge is not tested: a JDK, maven or Kotlin is not to be had here"
fi
has_emulators=yes
(need_packages emulators aarch64 armhf) || has_emulators=no

mkdir -p build
# Quickstart first, as a new user would; its second run is one of the tests.
heading "examples/quickstart.sh"
examples/quickstart.sh > build/quickstart.txt
MOTE_SMOLLM2=$(need_model smollm2)
export MOTE_SMOLLM2
if [ "$test_spec_real" = '*' ]; then
  . "$mote_root/tools/vocabularies.sh"
  . "$mote_root/tools/minilm.sh"
  MOTE_GEMMA3=$(need_model gemma3)
  MOTE_VOCABULARIES=$(need_vocabularies)
  MOTE_MINILM=$(need_minilm)
  export MOTE_GEMMA3 MOTE_VOCABULARIES MOTE_MINILM
fi

# XNNPACK once for this machine, for all builds that have the backend; without it they are built all the same.
need_xnnpack "${CXX:-c++}"
with_xnnpack=-DMOTE_XNNPACK_DIR=$xnnpack_prefix

# All tests under the address and undefined-behaviour sanitizers, but for real models; and all in the optimised build.
build dev address,undefined dev "$with_xnnpack"
build ci '' ci -DMOTE_TEST_SPEC="$test_spec_real" -DMOTE_JNI="$with_jni" "$with_xnnpack"
# ThreadSanitizer for the tests that start threads, by clang where it is to be had.
thread_folders='-DMOTE_TEST_FOLDERS=api;backends;conformance;determinism;memory;platform;support'
emulated_folders='-DMOTE_TEST_FOLDERS=base;format;gguf;reach;support'
emulated_spec='-DMOTE_TEST_SPEC=~[real]~[large]~[long]'
first_cc=$CC first_cxx=$CXX
if [ $has_clang = yes ]; then
  CC=clang-19 CXX=clang++-19
else
  say "clang 19 is not to be had here: ${CXX:-c++} builds what clang would"
fi
build tsan thread tsan "$thread_folders" "$with_xnnpack" -DMOTE_BUILD_EXAMPLES=OFF
# One backend and a few formats, as others choose them; by clang too, and with the program and the examples.
build release '' reference-only -DMOTE_BACKENDS=reference '-DMOTE_FORMATS=f32;q4_1;q8_0' -DMOTE_TOKENIZERS=gpt2
all_builds='dev ci tsan size'
if [ $has_clang = yes ]; then
  build fuzz address,undefined fuzz
  all_builds="$all_builds fuzz"
else
  say "without clang the fuzz corpora are not run"
fi
CC=$first_cc CXX=$first_cxx
# ARM of 64 and 32 bits, in emulators: the folders that say most about bits and sizes. (The bits are compared with those
# of the ci build.) tests/reach/README.md has the way to all tests.
if [ $has_emulators = yes ]; then
  for target in aarch64:aarch64-linux-gnu armhf:arm-linux-gnueabihf; do
    CXX=$(cross_compiler "${target#*:}")
    need_catch2 "$CXX" ''
    if [ -z "$catch2_prefix" ]; then
      say "nothing is run as ${target%:*}: Catch2 for it is not to be had here"
      continue
    fi
    # The backend xnnpack on 64-bit ARM, whose kernels are others: by the conformance suite.
    more_folders='' more_spec=''
    xnnpack_prefix=''
    [ "$target" != aarch64:aarch64-linux-gnu ] || need_xnnpack "$CXX"
    [ -z "$xnnpack_prefix" ] || { more_folders=';conformance'; more_spec='~[special]'; }
    build "${target%:*}" '' "${target%:*}" "$emulated_folders$more_folders" "$emulated_spec$more_spec" \
      -DMOTE_XNNPACK_DIR="$xnnpack_prefix"
    all_builds="$all_builds ${target%:*}"
  done
  CXX=$first_cxx
else
  say "no cross compilers or no qemu-user to be had here: nothing is run as ARM"
fi
# The smallest, as others choose it too.
build size '' size
# The library by the oldest tools that it promises, with the C++ library that Android has.
if (need_packages oldest) && cmake=$(need_oldest_cmake); then
  (CC=clang-14 CXX=clang++-14 && build release '' oldest -DMOTE_BUILD_EXAMPLES=OFF -DCMAKE_CXX_FLAGS=-stdlib=libc++)
else
  say "the library was not built with clang 14 and CMake 3.22: they are not to be had here"
fi

# One run over the test lists of all builds, so that one summary counts everything.
mkdir -p build/all
for folder in $all_builds; do printf 'subdirs(../%s)\n' "$folder"; done > build/all/CTestTestfile.cmake
heading "running the tests"
exec ctest --test-dir build/all --output-on-failure --no-tests=error --output-log build/all/ctest.log -j "$(nproc)" "$@"
