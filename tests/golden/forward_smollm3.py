"""SmolLM3 in double precision, from https://huggingface.co/blog/smollm3: llama, but the fourth layer and every fourth
after it turns nothing."""
import forward_pass as f

LAYERS, D, HEADS, KV_HEADS, HEAD, D_FF, EPSILON, BASE = 5, 48, 4, 2, 12, 80, 1e-6, 50000.0
SETTINGS = {"block_count": LAYERS, "embedding_length": D, "context_length": 64, "feed_forward_length": D_FF,
            "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
            "attention.layer_norm_rms_epsilon": EPSILON, "rope.freq_base": BASE, "rope.dimension_count": HEAD}


def forward(w, tokens):
    embedding = w("token_embd.weight", f.N_VOCAB, D)
    x = embedding[tokens]
    for i in range(LAYERS):
        b = "blk.%d." % i
        h = f.rms_norm(x, w(b + "attn_norm.weight", D), EPSILON)
        q = h @ w(b + "attn_q.weight", HEADS * HEAD, D).T
        k = h @ w(b + "attn_k.weight", KV_HEADS * HEAD, D).T
        v = h @ w(b + "attn_v.weight", KV_HEADS * HEAD, D).T
        if i not in (3, 7, 11):
            q, k = (f.rope(each, HEAD, HEAD, BASE, halves=False) for each in (q, k))
        x = x + f.causal_attention(q, k, v, HEADS, KV_HEADS) @ w(b + "attn_output.weight", D, HEADS * HEAD).T
        h = f.rms_norm(x, w(b + "ffn_norm.weight", D), EPSILON)
        gated = f.silu(h @ w(b + "ffn_gate.weight", D_FF, D).T) * (h @ w(b + "ffn_up.weight", D_FF, D).T)
        x = x + gated @ w(b + "ffn_down.weight", D, D_FF).T
    return f.rms_norm(x, w("output_norm.weight", D), EPSILON) @ embedding.T


f.main("smollm3", SETTINGS, forward)
