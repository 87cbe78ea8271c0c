"""The models as GGUF, with the names and the metadata that core/model/README.md lists, and their outputs beside them in the
form of the other goldens (tests/golden/README.md)."""
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
from vocabulary_gguf import (ARRAY, BOOL, CONTROL, FLOAT32, INT32, NORMAL, STRING, UINT32, entry, text,  # noqa: E402
                             word_pieces)

import data  # noqa: E402

FOLDER = os.path.join(HERE, "models")
ALIGNMENT = 32
KINDS = {str: STRING, bool: BOOL, int: UINT32, float: FLOAT32}


def tokenizer(pieces):
    kinds = [(piece, CONTROL if piece in data.SPECIAL else NORMAL) for piece in pieces]
    spelled = word_pieces(kinds)
    special = {"bos": data.START, "eos": data.END, "unknown": data.UNKNOWN, "seperator": data.END, "padding": data.PAD}
    return [entry("tokenizer.ggml.model", STRING, "bert"), entry("tokenizer.ggml.pre", STRING, "bert-bge"),
            entry("tokenizer.ggml.tokens", ARRAY, [piece for piece, _ in spelled], STRING),
            entry("tokenizer.ggml.token_type", ARRAY, [kind for _, kind in spelled], INT32),
            *(entry("tokenizer.ggml.%s_token_id" % key, UINT32, value) for key, value in special.items()),
            entry("tokenizer.ggml.add_bos_token", BOOL, True), entry("tokenizer.ggml.add_eos_token", BOOL, True)]


def write_gguf(path, architecture, settings, pieces, tensors):
    """`settings` under the architecture's name; tensors as PyTorch has them, [rows, columns]."""
    entries = [entry("general.architecture", STRING, architecture)]
    for key, value in settings.items():
        key = architecture + "." + key
        entries.append(entry(key, ARRAY, value, STRING) if isinstance(value, list) else entry(key, KINDS[type(value)], value))
    entries += tokenizer(pieces)
    table, body = b"", b""
    for name, tensor in tensors.items():
        shape = tensor.shape[::-1]   # GGUF has the innermost dimension first
        table += text(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape, 0, len(body))
        body += tensor.detach().numpy().astype("<f4").tobytes()
        body += bytes(-len(body) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + table
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + body)


def write_reference(name, cases, facts):
    """`cases`: (texts and tokens, {output: values [rows, columns]})."""
    written, body = [], b""
    for number, (case, outputs) in enumerate(cases):
        places = {}
        for output, values in outputs.items():
            values = values.detach().numpy().astype("<f4")
            places[output] = {"offset": len(body), "rows": values.shape[0], "cols": values.shape[1],
                              "absmax": float(abs(values).max())}
            body += values.tobytes()
        written.append({"id": "s%d" % number, **case, "outputs": places})
    with open(os.path.join(FOLDER, name + ".ref.bin"), "wb") as file:
        file.write(body)
    with open(os.path.join(FOLDER, name + ".ref.json"), "w") as file:
        json.dump({"model": name + ".gguf", "weights": "f32", "data": name + ".ref.bin", **facts, "cases": written}, file)
        file.write("\n")


def export_reviews(name, model, pieces):
    tensors = {"token_embd.weight": model.embedding.weight, "blk.0.rnn_in.weight": model.rnn.weight_ih_l0,
               "blk.0.rnn_in.bias": model.rnn.bias_ih_l0 + model.rnn.bias_hh_l0,   # PyTorch has two where one would do
               "blk.0.rnn_hidden.weight": model.rnn.weight_hh_l0, "cls.output.weight": model.classes.weight,
               "cls.output.bias": model.classes.bias}
    width, d_key = model.rnn.hidden_size, model.embedding.weight.shape[1]
    settings = {"block_count": 1, "context_length": 256, "embedding_length": model.embedding.weight.shape[1],
                "feed_forward_length": width, "attention.head_count": 1, "attention.layer_norm_epsilon": 0.0,
                "classifier.output_labels": list(data.LABELS)}
    if model.ask is not None:
        tensors.update({"attn_q.weight": model.ask.weight, "attn_k.weight": model.key.weight})
        d_key = model.ask.weight.shape[0]
    settings.update({"attention.key_length": d_key, "attention.value_length": width, "attention.pooling": model.ask is not None,
                     "pooling_type": 1 if model.ask is None else 3})   # the mean, the last one's
    write_gguf(os.path.join(FOLDER, name + ".gguf"), "rnn", settings, pieces, tensors)


def export_dates(name, model, pieces):
    tensors = {"token_embd.weight": model.embedding.weight, "output.weight": model.output.weight}

    def norm(to, layer):
        tensors.update({to + ".weight": layer.weight, to + ".bias": layer.bias})

    for stack, layers in (("enc", model.encoder), ("dec", model.decoder)):
        for number, layer in enumerate(layers):
            to = "%s.blk.%d." % (stack, number)
            parts = [("attn", layer.attn_norm, layer.attn)]
            if stack == "dec":
                parts.append(("cross_attn", layer.cross_norm, layer.cross))
            for kind, before, attention in parts:
                norm(to + kind + "_norm", before)
                for part in ("q", "k", "v", "output"):
                    tensors[to + kind + "_" + part + ".weight"] = getattr(attention, part).weight
            norm(to + "ffn_norm", layer.ffn_norm)
            for part in ("up", "down"):
                norm(to + "ffn_" + part, getattr(layer, part))   # a weight and a bias here too
    norm("enc.output_norm", model.encoder_norm)
    norm("dec.output_norm", model.decoder_norm)
    settings = {"block_count": len(model.encoder), "decoder_block_count": len(model.decoder), "context_length": 64,
                "embedding_length": model.embedding.weight.shape[1], "feed_forward_length": model.encoder[0].up.out_features,
                "attention.head_count": model.encoder[0].attn.heads, "attention.layer_norm_epsilon": model.encoder_norm.eps}
    write_gguf(os.path.join(FOLDER, name + ".gguf"), "transducer", settings, pieces, tensors)
