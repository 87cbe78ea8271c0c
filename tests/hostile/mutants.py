#!/usr/bin/env python3
"""Malformed-GGUF corpus.

    mutants.py base.gguf outdir --seed N --count N [--classes a,b,...] [--list]

Writes outdir/mNNNNN.gguf and outdir/manifest.jsonl (file, class, what, expect). `expect` is
  reject   the file is wrong on its face: loading must fail with an error (never a crash, hang or huge allocation)
  nocrash  loading may succeed or fail; whatever is then run must not crash, read out of bounds, or hang
  accept   the change is harmless: loading must succeed
Structural mutants are drawn evenly over the classes; when a class runs dry the others fill in, then random byte flips.
Standard library only; the same seed, base and count give the same files.
"""
import argparse, json, os, random, struct, sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FMT = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q", F64: "<d"}
BLK = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17)}
MAX64 = (1 << 64) - 1


class Raw(bytes):
    """value bytes written as they are"""


class G:
    def __init__(self, b):
        self.b = b; self.p = 0; self.bounds = []
        assert self.take(4) == b"GGUF"; self.version = self.u("<I"); self.nt = self.u("<Q"); self.nk = self.u("<Q"); self.kv = []; self.t = []
        for _ in range(self.nk):
            k = self.s(); ty = self.u("<I"); self.kv.append([k, ty, self.v(ty)])
        for _ in range(self.nt):
            n = self.s(); nd = self.u("<I"); d = [self.u("<Q") for _ in range(nd)]; ty = self.u("<I"); self.t.append([n, d, ty, self.u("<Q")])
        al = self.get("general.alignment", 32); self.align = al; self.data0 = (self.p + al - 1) // al * al; self.data = b[self.data0:]; self.header_end = self.p

    def take(self, n):
        r = self.b[self.p:self.p + n]; self.p += n; self.bounds.append(self.p); return r

    def u(self, f):
        return struct.unpack(f, self.take(struct.calcsize(f)))[0]

    def s(self):
        return self.take(self.u("<Q"))

    def v(self, ty):
        if ty == STR: return self.s()
        if ty == ARR:
            et = self.u("<I"); n = self.u("<Q"); q = self.bounds; keep = len(q); r = (et, [self.v(et) for _ in range(n)])
            del q[keep + 12:-6]; return r  # not every string of a vocabulary
        return self.u(FMT[ty])

    def get(self, k, d=None):
        for a, _, v in self.kv:
            if a == k.encode(): return v
        return d


def s(x): return struct.pack("<Q", len(x)) + x


def enc(ty, v):
    if isinstance(v, Raw): return bytes(v)
    if ty == STR: return s(v)
    if ty == ARR: return struct.pack("<IQ", v[0], len(v[1])) + b"".join(enc(v[0], x) for x in v[1])
    f = FMT[ty]
    if f in ("<f", "<d"): return struct.pack(f, v)
    n = struct.calcsize(f); return (int(v) & ((1 << (8 * n)) - 1)).to_bytes(n, "little")


def build(g, kv=None, t=None, version=None, nt=None, nk=None, magic=b"GGUF", data=None, align=None):
    kv = g.kv if kv is None else kv; t = g.t if t is None else t; al = align or g.align
    o = [magic, struct.pack("<I", g.version if version is None else version), struct.pack("<Q", (len(t) if nt is None else nt) & MAX64), struct.pack("<Q", (len(kv) if nk is None else nk) & MAX64)]
    for e in kv:
        if isinstance(e, Raw): o.append(e); continue
        k, ty, v = e; o += [k if isinstance(k, Raw) else s(k), struct.pack("<I", ty & 0xFFFFFFFF), enc(ty, v)]
    for n, d, ty, off in t:
        o.append(n if isinstance(n, Raw) else s(n)); o.append(d if isinstance(d, Raw) else struct.pack("<I", len(d)) + b"".join(struct.pack("<Q", x & MAX64) for x in d)); o.append(struct.pack("<IQ", ty & 0xFFFFFFFF, off & MAX64))
    h = b"".join(o); pad = -len(h) % al; return h + b"\0" * pad + (g.data if data is None else data)


