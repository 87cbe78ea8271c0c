"""What a forward pass written in numpy needs: weights from a seed, the usual layers in double precision, and a tiny GGUF
file with the outputs beside it, laid out as the other goldens are. Nothing here knows of mote.

forward_<architecture>.py holds SETTINGS (metadata under the architecture's name) and forward(weights, tokens); it ends with
forward_pass.main(...) and is called by run_goldens.py:

  forward_<architecture>.py FOLDER    writes forward-<architecture>.gguf, .ref.json and .ref.bin

Where a decoder reads an encoder's input, forward(weights, tokens, decoder_tokens) returns {"encoder": ..., "logits": ...}.
"""
import json
import os
import struct
import sys

import numpy as np

ALIGNMENT = 32
N_VOCAB = 300
STRING, UINT32, FLOAT32, BOOL = 8, 4, 6, 7


class Weights:
    """weights("output.weight", rows, columns) is that tensor in double precision: random when it is first asked for,
    rounded to f32 as it will stand in the file, the same ever after. Norms are near 1, biases small, and each row of a
    matrix has a length of about 1."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.tensors = {}

    def __call__(self, name, *shape):
        if name not in self.tensors:
            values = self.random.standard_normal(shape)
            if len(shape) == 2:
                values /= 1 if name == "token_embd.weight" else np.sqrt(shape[1])
            else:
                values = 0.2 * values + (0 if name.endswith(".bias") else 1)
            self.tensors[name] = values.astype("<f4")
        assert self.tensors[name].shape == shape, name
        return self.tensors[name].astype(np.float64)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def rms_norm(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + epsilon) * weight


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + epsilon) * weight + bias


def rope(x, head_dim, n_rotated, base, halves):
    """x [tokens, heads * head_dim]: turns the first n_rotated dimensions of each head; pairs are (i, i + n_rotated / 2)
    or neighbours."""
    tokens, half = x.shape[0], n_rotated // 2
    angles = np.arange(tokens)[:, None] * base ** (-2 * np.arange(half) / n_rotated)
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    heads = x.reshape(tokens, -1, head_dim).copy()
    first, second = (slice(0, half), slice(half, n_rotated)) if halves else (slice(0, n_rotated, 2), slice(1, n_rotated, 2))
    a, b = heads[:, :, first].copy(), heads[:, :, second].copy()
    heads[:, :, first], heads[:, :, second] = a * cos - b * sin, a * sin + b * cos
    return heads.reshape(x.shape)


def causal_attention(q, k, v, n_heads, n_kv_heads, window=0, cap=0):
    """Query head h reads KV head h // (n_heads / n_kv_heads); position p sees 0 .. p, with a window the last `window` of
    them; with a cap scores are bent below it."""
    tokens = q.shape[0]
    back = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]   # how far a key lies behind a query
    hidden = np.where((back < 0) | (back >= (window or tokens)), -np.inf, 0)
    return attention(q / np.sqrt(q.shape[1] // n_heads), k, v, n_heads, n_kv_heads, hidden, cap)


def attention(q, k, v, n_heads, n_kv_heads, bias=0, cap=0):
    """Without a scale; bias is added to the scores, [queries, keys] or [heads, queries, keys], behind the cap."""
    tokens = q.shape[0]
    q, k, v = q.reshape(tokens, n_heads, -1), k.reshape(len(k), n_kv_heads, -1), v.reshape(len(v), n_kv_heads, -1)
    bias = np.broadcast_to(bias, (n_heads, tokens, len(k)))
    out = np.empty((tokens, n_heads, v.shape[2]))
    for h in range(n_heads):
        scores = q[:, h] @ k[:, h // (n_heads // n_kv_heads)].T
        scores = (cap * np.tanh(scores / cap) if cap else scores) + bias[h]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, h] = weights / weights.sum(axis=1, keepdims=True) @ v[:, h // (n_heads // n_kv_heads)]
    return out.reshape(tokens, -1)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def setting(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, bool):
        return text(key) + struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", UINT32, value)
    return text(key) + struct.pack("<If", FLOAT32, value)


def write_gguf(path, architecture, settings, tensors):
    pairs = [setting("general.architecture", architecture)]
    pairs += [setting(architecture + "." + key, value) for key, value in settings.items()]
    entries, data = [], b""
    for name, values in tensors.items():
        data += b"\0" * (-len(data) % ALIGNMENT)
        shape = values.shape[::-1]   # GGUF has the innermost dimension first
        entries.append(text(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape, 0, len(data)))
        data += values.tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(pairs)) + b"".join(pairs) + b"".join(entries)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT) + data)


def main(architecture, settings, forward, seed=1, reads_input=False):
    name = os.path.join(sys.argv[1], "forward-" + architecture)
    weights, cases, outputs, offset = Weights(seed), [], [], 0
    for number, length in enumerate((1, 7, 40)):
        random = np.random.default_rng(seed + number)
        tokens = random.integers(N_VOCAB, size=length)
        case = {"id": "s%d" % number, "tokens": tokens.tolist(), "outputs": {}}
        if reads_input:
            decoder_tokens = random.integers(N_VOCAB, size=length + 3)
            case["decoder_tokens"] = decoder_tokens.tolist()
            found = forward(weights, tokens, decoder_tokens)
        else:
            found = {"logits": forward(weights, tokens)}
        assert found["logits"].shape == (len(case.get("decoder_tokens", tokens)), N_VOCAB)
        for output, values in found.items():
            assert np.isfinite(values).all()
            case["outputs"][output] = {"offset": offset, "rows": values.shape[0], "cols": values.shape[1],
                                       "absmax": float(np.abs(values).max())}
            outputs.append(values.astype("<f4").tobytes())
            offset += len(outputs[-1])
        cases.append(case)
    write_gguf(name + ".gguf", architecture, settings, weights.tensors)
    with open(name + ".ref.bin", "wb") as file:
        file.write(b"".join(outputs))
    with open(name + ".ref.json", "w") as file:
        json.dump({"model": os.path.basename(name) + ".gguf", "weights": "f32", "data": os.path.basename(name) + ".ref.bin",
                   "cases": cases}, file)
