"""A GGUF file that holds a vocabulary and no tensors, made of a tokenizer.json with byte-level BPE or WordPiece. Python
alone.

  vocabulary_gguf.py TOKENIZER.json TOKENIZER_CONFIG.json|- PRE_TOKENIZER ADD_BOS(0|1) OUT.gguf
"""
import json
import struct
import sys

UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
WRITE = {UINT32: "<I", FLOAT32: "<f", BOOL: "<?", INT32: "<i"}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_bytes(kind, value):
    return text(value) if kind == STRING else struct.pack(WRITE[kind], value)


def entry(key, kind, value, element=None):
    data = text(key) + struct.pack("<I", kind)
    if kind == ARRAY:
        return data + struct.pack("<IQ", element, len(value)) + b"".join(value_bytes(element, one) for one in value)
    return data + value_bytes(kind, value)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def pieces_of(tokenizer):
    """(text, type) by id. Added tokens that look like <|...|> are control tokens whatever the file says of them."""
    pieces = {number: (piece, NORMAL) for piece, number in tokenizer["model"]["vocab"].items()}
    for added in tokenizer["added_tokens"]:
        piece = added["content"]
        control = added["special"] or (piece.startswith("<|") and piece.endswith("|>"))
        pieces[added["id"]] = (piece, CONTROL if control else USER_DEFINED)
    return [pieces.get(number, (f"[PAD{number}]", UNUSED)) for number in range(max(pieces) + 1)]


def word_pieces(pieces):
    """As GGUF spells them: U+2581 before what begins a word, nothing before continuations."""
    def spelled(piece):
        return piece[2:] if piece.startswith("##") else "\u2581" + piece
    return [(piece if kind == CONTROL else spelled(piece), kind) for piece, kind in pieces]


def vocabulary(kind, pre_tokenizer, pieces, add_bos):
    return [
        entry("tokenizer.ggml.model", STRING, kind),
        entry("tokenizer.ggml.pre", STRING, pre_tokenizer),
        entry("tokenizer.ggml.tokens", ARRAY, [piece for piece, _ in pieces], STRING),
        entry("tokenizer.ggml.token_type", ARRAY, [kind for _, kind in pieces], INT32),
        entry("tokenizer.ggml.add_bos_token", BOOL, add_bos == "1"),
    ]


def bert_entries(tokenizer, pieces, pre_tokenizer, add_bos):
    pieces = word_pieces(pieces)
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    named = (("unknown", "[UNK]"), ("cls", "[CLS]"), ("seperator", "[SEP]"), ("padding", "[PAD]"), ("mask", "[MASK]"))
    return [
        entry("general.architecture", STRING, "bert"),
        *vocabulary("bert", pre_tokenizer, pieces, add_bos),
        *(entry(f"tokenizer.ggml.{name}_token_id", UINT32, ids[piece]) for name, piece in named),
        entry("tokenizer.ggml.normalizer.lowercase", BOOL, tokenizer["normalizer"]["lowercase"]),
    ]


def byte_level_entries(tokenizer, pieces, pre_tokenizer, add_bos):
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return [
        entry("general.architecture", STRING, "llama"),
        entry("llama.context_length", UINT32, 4096),
        entry("llama.embedding_length", UINT32, 64),
        entry("llama.block_count", UINT32, 1),
        entry("llama.feed_forward_length", UINT32, 64),
        entry("llama.attention.head_count", UINT32, 1),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6),
        entry("llama.rope.dimension_count", UINT32, 64),
        *vocabulary("gpt2", pre_tokenizer, pieces, add_bos),
        entry("tokenizer.ggml.merges", ARRAY, merges, STRING),
    ]


def main():
    tokenizer_path, config_path, pre_tokenizer, add_bos, out_path = sys.argv[1:]
    tokenizer, config = load(tokenizer_path), {} if config_path == "-" else load(config_path)
    pieces = pieces_of(tokenizer)
    ids = {piece: number for number, (piece, _) in enumerate(pieces)}
    make = bert_entries if tokenizer["model"]["type"] == "WordPiece" else byte_level_entries
    entries = make(tokenizer, pieces, pre_tokenizer, add_bos)
    for name, key in (("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token")):
        piece = config.get(key)
        piece = piece["content"] if isinstance(piece, dict) else piece
        if piece in ids:
            entries.append(entry(f"tokenizer.ggml.{name}_token_id", UINT32, ids[piece]))
    with open(out_path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))


if __name__ == "__main__":
    main()