def structural(g, rnd):
    """yield (class, what, expect, thunk)"""
    KV, T = g.kv, g.t
    arch = g.get("general.architecture", b"llama").decode()

    def setkv(k, ty, v):
        k = k.encode() if isinstance(k, str) else k; o = [list(e) for e in KV]; hit = False
        for e in o:
            if e[0] == k: e[1], e[2] = ty, v; hit = True
        if not hit: o.append([k, ty, v])
        return o

    def dropkv(k): return [e for e in KV if e[0] != k]
    # header
    for m in (b"GGUE", b"\0\0\0\0", b"ggjt", b"FUGG", b"GGUf"): yield "header", f"magic {m!r}", "reject", lambda m=m: build(g, magic=m)
    for v in (0, 1, 4, 5, 0x03000000, 0xFFFFFFFF): yield "header", f"version {v}", "reject", lambda v=v: build(g, version=v)
    yield "header", "version 2", "nocrash", lambda: build(g, version=2)
    for n in (0, len(T) - 1, len(T) + 1, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, MAX64): yield "header", f"tensor count {n}", "reject" if n > len(T) else "nocrash", lambda n=n: build(g, nt=n)
    for n in (0, len(KV) - 1, len(KV) + 1, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, MAX64): yield "header", f"kv count {n}", "reject" if n > len(KV) + 1 else "nocrash", lambda n=n: build(g, nk=n)
    yield "header", "empty file", "reject", lambda: b""
    yield "header", "only magic", "reject", lambda: b"GGUF"
    yield "header", "no kv, no tensors", "reject", lambda: build(g, kv=[], t=[], data=b"")
    yield "header", "unchanged", "accept", lambda: g.b
    yield "header", "rewritten, unchanged", "accept", lambda: build(g)
    yield "header", "bytes after the data", "accept", lambda: g.b + b"\xAA" * 77
    yield "header", "kv order reversed", "accept", lambda: build(g, kv=KV[::-1])
    yield "header", "unknown extra key", "accept", lambda: build(g, kv=KV + [[b"some.unknown.key", STR, b"x"]])
    # per kv
    for i, (k, ty, v) in enumerate(KV):
        kn = k.decode("utf-8", "replace")
        for n in (0, len(k) - 1, len(k) + 1, 1 << 16, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, MAX64, MAX64 - 7):
            def f(i=i, n=n): o = [list(e) for e in KV]; o[i][0] = Raw(struct.pack("<Q", n) + KV[i][0]); return build(g, kv=o)
            yield "kv-key", f"{kn}: key length {n}", "reject" if n > (1 << 30) else "nocrash", f
        def ins(i, e): return KV[:i] + [e] + KV[i:]
        yield "kv-key", f"{kn}: duplicated", "nocrash", lambda i=i: build(g, kv=ins(i, KV[i]))
        yield "kv-key", f"{kn}: key empty", "nocrash", lambda i=i: build(g, kv=KV[:i] + [[b"", KV[i][1], KV[i][2]]] + KV[i + 1:])
        yield "kv-key", f"{kn}: key not UTF-8", "nocrash", lambda i=i: build(g, kv=KV[:i] + [[b"\xff\xfe" + KV[i][0], KV[i][1], KV[i][2]]] + KV[i + 1:])
        yield "kv-key", f"{kn}: key with NUL", "nocrash", lambda i=i: build(g, kv=KV[:i] + [[KV[i][0] + b"\0x", KV[i][1], KV[i][2]]] + KV[i + 1:])
        yield "kv-missing", f"{kn}: removed", "reject" if kn == "general.architecture" else "nocrash", lambda i=i: build(g, kv=KV[:i] + KV[i + 1:])
        for nt in list(range(14)) + [100, 0x7FFFFFFF, 0xFFFFFFFF]:
            if nt == ty: continue
            def f(i=i, nt=nt): o = [list(e) for e in KV]; o[i] = Raw(s(KV[i][0]) + struct.pack("<I", nt) + enc(KV[i][1], KV[i][2])); return build(g, kv=o)
            yield "kv-type", f"{kn}: type {ty} -> {nt}, same bytes", "reject" if nt > 12 else "nocrash", f
        for nt, nv in ((STR, b"abc"), (U32, 7), (F32, 1.5), (ARR, (U32, [1, 2])), (ARR, (STR, [])), (BOOL, 1), (U64, 3), (I32, -1)):
            if nt == ty: continue
            yield "kv-type", f"{kn}: replaced by type {nt}", "nocrash", lambda k=k, nt=nt, nv=nv: build(g, kv=setkv(k, nt, nv))
        if ty in FMT:
            n = struct.calcsize(FMT[ty]) * 8
            vals = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-45, -1.0, 3e38, 1e-30] if ty in (F32, F64) else [0, 1, 2, 3, (1 << n) - 1, 1 << (n - 1), (1 << (n - 1)) - 1, int(v) + 1, int(v) - 1, int(v) * 2, 1 << (n // 2)]
            for x in vals: yield "kv-value", f"{kn}: value {x}", "nocrash", lambda k=k, ty=ty, x=x: build(g, kv=setkv(k, ty, x))
        elif ty == STR:
            for x in (b"", b"\0", b"\xff\xfe\xfd", b"A" * (1 << 20), b"a\0b", "\u2603".encode() * 9, b"%s%n%x", b"../../x"): yield "kv-value", f"{kn}: string of {len(x)} bytes {x[:8]!r}", "nocrash", lambda k=k, x=x: build(g, kv=setkv(k, STR, x))
            for n in (len(v) + 1, 1 << 31, 1 << 32, 1 << 62, MAX64, MAX64 - 8):
                yield "kv-value", f"{kn}: string length {n}", "reject" if n > (1 << 30) else "nocrash", lambda k=k, v=v, n=n: build(g, kv=setkv(k, STR, Raw(struct.pack("<Q", n) + v)))
        else:
            et, el = v; body = lambda et=et, el=el: b"".join(enc(et, x) for x in el)
            for n in (0, 1, len(el) - 1, len(el) + 1, 1 << 31, 1 << 32, 1 << 60, 1 << 61, (1 << 62) + 1, MAX64):
                yield "kv-array", f"{kn}: count {n}, same bytes", "reject" if n > (1 << 30) else "nocrash", lambda k=k, et=et, n=n, body=body: build(g, kv=setkv(k, ARR, Raw(struct.pack("<IQ", et, n) + body())))
            for e2 in list(range(14)) + [0xFFFFFFFF]:
                if e2 != et: yield "kv-array", f"{kn}: element type {et} -> {e2}, same bytes", "reject" if e2 > 12 else "nocrash", lambda k=k, e2=e2, n=len(el), body=body: build(g, kv=setkv(k, ARR, Raw(struct.pack("<IQ", e2, n) + body())))
            for depth in (1, 2, 64, 5000, 100000):
                def f(k=k, depth=depth): return build(g, kv=setkv(k, ARR, Raw(struct.pack("<IQ", ARR, 1) * depth + struct.pack("<IQ", U8, 1) + b"\1")))
                yield "kv-array", f"{kn}: arrays nested {depth} deep", "nocrash", f
            for nm, ne in (("empty", []), ("first half", el[:len(el) // 2]), ("one short", el[:-1]), ("one more", el + el[:1]), ("doubled", el + el), ("reversed", el[::-1])):
                yield "kv-array", f"{kn}: {nm}", "nocrash", lambda k=k, et=et, ne=ne: build(g, kv=setkv(k, ARR, (et, ne)))
    # per tensor
    end = len(g.data)

    def sett(i, n=None, d=None, ty=None, off=None):
        o = [list(x) for x in T]
        if n is not None: o[i][0] = n
        if d is not None: o[i][1] = d
        if ty is not None: o[i][2] = ty
        if off is not None: o[i][3] = off
        return o

    for i, (n, d, ty, off) in enumerate(T):
        nm = n.decode()
        for L in (0, len(n) - 1, len(n) + 1, 64, 1 << 16, 1 << 31, 1 << 63, MAX64): yield "tensor-name", f"{nm}: name length {L}", "reject" if L > (1 << 30) else "nocrash", lambda i=i, n=n, L=L: build(g, t=sett(i, n=Raw(struct.pack("<Q", L) + n)))
        for x in (b"", b"x", n + b"\0", n * 20, b"\xff" + n, n.upper()): yield "tensor-name", f"{nm}: renamed {x[:12]!r}...", "nocrash", lambda i=i, x=x: build(g, t=sett(i, n=x))
        if i: yield "tensor-name", f"{nm}: same name as tensor 0", "reject", lambda i=i: build(g, t=sett(i, n=T[0][0]))
        for nd in (0, 5, 8, 255, 1 << 16, 0xFFFFFFFF): yield "tensor-dims", f"{nm}: n_dims {nd}", "reject" if nd > 4 else "nocrash", lambda i=i, d=d, nd=nd: build(g, t=sett(i, d=Raw(struct.pack("<I", nd) + b"".join(struct.pack("<Q", x) for x in d))))
        for j in range(len(d)):
            for x in (0, 1, d[j] - 1, d[j] + 1, d[j] * 2, 31, 33, 1 << 31, 1 << 32, (1 << 62) + 1, 1 << 63, MAX64):
                if x == d[j]: continue
                def f(i=i, j=j, x=x): q = list(T[i][1]); q[j] = x; return build(g, t=sett(i, d=q))
                yield "tensor-dims", f"{nm}: dim {j} = {x}", "reject" if x >= 1 << 31 else "nocrash", f
        for q in ([1 << 32, 1 << 32], [1 << 33, 1 << 31, 2], [1 << 16] * 4, [MAX64, MAX64], [0, 0], [1 << 61, 8], d[::-1], d + [1], d + [0], d + [2], [1] + d): yield "tensor-dims", f"{nm}: dims {q}", "reject" if any(x >= 1 << 31 for x in q) or q == [1 << 16] * 4 else "nocrash", lambda i=i, q=q: build(g, t=sett(i, d=q))
        for x in list(range(0, 44)) + [100, 255, 0x7FFFFFFF, 0xFFFFFFFF]:
            if x == ty: continue
            bad = x not in BLK or (d and d[0] % BLK[x][0] != 0); yield "tensor-type", f"{nm}: type {ty} -> {x}", "reject" if x > 255 or (x in BLK and d and d[0] % BLK[x][0] != 0) else "nocrash", lambda i=i, x=x: build(g, t=sett(i, ty=x))
        for x in (0, off + 1, off + g.align, off - g.align, off + 4, end - 1, end, end + g.align, 1 << 31, 1 << 32, 1 << 62, 1 << 63, MAX64, MAX64 - 31, MAX64 - end):
            if x & MAX64 == off: continue
            x &= MAX64; yield "tensor-offset", f"{nm}: offset {off} -> {x}", "reject" if x >= end or x % g.align else "nocrash", lambda i=i, x=x: build(g, t=sett(i, off=x))
        yield "tensor-missing", f"{nm}: removed", "nocrash", lambda i=i: build(g, t=T[:i] + T[i + 1:])
        j = rnd.randrange(len(T)); yield "tensor-offset", f"{nm}: offsets swapped with {T[j][0].decode()}", "nocrash", lambda i=i, j=j: build(g, t=[[x[0], x[1], x[2], T[j][3] if a == i else T[i][3] if a == j else x[3]] for a, x in enumerate(T)])
    yield "tensor-name", "an extra unknown tensor", "nocrash", lambda: build(g, t=T + [[b"blk.999.zzz.weight", [1], 0, 0]])
    yield "tensor-offset", "all offsets 0", "nocrash", lambda: build(g, t=[[a, b, c, 0] for a, b, c, _ in T])
    yield "tensor-name", "tensor order reversed", "nocrash", lambda: build(g, t=T[::-1])
    # truncation
    bs = sorted(set(b for b in g.bounds if b < g.header_end))
    for b in bs: yield "truncate", f"at field boundary {b}", "reject", lambda b=b: g.b[:b]
    for b in rnd.sample(bs, min(200, len(bs))):
        yield "truncate", f"one byte after a boundary {b + 1}", "reject", lambda b=b: g.b[:b + 1] if b + 1 < g.header_end else g.b[:b - 1]
        yield "truncate", f"one byte before a boundary {b - 1}", "reject", lambda b=b: g.b[:b - 1]
    for n in (g.header_end, g.data0, g.data0 + 1, g.data0 + len(g.data) // 2, g.data0 + (T and T[-1][3] or 0), len(g.b) - g.align - 4): yield "truncate", f"data cut at {n}", "reject", lambda n=n: g.b[:n]
    # hyper-parameters
    hp = [(k, ty, v) for k, ty, v in KV if k.startswith(arch.encode() + b".") and ty in FMT]
    byname = {k.decode().split(".", 1)[1]: (k, ty, v) for k, ty, v in hp}
    E = byname.get("embedding_length", (0, 0, 64))[2]
    want = {"attention.head_count": [0, 1, 3, 5, 7, 1 << 20, 0xFFFFFFFF], "attention.head_count_kv": [0, 3, 5, 64, 0xFFFFFFFF], "block_count": [0, 1, 100, 513, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF], "embedding_length": [0, 1, E - 1, E + 1, 2 * E, 0xFFFFFFFF],
            "feed_forward_length": [0, 1, 7, 1 << 30, 0xFFFFFFFF], "context_length": [0, 1, 0x7FFFFFFF, 0xFFFFFFFF], "rope.dimension_count": [0, 1, 3, 1024, 0xFFFFFFFF], "vocab_size": [0, 1, 100000000, 0xFFFFFFFF], "attention.key_length": [0, 1, 7, 0xFFFFFFFF], "attention.value_length": [0, 1, 7, 0xFFFFFFFF],
            "attention.sliding_window": [0, 1, 0x7FFFFFFF, 0xFFFFFFFF], "pooling_type": [0, 4, 9, 0xFFFFFFFF], "attention.relative_buckets_count": [0, 1, 3, 0xFFFFFFFF], "decoder_start_token_id": [0xFFFFFFFF, 1 << 20], "decoder_block_count": [0, 1, 1000]}
    for nm, xs in want.items():
        for x in xs:
            k = (arch + "." + nm).encode(); bad = nm in ("embedding_length",) and x != E or (nm in ("attention.head_count", "block_count") and x in (0, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF))
            yield "hyper", f"{nm} = {x}", "reject" if bad else "nocrash", lambda k=k, x=x: build(g, kv=setkv(k, U32, x))
    for nm in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", "rope.freq_base", "rope.freq_base_swa", "rope.scaling.factor", "final_logit_softcapping", "attention.scale"):
        for x in (float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e-45, 3e38): yield "hyper", f"{nm} = {x}", "nocrash", lambda nm=nm, x=x: build(g, kv=setkv(arch + "." + nm, F32, x))
    for nm, vals in (("attention.head_count", [(U32, [4] * 2), (U32, []), (I32, [-1] * 64), (U32, [0] * 7)]), ("feed_forward_length", [(U32, [64]), (STR, [b"x"])]), ("attention.sliding_window_pattern", [(BOOL, [1, 0]), (BOOL, []), (U32, [1] * 1000)])):
        for v in vals: yield "hyper", f"{nm} = array {v[0]} x {len(v[1])}", "nocrash", lambda nm=nm, v=v: build(g, kv=setkv(arch + "." + nm, ARR, v))
    for x in ("none", "linear", "yarn", "longrope", "bogus", ""): yield "hyper", f"rope.scaling.type = {x!r}", "nocrash", lambda x=x: build(g, kv=setkv(arch + ".rope.scaling.type", STR, x.encode()))
    for x in ("llama", "gemma3", "bert", "gpt2", "t5", "qwen2", "qwen3", "mamba", "clip", "nosuch", "LLAMA", "llama\0"):
        if x != arch: yield "hyper", f"architecture = {x!r}", "reject" if x in ("nosuch", "LLAMA", "llama\0") else "nocrash", lambda x=x: build(g, kv=setkv("general.architecture", STR, x.encode()))
    for ty, x in ((U32, 0), (U32, 1), (U32, 3), (U32, 24), (U32, 1 << 31), (U32, 0xFFFFFFFF), (STR, b"32"), (U64, 32), (F32, 32.0), (I32, -32)): yield "hyper", f"general.alignment = {x!r} type {ty}", "reject" if (ty == U32 and x in (0, 3, 24)) else "nocrash", lambda ty=ty, x=x: build(g, kv=setkv("general.alignment", ty, x))
    # tokenizer
    pre = "tokenizer.ggml."; tok = g.get(pre + "tokens"); n = len(tok[1]) if tok else 0

    def arr(k, f): et, el = g.get(pre + k); return build(g, kv=setkv(pre + k, ARR, (et, f(list(el)))))
    if n:
        def put(l, i, x): l[i] = x; return l
        R = rnd.randrange
        for nm, f in (("one short", lambda l: l[:-1]), ("one more", lambda l: l + [b"<extra>"]), ("half", lambda l: l[:len(l) // 2]), ("all empty", lambda l: [b""] * len(l)), ("all equal", lambda l: [b"a"] * len(l)), ("one 1 MiB token", lambda l: put(l, n // 2, b"z" * (1 << 20))), ("bad UTF-8 tokens", lambda l: [b"\xff" + x for x in l]),
                      ("duplicates", lambda l: put(l, n - 1, l[n // 2])), ("NUL in tokens", lambda l: [x + b"\0" for x in l]), ("shuffled", lambda l: rnd.sample(l, len(l))), ("first 256 blanked", lambda l: [b"[x%d]" % i if i < 256 else x for i, x in enumerate(l)]), ("100000 more", lambda l: l + [b"t%d" % i for i in range(100000)])):
            yield "tokenizer", f"tokens: {nm}", "nocrash", lambda f=f: arr("tokens", f)
        for key in ("scores", "token_type"):
            if g.get(pre + key):
                for nm, f in (("empty", lambda l: []), ("one short", lambda l: l[:-1]), ("one more", lambda l: l + l[:1]), ("half", lambda l: l[:n // 2]), ("ten times", lambda l: l * 10)): yield "tokenizer", f"{key}: {nm}", "nocrash", lambda key=key, f=f: arr(key, f)
        if g.get(pre + "scores"):
            for x in (float("nan"), float("inf"), float("-inf"), 3e38): yield "tokenizer", f"scores: all {x}", "nocrash", lambda x=x: arr("scores", lambda l: [x] * len(l)); yield "tokenizer", f"scores: some {x}", "nocrash", lambda x=x: arr("scores", lambda l: [x if i % 7 == 0 else y for i, y in enumerate(l)])
        if g.get(pre + "token_type"):
            for x in (0, 1, 2, 3, 4, 5, 6, 7, -1, 0x7FFFFFFF): yield "tokenizer", f"token_type: all {x}", "nocrash", lambda x=x: arr("token_type", lambda l: [x] * len(l))
        if g.get(pre + "merges"):
            for nm, f in (("empty", lambda l: []), ("absent tokens", lambda l: [b"qqq zzz"] + l), ("result absent", lambda l: [b"q z"] * 5 + l), ("no space", lambda l: [x.replace(b" ", b"") for x in l]), ("only spaces", lambda l: [b" "] * len(l)), ("empty strings", lambda l: [b""] * len(l)), ("three parts", lambda l: [x + b" x" for x in l]),
                          ("doubled", lambda l: l + l), ("reversed", lambda l: l[::-1]), ("leading space", lambda l: [b" " + x for x in l]), ("trailing space", lambda l: [x + b" " for x in l]), ("bad UTF-8", lambda l: [b"\xff \xfe"] + l), ("self merge chain", lambda l: [b"a a", b"aa aa", b"aaaa aaaa", b"aaaaaaaa a"] + l), ("1 MiB merge", lambda l: [b"a" * (1 << 20) + b" b"] + l), ("a million", lambda l: l + [b"x%d y" % i for i in range(1000000)])):
                yield "tokenizer", f"merges: {nm}", "nocrash", lambda f=f: arr("merges", f)
        yield "tokenizer", "byte tokens malformed", "nocrash", lambda: arr("tokens", lambda l: [x.replace(b"<0x", b"<0xZ") if x.startswith(b"<0x") else x for x in l])
        yield "tokenizer", "byte tokens all the same", "nocrash", lambda: arr("tokens", lambda l: [b"<0x41>" if x.startswith(b"<0x") else x for x in l])
        yield "tokenizer", "byte tokens cut", "nocrash", lambda: arr("tokens", lambda l: [b"<0x" if x.startswith(b"<0x") else x for x in l])
        for key in ("bos", "eos", "unknown", "padding", "seperator", "cls", "mask", "eot", "eom"):
            for x in (n - 1, n, n + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF): yield "tokenizer", f"{key}_token_id = {x}", "nocrash", lambda key=key, x=x: build(g, kv=setkv(pre + key + "_token_id", U32, x))
        for x in ("nosuch", "", "llama", "gpt2", "bert", "t5", "rwkv", "no_vocab", "none", "plamo2"): yield "tokenizer", f"model = {x!r}", "nocrash", lambda x=x: build(g, kv=setkv(pre + "model", STR, x.encode()))
        for x in ("nosuch", "", "default", "llama-bpe", "gpt-4o", "tekken"): yield "tokenizer", f"pre = {x!r}", "nocrash", lambda x=x: build(g, kv=setkv(pre + "pre", STR, x.encode()))
        for key in ("add_bos_token", "add_eos_token", "add_space_prefix", "remove_extra_whitespaces"):
            for ty, x in ((STR, b"true"), (U32, 1), (BOOL, 255), (ARR, (BOOL, [1]))): yield "tokenizer", f"{key} type {ty}", "nocrash", lambda key=key, ty=ty, x=x: build(g, kv=setkv(pre + key, ty, x))
        for cm in (b"", b"\0", b"\xff\xff\xff\xff", struct.pack("<I", 1 << 30) + b"x" * 64, struct.pack("<I", 8) + b"\xff" * 8 + b"abc", struct.pack("<I", 64) + bytes(range(256)) * 2): yield "tokenizer", f"precompiled_charsmap of {len(cm)} bytes", "nocrash", lambda cm=cm: build(g, kv=setkv(pre + "precompiled_charsmap", ARR, (U8, list(cm))))
        for x in ("{% for i in range(1000000000) %}x{% endfor %}", "{{", "{% if %}", "{% for m in messages %}", "{{ messages[99].content.foo.bar }}", "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "{{ '%s' % 1 }}{{ 1/0 }}", "{% set x = 'a' * 1000000000 %}{{ x }}", "{" * 100000, "{{ " + "(" * 50000 + ")" * 50000 + " }}", "{{ [" + "[" * 20000 + "]" * 20000 + "] }}", "\xff{{ raise_exception('no') }}", "{{ messages | tojson(indent=999999999) }}", "{% set ns = namespace(a=1) %}{% for i in range(100) %}{% for j in range(100000) %}{% set ns.a = ns.a + 1 %}{% endfor %}{% endfor %}"):
            yield "template", f"chat_template {x[:48]!r}", "nocrash", lambda x=x: build(g, kv=setkv("tokenizer.chat_template", STR, x.encode("latin-1", "replace")))
    # weights
    def poke(i, pat):
        nm, d, ty, off = T[i]; nv = 1
        for x in d: nv *= x
        b, z = BLK.get(ty, (1, 4)); nb = nv // b * z; q = bytearray(g.data); q[off:off + nb] = (pat * (nb // len(pat) + 1))[:nb]; return build(g, data=bytes(q))
    for i in range(len(T)):
        for lab, pat in (("NaN", b"\0\0\xc0\x7f"), ("inf", b"\0\0\x80\x7f"), ("huge", b"\xff\xff\x7f\x7f"), ("0xFF", b"\xff"), ("0", b"\0")): yield "weights", f"{T[i][0].decode()} filled with {lab}", "nocrash" if lab != "0" or T[i][0].startswith(b"rope_") else "accept", lambda i=i, pat=pat: poke(i, pat)


def flips(g, rnd):
    while True:
        k = rnd.choice((1, 1, 2, 4, 16, 200)); kind = rnd.choice(("header", "header", "header", "any", "splice", "insert", "delete", "zero")); b = bytearray(g.b)
        if kind in ("header", "any"):
            hi = g.header_end if kind == "header" else len(b)
            for _ in range(k): b[rnd.randrange(hi)] ^= 1 << rnd.randrange(8)
        elif kind == "splice":
            n = rnd.choice((1, 4, 8, 64, 1000)); x, y = rnd.randrange(g.header_end), rnd.randrange(len(b) - n); b[x:x + n] = b[y:y + n]
        elif kind == "insert": x = rnd.randrange(g.header_end); b[x:x] = bytes(rnd.randrange(256) for _ in range(rnd.choice((1, 4, 8))))
        elif kind == "delete": x = rnd.randrange(g.header_end); del b[x:x + rnd.choice((1, 4, 8, 64))]
        else: x = rnd.randrange(g.header_end); n = rnd.choice((4, 8, 64)); b[x:x + n] = b"\0" * n if rnd.random() < .5 else b"\xff" * n
        yield "random", f"{kind} x{k}", "nocrash", (lambda b=bytes(b): b)


def main():
    ap = argparse.ArgumentParser(); ap.add_argument("base"); ap.add_argument("outdir"); ap.add_argument("--seed", type=int, default=1); ap.add_argument("--count", type=int, default=500); ap.add_argument("--classes"); ap.add_argument("--list", action="store_true"); a = ap.parse_args()
    g = G(open(a.base, "rb").read()); rnd = random.Random(a.seed); by = {}
    for m in structural(g, rnd): by.setdefault(m[0], []).append(m)
    if a.classes: by = {k: v for k, v in by.items() if k in a.classes.split(",")}
    if a.list:
        for k, v in by.items(): print(k, len(v))
        print("total", sum(len(v) for v in by.values())); return
    for v in by.values(): rnd.shuffle(v)
    nr = 0 if a.classes and "random" not in a.classes.split(",") else a.count // 6; want = a.count - nr; pick = []
    while want > 0 and any(by.values()):
        for k in sorted(by):
            if by[k] and want > 0: pick.append(by[k].pop()); want -= 1
    fl = flips(g, rnd); pick += [next(fl) for _ in range(a.count - len(pick))] if nr or not a.classes else []
    os.makedirs(a.outdir, exist_ok=True)
    with open(os.path.join(a.outdir, "manifest.jsonl"), "w") as mf:
        for i, (c, w, e, f) in enumerate(pick):
            fn = f"m{i:05d}.gguf"; b = f()
            open(os.path.join(a.outdir, fn), "wb").write(b); mf.write(json.dumps(dict(file=fn, **{"class": c}, what=w, expect=e, bytes=len(b))) + "\n")
    print(len(pick), "files")


if __name__ == "__main__":
    main()
