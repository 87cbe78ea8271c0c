"""A llama model of a billion weights that says nothing: pseudo-random codes behind scales that keep numbers sane, which is
all that speed depends on. Python alone.

  synthetic_model.py VOCABULARY.gguf q4_0|q8_0|q4_k_m OUT.gguf [--layers 16]

The vocabulary is copied out of any GGUF with a tokenizer; llama3's 128,256 tokens come from tools/vocabularies.sh. The
shape: 16 layers, d 2048, feed-forward 8192, 32 heads on 8 of keys, the output tied to the embedding. Which tensor has which
format is as llama-quantize mixes them: a tied embedding, and in q4_k_m some of attn_v and ffn_down, are q6_k.
"""
import argparse
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
from vocabulary_gguf import ARRAY, FLOAT32, STRING, UINT32, entry, text  # noqa: E402 (found by the line above)

D, FF, HEADS, KV_HEADS, CONTEXT = 2048, 8192, 32, 8, 8192
ALIGNMENT = 32
CHUNK_BLOCKS = 1 << 16
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}   # of metadata values, by type
FILE_TYPE = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15}


def half(value):
    return struct.pack("<e", value)


# ggml's number, values and bytes of a block, and what is written over random bytes: (offset, bytes) that every block has.
# The scales are such that a weight is about 0.02 in size.
FORMATS = {
    "f32": (0, 1, 4, None),
    "q4_0": (2, 32, 18, [(0, half(0.0045))]),
    "q8_0": (8, 32, 34, [(0, half(0.00027))]),
    # d, the scale of mins, then 6-bit scales and mins: 32 for the first four of eight, 8 for the others.
    "q4_k": (12, 256, 144, [(0, half(0.00014)), (2, half(0.00105)), (4, bytes([32] * 8 + [0x88] * 4))]),
    "q6_k": (14, 256, 210, [(192, bytes([16] * 16)), (208, half(0.00007))]),
}


def metadata_of(path, wanted):
    """The entries of a GGUF whose keys begin so, as the bytes that they are in the file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] != b"GGUF":
        sys.exit(f"{path} is not a GGUF file")
    at, found, n_tokens = 24, [], 0

    def skip(kind, at):
        if kind == STRING:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind != ARRAY:
            return at + SIZES[kind]
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if element not in (STRING, ARRAY):
            return at + count * SIZES[element]
        for _ in range(count):
            at = skip(element, at)
        return at

    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        begin = at
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length].decode()
        at += 8 + length
        kind = struct.unpack_from("<I", data, at)[0]
        if key == "tokenizer.ggml.tokens":
            n_tokens = struct.unpack_from("<Q", data, at + 8)[0]
        at = skip(kind, at + 4)
        if key.startswith(wanted):
            found.append(data[begin:at])
    if n_tokens == 0:
        sys.exit(f"{path} has no tokens")
    return found, n_tokens


def is_better(layer, layers):
    """Whether q4_k_m gives this layer's attn_v and ffn_down more bits: the first and last eighth, and each third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def tensors_of(kind, layers, n_vocab):
    """(name, columns, rows, format) of each."""
    most = "q4_k" if kind == "q4_k_m" else kind
    kv = D // HEADS * KV_HEADS
    yield "token_embd.weight", D, n_vocab, "q8_0" if kind == "q8_0" else "q6_k"
    for i in range(layers):
        better = "q6_k" if kind == "q4_k_m" and is_better(i, layers) else most
        for name, columns, rows, format_ in (
                ("attn_norm", D, 1, "f32"), ("attn_q", D, D, most), ("attn_k", D, kv, most), ("attn_v", D, kv, better),
                ("attn_output", D, D, most), ("ffn_norm", D, 1, "f32"), ("ffn_gate", D, FF, most), ("ffn_up", D, FF, most),
                ("ffn_down", FF, D, better)):
            yield f"blk.{i}.{name}.weight", columns, rows, format_
    yield "output_norm.weight", D, 1, "f32"


def write_tensor(out, columns, rows, format_, generator):
    _, values, block_bytes, fixed = FORMATS[format_]
    if fixed is None:
        out.write(struct.pack("<f", 1.0) * (columns * rows))
        return
    blocks = columns * rows // values
    while blocks > 0:
        count = min(blocks, CHUNK_BLOCKS)
        chunk = bytearray(generator.randbytes(count * block_bytes))
        for offset, pattern in fixed:
            for i, byte in enumerate(pattern):
                chunk[offset + i::block_bytes] = bytes([byte]) * count
        out.write(chunk)
        blocks -= count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("vocabulary")
    parser.add_argument("kind", choices=sorted(FILE_TYPE))
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=16)
    options = parser.parse_args()
    tokenizer, n_vocab = metadata_of(options.vocabulary, "tokenizer.")
    entries = [
        entry("general.architecture", STRING, "llama"), entry("general.name", STRING, "synthetic " + options.kind),
        entry("general.file_type", UINT32, FILE_TYPE[options.kind]),
        entry("llama.context_length", UINT32, CONTEXT), entry("llama.embedding_length", UINT32, D),
        entry("llama.block_count", UINT32, options.layers), entry("llama.feed_forward_length", UINT32, FF),
        entry("llama.attention.head_count", UINT32, HEADS), entry("llama.attention.head_count_kv", UINT32, KV_HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5), entry("llama.rope.freq_base", FLOAT32, 500000.0),
        entry("llama.rope.dimension_count", UINT32, D // HEADS), entry("llama.vocab_size", UINT32, n_vocab), *tokenizer]
    table, at = b"", 0
    tensors = list(tensors_of(options.kind, options.layers, n_vocab))
    for name, columns, rows, format_ in tensors:
        number, values, block_bytes, _ = FORMATS[format_]
        shape = (columns,) if rows == 1 else (columns, rows)
        table += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", number, at)
        at += -(-columns * rows // values * block_bytes // ALIGNMENT) * ALIGNMENT
    generator = random.Random(1)
    with open(options.out + ".part", "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + table)
        for _, columns, rows, format_ in tensors:
            out.write(b"\0" * (-out.tell() % ALIGNMENT))
            write_tensor(out, columns, rows, format_, generator)
    os.replace(options.out + ".part", options.out)


if __name__ == "__main__":
    main()
