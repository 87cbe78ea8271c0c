#!/bin/sh
# Fetches the pinned third-party sources that the project builds itself.
#
#   fetch_sources.sh [--cache DIR] [--list] [NAME...]
#
# Prints "NAME DIRECTORY" for every NAME (all names when none is given). Each tarball is checked against the SHA-256
# written below, in the archive's signed index and on disk. A second run downloads nothing.
#
# The tarballs are Debian's upstream ("orig") tarballs, from the mirror that this machine's apt is set up for. apt works
# in private directories: no root is needed and the system's apt is left alone.
#
#   MOTE_CACHE_DIR      the default for --cache (else ~/.cache/mote)
#   MOTE_DEBIAN_MIRROR  mirror to use instead of the one apt is set up for
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/private_apt.sh"

# name, Debian source package, tarball, SHA-256. Licences: catch2 BSL-1.0 (used by the tests alone); of backends/xnnpack:
# xnnpack BSD-3-Clause, pthreadpool and cpuinfo BSD-2-Clause, fxdiv MIT.
table='
catch2 catch2 catch2_3.7.1.orig.tar.gz c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c
xnnpack xnnpack xnnpack_0.0~git20241108.4ea82e5.orig.tar.xz 90bde2caef0f880f627bab0dc805a86c4b8070cd98e3243db3046ab3f3be1a99
pthreadpool pthreadpool pthreadpool_0.0~git20240616.560c60d.orig.tar.xz 4cc3cbd933b28131d2a34edc54f76af9fb41bc490af5eae1a5bd3cd07ea90708
cpuinfo cpuinfo cpuinfo_0.0~git20250905.877328f.orig.tar.xz 557ca404a3836b9f335a3a06b65ff9fe9dbaaefab7fb5c0185f53d9f33615a10
fxdiv fxdiv fxdiv_0.0~git20200417.b408327.orig.tar.xz 7953482badaf4cb34026c3487c257b8e4ab2df061c019bd6fabbbc12ad52c44b
'
# Suites to look in, in this order, until every tarball is found.
suites='trixie forky sid'

cache=${MOTE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mote}
names=
while [ $# -gt 0 ]; do
  case $1 in
    --cache) [ $# -gt 1 ] || { echo "fetch_sources.sh: --cache needs a folder" >&2; exit 2; }; cache=$2; shift ;;
    --list) printf '%s' "$table" | awk 'NF == 4 { print $1, $3 }'; exit 0 ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "fetch_sources.sh: unknown option $1" >&2; exit 2 ;;
    *) names="$names $1" ;;
  esac
  shift
done
[ -n "$names" ] || names=$(printf '%s' "$table" | awk 'NF == 4 { print $1 }')

mkdir -p "$cache/tarballs" "$cache/src"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d "$cache/.sources.XXXXXX")
trap 'rm -rf "$work"' EXIT
: > "$work/log"

fail() {
  tail -n 20 "$work/log" >&2
  cat >&2 <<TEXT
fetch_sources.sh: $1
Ways out:
  - put the tarballs listed by 'fetch_sources.sh --list' into
    $cache/tarballs yourself (their SHA-256 must match this script);
  - on a Debian system, set MOTE_DEBIAN_MIRROR to a mirror that carries the suites: $suites.
TEXT
  exit 1
}

# field NAME COLUMN
field() { printf '%s' "$table" | awk -v n="$1" -v c="$2" '$1 == n { print $c }'; }

# present NAME: is the right tarball in the cache?
present() {
  file=$cache/tarballs/$(field "$1" 3)
  [ -f "$file" ] && echo "$(field "$1" 4)  $file" | sha256sum -c --status
}

missing() {
  for n in $names; do
    present "$n" || printf '%s ' "$n"
  done
}

# fetch_from SUITE NAME...: download what SUITE has of the named tarballs.
fetch_from() {
  state=$work/$1
  private_apt_update "$state" deb-src "$1" || { cat "$state/update.log" >> "$work/log"; return 0; }
  shift
  for n in "$@"; do
    package=$(field "$n" 2)
    private_apt "$state" apt-cache showsrc --only-source "$package" 2> /dev/null |
      grep -q "^ $(field "$n" 4) [0-9]* $(field "$n" 3)\$" || continue
    # Into a folder of its own, then renamed: another run never sees half a tarball.
    mkdir -p "$work/new"
    (cd "$work/new" && private_apt "$state" apt-get source --download-only --tar-only "$package") \
      >> "$work/log" 2>&1 || continue
    mv "$work/new/$(field "$n" 3)" "$cache/tarballs/"
  done
}

for n in $names; do
  [ -n "$(field "$n" 3)" ] || { echo "fetch_sources.sh: no source '$n'" >&2; exit 2; }
done

if [ -n "$(missing)" ]; then
  command -v apt-get > /dev/null || fail "no apt-get, and not in the cache: $(missing)"
  [ -n "$(debian_mirror)" ] || fail "apt names no Debian mirror, and not in the cache: $(missing)"
  for suite in $suites; do
    wanted=$(missing)
    [ -n "$wanted" ] || break
    # shellcheck disable=SC2086 # a list of names
    fetch_from "$suite" $wanted
  done
  [ -z "$(missing)" ] || fail "could not download: $(missing)"
fi

# unpack NAME DIRECTORY: with or without a top folder in the tarball.
unpack() {
  mkdir -p "$work/unpack/$1"
  tar -xf "$cache/tarballs/$(field "$1" 3)" -C "$work/unpack/$1"
  top=$(ls -A "$work/unpack/$1")
  [ "$(echo "$top" | wc -l)" -eq 1 ] && top=$work/unpack/$1/$top || top=$work/unpack/$1
  field "$1" 4 > "$top/.sha256"
  rm -rf "$2"
  mv "$top" "$2"
}

for n in $names; do
  dir=$cache/src/$n
  [ "$(cat "$dir/.sha256" 2> /dev/null)" = "$(field "$n" 4)" ] || unpack "$n" "$dir"
  echo "$n $dir"
done
