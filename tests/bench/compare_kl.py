"""How far mote's logits lie from the oracle's, and how far another program's do: Kullback-Leibler divergence on the same positions.

The oracle is the backend `reference` with keys and values in f32: double precision on the same file. A text is cut into contexts;
each is computed by the oracle, by mote and by every peer, from the same ids. A peer is a command that writes float32 logits
[n_tokens, n_vocab] to a .npy file; in it {model}, {ids}, {kv} and {out} stand for the model, ids with commas between them,
f16 or f32, and the file.

Printed, in nats: the mean over all positions, the worst position, and how many positions have the oracle's most probable token. The
ratio of means, mote over peer with keys and values of the same kind, is below 1 where mote is nearer; its standard error is that of paired positions.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit("compare_kl.py: no numpy for " + sys.executable)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROWS = 2   # compared at once


class Failure(Exception):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="a GGUF file that all can run")
    parser.add_argument("text", metavar="TEXT", help="a file")
    parser.add_argument("--mote", default=os.path.join(ROOT, "build", "release", "mote"), help="mote's program (default: that of build/release)")
    parser.add_argument("--backend", default="cpu", help="of mote, compared with the oracle (default: cpu)")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="may be given again")
    parser.add_argument("-c", "--context", type=int, default=256, help="tokens of a context (default: 256)")
    parser.add_argument("--contexts", type=int, default=1, help="how many, from the start of the text (default: 1)")
    parser.add_argument("--kv-type", type=lambda text: text.split(","), default=["f16"], help="f16, f32 or f16,f32 (default: f16)")
    parser.add_argument("-t", "--threads", type=int, default=1, help="of mote (default: 1)")
    options = parser.parse_args()
    if options.context < 2 or options.contexts < 1 or not set(options.kv_type) <= {"f16", "f32"}:
        parser.error("--context is 2 or more, --contexts 1 or more, --kv-type f16 or f32")
    if any("=" not in peer for peer in options.peer):
        parser.error("--peer is NAME=COMMAND")
    return options


def run(command, given=None):
    try:
        done = subprocess.run(command, input=given, capture_output=True)
    except OSError as error:
        raise Failure(f"{command[0]} cannot be run: {error.strerror}")
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise Failure(f"{shlex.join(command)[:200]} ended with {done.returncode}: {' / '.join(said)}")
    return done.stdout


def contexts_of(options):
    def ids(given, *flags):
        return json.loads(run([options.mote, "tokenize", "-m", options.model, "--json", *flags], given))["ids"]
    with open(options.text, "rb") as file:
        tokens = ids(file.read())
    start = ids(b"", "--add-special")
    each = options.context - len(start)
    if len(tokens) < each * options.contexts:
        raise Failure(f"{options.text} has {len(tokens)} tokens, and {options.contexts} contexts want {each * options.contexts}")
    return [start + tokens[i * each:(i + 1) * each] for i in range(options.contexts)]


def contenders_of(options):
    """Name and kind of keys and values to a function that makes the command."""
    def mote(backend, kv):
        return lambda ids, out: [options.mote, "logits", "-m", options.model, "--backend", backend, "--kv-type", kv,
                                 "-t", str(options.threads), "--tokens", ids, "-o", out]

    def peer(command, kv):
        return lambda ids, out: [word.format(model=options.model, ids=ids, kv=kv, out=out) for word in shlex.split(command)]
    contenders = {}
    for kv in options.kv_type:
        contenders["mote", kv] = mote(options.backend, kv)
        for entry in options.peer:
            name, command = entry.split("=", 1)
            contenders[name, kv] = peer(command, kv)
    return mote("reference", "f32"), contenders


def logits_of(command, ids, path):
    run(command(",".join(map(str, ids)), path))
    logits = np.load(path, mmap_mode="r")
    if logits.ndim != 2 or logits.shape[0] != len(ids):
        raise Failure(f"{command('IDS', path)[0]} wrote logits of shape {logits.shape} for {len(ids)} tokens")
    return logits


def log_softmax(logits):
    x = np.asarray(logits, np.float64)
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def divergences(oracle, others):
    """Of each position to each of the others, and whether both have the same most probable token."""
    result = {name: ([], []) for name in others}
    for begin in range(0, oracle.shape[0], ROWS):
        truth = log_softmax(oracle[begin:begin + ROWS])
        for name, logits in others.items():
            if logits.shape != oracle.shape:
                raise Failure(f"{name[0]} wrote logits of shape {logits.shape}, the oracle {oracle.shape}")
            guess = log_softmax(logits[begin:begin + ROWS])
            result[name][0].extend((np.exp(truth) * (truth - guess)).sum(axis=1))
            result[name][1].extend(truth.argmax(axis=1) == guess.argmax(axis=1))
    return result


def measure(options):
    oracle, contenders = contenders_of(options)
    found = {name: ([], []) for name in contenders}
    with tempfile.TemporaryDirectory() as folder:
        for ids in contexts_of(options):
            path = lambda name: os.path.join(folder, f"{name}.npy")
            truth = logits_of(oracle, ids, path("oracle"))
            others = {name: logits_of(command, ids, path(i)) for i, (name, command) in enumerate(contenders.items())}
            for name, (distance, same) in divergences(truth, others).items():
                found[name][0].extend(distance)
                found[name][1].extend(same)
    return {name: (np.array(distance), np.array(same)) for name, (distance, same) in found.items()}


def ratio_text(own, other):
    if not other.mean() > 0:
        return "" if own.mean() > 0 else "1.000"   # both are the oracle's
    ratio = own.mean() / other.mean()
    error = (own - ratio * other).std() / other.mean() / np.sqrt(own.size)
    return f"{ratio:.3f} +- {error:.3f}"


def main():
    options = parse_arguments()
    found = measure(options)
    print("| model | logits of | KV | positions | mean | worst | at | same first | mote / this |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (name, kv), (distance, same) in found.items():
        if not np.isfinite(distance).all():
            raise Failure(f"{name} has logits that are not finite, or a probability of 0, at position {int(np.argmin(np.isfinite(distance)))}")
        ratio = "" if name == "mote" else ratio_text(found["mote", kv][0], distance)
        print(f"| {os.path.basename(options.model)} | {name} | {kv} | {distance.size} | {distance.mean():.3e} | {distance.max():.3e} "
              f"| {int(distance.argmax())} | {same.mean():.2%} | {ratio} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"compare_kl.py: {failure}", file=sys.stderr)
        sys.exit(1)
