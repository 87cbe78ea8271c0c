# shellcheck shell=sh
# The oldest tools that the README names, so that a build in CI keeps it true. To be sourced after dependencies.sh.
#
#   need_oldest_cmake        prints the path of CMake 3.22; status 1 and a sentence where it cannot be had
#   need_packages oldest     clang 14, with the C++ library that comes with it

mote_cache=${mote_cache:?source tools/dependencies.sh first}

# CMake 3.22.6 as PyPI's package of that name has it (BSD-3-Clause): the wheel is a zip to us, unpacked into the cache.
oldest_cmake_version=3.22.6
oldest_cmake_wheels='
x86_64  a2357c510e37db7df156c31ab43857b4583e3a2ece8220747e8a007aea50aa45
aarch64 41837714e05f2c2211afa67f5c5fc05c06732e343ac78f81a929b6516e7588c4
'

need_oldest_cmake() {
  machine=$(uname -m)
  oldest_cmake=$mote_cache/cmake-$oldest_cmake_version-$machine
  wheel_sha256=$(printf '%s' "$oldest_cmake_wheels" | awk -v m="$machine" '$1 == m { print $2 }')
  [ -n "$wheel_sha256" ] || { say "no CMake $oldest_cmake_version is pinned for $machine"; return 1; }
  if [ ! -x "$oldest_cmake/data/bin/cmake" ]; then
    (need_packages model) || return 1
    work=$(mktemp -d "$mote_cache/.cmake.XXXXXX") || return 1
    unpack_cmake "$work" "$wheel_sha256" || { rm -rf "$work"; return 1; }
    rm -rf "$oldest_cmake"
    mv "$work/root/cmake" "$oldest_cmake"
    rm -rf "$work"
  fi
  "$oldest_cmake/data/bin/cmake" --version > /dev/null 2>&1 ||
    { say "CMake $oldest_cmake_version does not run on this machine"; return 1; }
  echo "$oldest_cmake/data/bin/cmake"
}

# unpack_cmake FOLDER SHA256: the wheel's files under FOLDER/root.
unpack_cmake() {
  python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check --quiet \
    --dest "$1" "cmake==$oldest_cmake_version" >&2 || { say "pip could not download cmake==$oldest_cmake_version"; return 1; }
  set -- "$1" "$2" "$1"/*.whl
  sha256_is "$2" "$3" || { say "the package cmake $oldest_cmake_version is not the pinned one"; return 1; }
  python3 -m zipfile -e "$3" "$1/root" >&2 && chmod +x "$1/root/cmake/data/bin/cmake"
}
