"""Llama in double precision, from https://arxiv.org/abs/2302.13971 and https://arxiv.org/abs/2305.13245."""
import forward_pass as f

LAYERS, D, HEADS, KV_HEADS, HEAD, D_FF, EPSILON, BASE = 2, 48, 4, 2, 12, 80, 1e-5, 10000.0
SETTINGS = {"block_count": LAYERS, "embedding_length": D, "context_length": 64, "feed_forward_length": D_FF,
            "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
            "attention.layer_norm_rms_epsilon": EPSILON, "rope.freq_base": BASE}


def forward(w, tokens):
    x = w("token_embd.weight", f.N_VOCAB, D)[tokens]
    for i in range(LAYERS):
        b = "blk.%d." % i
        h = f.rms_norm(x, w(b + "attn_norm.weight", D), EPSILON)
        q = f.rope(h @ w(b + "attn_q.weight", HEADS * HEAD, D).T, HEAD, HEAD, BASE, halves=False)
        k = f.rope(h @ w(b + "attn_k.weight", KV_HEADS * HEAD, D).T, HEAD, HEAD, BASE, halves=False)
        v = h @ w(b + "attn_v.weight", KV_HEADS * HEAD, D).T
        x = x + f.causal_attention(q, k, v, HEADS, KV_HEADS) @ w(b + "attn_output.weight", D, HEADS * HEAD).T
        h = f.rms_norm(x, w(b + "ffn_norm.weight", D), EPSILON)
        gated = f.silu(h @ w(b + "ffn_gate.weight", D_FF, D).T) * (h @ w(b + "ffn_up.weight", D_FF, D).T)
        x = x + gated @ w(b + "ffn_down.weight", D, D_FF).T
    return f.rms_norm(x, w("output_norm.weight", D), EPSILON) @ w("output.weight", f.N_VOCAB, D).T


f.main("llama", SETTINGS, forward)
