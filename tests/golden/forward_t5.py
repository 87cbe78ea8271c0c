"""T5 as the first paper has it, https://arxiv.org/abs/1910.10683, in double precision: plain layers with ReLU, an output tied to
the embedding and scaled by d_model^-0.5, a decoder with fewer layers than the encoder, heads wider than d_model / heads.
(The files from transformers have the gated layers and the untied output of version 1.1.)"""
import math

import numpy as np

import forward_pass as f

LAYERS, DECODER_LAYERS, D, HEADS, HEAD, D_FF, EPSILON, BUCKETS = 3, 2, 24, 3, 10, 40, 1e-6, 32
SETTINGS = {"block_count": LAYERS, "decoder_block_count": DECODER_LAYERS, "embedding_length": D, "context_length": 64,
            "feed_forward_length": D_FF, "attention.head_count": HEADS, "attention.key_length": HEAD,
            "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": EPSILON,
            "attention.relative_buckets_count": BUCKETS}


def bucket(distance, both_directions):
    """Of the distance from a query to a key. Half of the buckets of a direction are for one distance each, the others
    grow with its logarithm up to 128."""
    n, first = BUCKETS, 0
    if both_directions:
        n //= 2
        first = n if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = n // 2
    if distance < exact:
        return first + distance
    return first + min(n - 1, exact + int(math.log(distance / exact) / math.log(128 / exact) * (n - exact) + 1e-9))


def position_bias(table, tokens, both_directions):
    rows = [[bucket(k - q, both_directions) for k in range(tokens)] for q in range(tokens)]
    return table[np.array(rows)].transpose(2, 0, 1)   # [heads, queries, keys]


def stack(w, name, x, layers, read=None):
    tokens = len(x)
    table = w(name + ".blk.0.attn_rel_b.weight", BUCKETS, HEADS)
    bias = position_bias(table, tokens, read is None)
    if read is not None:
        bias = bias + np.triu(np.full((tokens, tokens), -np.inf), 1)
    for i in range(layers):
        b = "%s.blk.%d." % (name, i)

        def attend(kind, x, of, bias):
            q, k, v = (y @ w(b + kind + "_%s.weight" % part, HEADS * HEAD, D).T
                       for part, y in (("q", x), ("k", of), ("v", of)))
            return f.attention(q, k, v, HEADS, HEADS, bias) @ w(b + kind + "_o.weight", D, HEADS * HEAD).T

        h = f.rms_norm(x, w(b + "attn_norm.weight", D), EPSILON)
        x = x + attend("attn", h, h, bias)
        if read is not None:
            h = f.rms_norm(x, w(b + "cross_attn_norm.weight", D), EPSILON)
            x = x + attend("cross_attn", h, read, 0)
        h = f.rms_norm(x, w(b + "ffn_norm.weight", D), EPSILON)
        x = x + np.maximum(h @ w(b + "ffn_up.weight", D_FF, D).T, 0) @ w(b + "ffn_down.weight", D, D_FF).T
    return f.rms_norm(x, w(name + ".output_norm.weight", D), EPSILON)


def forward(w, tokens, decoder_tokens):
    embedding = w("token_embd.weight", f.N_VOCAB, D)
    encoder = stack(w, "enc", embedding[tokens], LAYERS)
    decoder = stack(w, "dec", embedding[decoder_tokens], DECODER_LAYERS, encoder)
    return {"encoder": encoder, "logits": decoder * D ** -0.5 @ embedding.T}


f.main("t5", SETTINGS, forward, reads_input=True)
