"""Phi-3 in double precision, from https://arxiv.org/abs/2404.14219: queries, keys and values come from one matrix, gate
and up from another, three quarters of a head are turned, and every layer has a window."""
import forward_pass as f

LAYERS, D, HEADS, KV_HEADS, HEAD, D_FF, EPSILON, BASE, WINDOW = 3, 64, 4, 2, 16, 72, 1e-5, 10000.0, 9
SETTINGS = {"block_count": LAYERS, "embedding_length": D, "context_length": 64, "feed_forward_length": D_FF,
            "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
            "attention.layer_norm_rms_epsilon": EPSILON, "attention.sliding_window": WINDOW,
            "rope.dimension_count": HEAD * 3 // 4, "rope.freq_base": BASE, "rope.scaling.original_context_length": 64}


def forward(w, tokens):
    x = w("token_embd.weight", f.N_VOCAB, D)[tokens]
    for i in range(LAYERS):
        b = "blk.%d." % i
        h = f.rms_norm(x, w(b + "attn_norm.weight", D), EPSILON)
        qkv = h @ w(b + "attn_qkv.weight", (HEADS + 2 * KV_HEADS) * HEAD, D).T
        q, k, v = qkv[:, :HEADS * HEAD], qkv[:, HEADS * HEAD:-KV_HEADS * HEAD], qkv[:, -KV_HEADS * HEAD:]
        q, k = (f.rope(each, HEAD, HEAD * 3 // 4, BASE, halves=True) for each in (q, k))
        a = f.causal_attention(q, k, v, HEADS, KV_HEADS, window=WINDOW)
        x = x + a @ w(b + "attn_output.weight", D, HEADS * HEAD).T
        h = f.rms_norm(x, w(b + "ffn_norm.weight", D), EPSILON) @ w(b + "ffn_up.weight", 2 * D_FF, D).T
        x = x + (f.silu(h[:, :D_FF]) * h[:, D_FF:]) @ w(b + "ffn_down.weight", D, D_FF).T
    return f.rms_norm(x, w("output_norm.weight", D), EPSILON) @ w("output.weight", f.N_VOCAB, D).T


f.main("phi3", SETTINGS, forward)
