"""Gemma 2 in double precision, from https://arxiv.org/abs/2408.00118: the first, third, ... layer has a window, scores and
logits are capped (here low enough to matter), and each part is normed before it is added, too."""
import forward_pass as f

LAYERS, D, HEADS, KV_HEADS, HEAD, D_FF, EPSILON, BASE, WINDOW = 4, 48, 4, 2, 16, 72, 1e-6, 10000.0, 6
SCORE_CAP, LOGIT_CAP = 3.0, 9.0
SETTINGS = {"block_count": LAYERS, "embedding_length": D, "context_length": 64, "feed_forward_length": D_FF,
            "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
            "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": EPSILON, "rope.freq_base": BASE,
            "attention.sliding_window": WINDOW, "attn_logit_softcapping": SCORE_CAP, "final_logit_softcapping": LOGIT_CAP}


def forward(w, tokens):
    def norm(x, name):
        return f.rms_norm(x, w(name + ".weight", D), EPSILON)

    def linear(x, name, rows):
        return x @ w(name + ".weight", rows, x.shape[1]).T

    embedding = w("token_embd.weight", f.N_VOCAB, D)
    x = embedding[tokens] * D ** 0.5
    for i in range(LAYERS):
        b = "blk.%d." % i
        h = norm(x, b + "attn_norm")
        q, k, v = (linear(h, b + "attn_" + name, heads * HEAD) for name, heads in
                   (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        q, k = (f.rope(each, HEAD, HEAD, BASE, halves=True) for each in (q, k))
        a = f.causal_attention(q, k, v, HEADS, KV_HEADS, window=WINDOW if i % 2 == 0 else 0, cap=SCORE_CAP)
        x = x + norm(linear(a, b + "attn_output", D), b + "post_attention_norm")
        h = norm(x, b + "ffn_norm")
        gated = f.gelu_tanh(linear(h, b + "ffn_gate", D_FF)) * linear(h, b + "ffn_up", D_FF)
        x = x + norm(linear(gated, b + "ffn_down", D), b + "post_ffw_norm")
    logits = norm(x, "output_norm") @ embedding.T
    return LOGIT_CAP * f.np.tanh(logits / LOGIT_CAP)


f.main("gemma2", SETTINGS, forward)
