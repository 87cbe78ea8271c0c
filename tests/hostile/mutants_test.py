"""Damaged models: each is refused with a sentence or runs; none crashes, hangs or asks for absurd memory.

    mutants_test.py LOAD_MANY bpe|spm|unigram|wordpiece|windows|bert|t5|rnn|classifier|transducer|BASE.gguf COUNT SEED

Makes COUNT mutants of a small model (mutants.py) and lets LOAD_MANY (load_many.cpp) open and use each. A mutant that is
wrong on its face must be refused, one that is harmless must be accepted. Many are made in batches, each from a seed of its
own: 100,000 are SEED, SEED + 1, ...
"""
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def read_manifest(folder):
    with open(os.path.join(folder, "manifest.jsonl"), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def outcomes_of(load_many, folder, names):
    """name -> (outcome, what was said). Goes on behind a mutant that ended the program."""
    outcomes, first = {}, 0
    while first < len(names):
        run = subprocess.run([load_many, folder, str(first)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = run.stdout.decode("utf-8", "replace").splitlines()
        for name, said in zip(lines[0::2], lines[1::2]):
            outcome, _, sentence = said.partition(" ")
            outcomes[name] = (outcome, sentence)
        first = names.index(lines[-1 if len(lines) % 2 else -2]) + 1 if lines else len(names)
        if run.returncode != 0:
            what = "hung" if run.returncode in (-signal.SIGALRM, -signal.SIGPROF) else f"ended the program with {run.returncode}"
            tail = run.stderr.decode("utf-8", "replace")[-2000:]
            outcomes[names[first - 1]] = ("crash", f"{what}: {lines[-1] if lines else ''}\n{tail}")
        elif first < len(names):
            raise SystemExit("the loader stopped early without a word")
    return outcomes


BATCH = 1000


def outcomes_of_batch(load_many, base, folder, seed, count):
    """(mutant of the manifest, outcome, what was said) of each."""
    subprocess.run([sys.executable, "-B", os.path.join(HERE, "mutants.py"), base, folder, "--seed", str(seed),
                    "--count", str(count)], check=True, stdout=subprocess.DEVNULL)
    mutants = read_manifest(folder)
    names = [mutant["file"] for mutant in mutants]
    with open(os.path.join(folder, "list"), "w", encoding="utf-8") as out:
        out.write("".join(name + "\n" for name in names))
    outcomes = outcomes_of(load_many, folder, names)
    return [(mutant, *outcomes[mutant["file"]]) for mutant in mutants]


def main():
    load_many, kind, count, seed = sys.argv[1:]
    faults, counts = 0, collections.Counter()
    for first in range(0, int(count), BATCH):
        with tempfile.TemporaryDirectory() as folder:
            base = kind
            if not kind.endswith(".gguf"):
                base = os.path.join(folder, "base.gguf")
                subprocess.run([load_many, "--base", kind, base], check=True)
            for mutant, outcome, said in outcomes_of_batch(load_many, base, folder, int(seed) + first // BATCH,
                                                           min(BATCH, int(count) - first)):
                counts[outcome] += 1
                if outcome == "crash" or {mutant["expect"], outcome} in ({"reject", "accepted"}, {"accept", "rejected"}):
                    print(f"{mutant['file']} {mutant['class']}: {mutant['what']}: expected {mutant['expect']}, {outcome}: {said}")
                    faults += 1
    print(dict(counts), "of", count, "mutants of", os.path.basename(kind))
    # A loader that refuses everything would pass the rest.
    return 1 if faults or not counts["accepted"] or not counts["rejected"] else 0


if __name__ == "__main__":
    sys.exit(main())
