# shellcheck shell=sh
# apt in directories of its own: it sees one suite of the mirror that this machine's apt is set up for, needs no root
# and leaves the system's apt alone. Source this file.

# The Debian mirror that the machine's apt sources name, or MOTE_DEBIAN_MIRROR.
debian_mirror() {
  if [ -n "${MOTE_DEBIAN_MIRROR:-}" ]; then
    echo "$MOTE_DEBIAN_MIRROR"
    return
  fi
  # shellcheck disable=SC2016 # apt fills in the fields
  apt-get indextargets --no-release-info --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 ~ /^(bookworm|trixie|forky|sid|stable|testing|unstable)$/ && $3 == "main" { print $1; exit }'
}

# private_apt DIRECTORY TOOL ARGUMENTS...
private_apt() {
  apt_state=$1
  apt_tool=$2
  shift 2
  "$apt_tool" -q -o Dir::Etc::SourceList="$apt_state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$apt_state/lists" -o Dir::Cache="$apt_state/cache" -o APT::Sandbox::User=root "$@"
}

# private_apt_update DIRECTORY deb|deb-src SUITE: makes the directory and reads the suite's signed index.
private_apt_update() {
  mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -f $keyring ] && signed="[signed-by=$keyring]" || signed=
  echo "$2 $signed $(debian_mirror) $3 main" > "$1/sources.list"
  private_apt "$1" apt-get update > "$1/update.log" 2>&1
}
