"""Elman's network that continues texts, https://doi.org/10.1207/s15516709cog1402_1, in double precision: two recurrent layers,
each over the other's hidden states. (Those that score texts are compared with PyTorch: examples/seed_lab.)"""
import numpy as np

import forward_pass as f

LAYERS, D, WIDTH = 2, 20, 36
SETTINGS = {"block_count": LAYERS, "embedding_length": D, "context_length": 64, "feed_forward_length": WIDTH,
            "attention.head_count": 1, "attention.layer_norm_epsilon": 0.0}


def forward(w, tokens):
    rows = w("token_embd.weight", f.N_VOCAB, D)[tokens]
    for i in range(LAYERS):
        b = "blk.%d." % i
        x = rows @ w(b + "rnn_in.weight", WIDTH, rows.shape[1]).T + w(b + "rnn_in.bias", WIDTH)
        h, rows = np.zeros(WIDTH), np.empty((len(tokens), WIDTH))
        for row in range(len(tokens)):
            h = rows[row] = np.tanh(x[row] + w(b + "rnn_hidden.weight", WIDTH, WIDTH) @ h)
    return rows @ w("output.weight", f.N_VOCAB, WIDTH).T


f.main("rnn", SETTINGS, forward)
