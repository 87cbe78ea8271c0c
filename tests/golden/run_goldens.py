#!/usr/bin/env python3
"""Compares what mote computes with the reference outputs, section by section.

  run_goldens.py SECTION --dump PROGRAM [--backend NAME] [--only ARCHITECTURE] [--every N] [--real MODEL]

SECTION: quant, logits, tokens, stream, sampler, or, with a real model (smollm2, gemma3) that MOTE_SMOLLM2 or MOTE_GEMMA3
names, prompts, follow, perplexity, or with the one that MOTE_MINILM names, similarity. The data: MOTE_GOLDENS_DIR, the full set, where that is set (then nothing may be missing), else tests/golden/data.
Exit status 0: all within the limits; 1: not, or nothing was compared; 4: what the section needs is not there (skipped).
The limits are those of the goldens' own page (8-bit activations are judged by their relative root mean square).
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 4
# What the full set must have, by section; the kept set has some of it.
# Models by architecture, each a row of core/model/arches.inc. An architecture may have a forward_<name>.py instead.
MODELS = {
    "llama": ["tiny-llama-rope3-f32", "tiny-llama-plain-f16"] + ["tiny-llama-256-" + kind for kind in (
        "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4").split()],
    "qwen2": ["tiny-qwen2-f32"], "qwen3": ["tiny-qwen3-f32"], "gemma3": ["tiny-gemma3-f32"], "gpt2": ["tiny-gpt2-f32"],
    "bert": ["tiny-bert-mean-f32", "tiny-bert-cls-f32"],
    "t5": ["tiny-t5-gated-f32"],
}
ENCODERS = ("bert", "t5", "rnn", "transducer")   # architectures with an encoder
# Models that this project trained itself, with the outputs of PyTorch: in the tree, whatever MOTE_GOLDENS_DIR says.
LAB = os.path.join(HERE, "..", "..", "examples", "seed_lab", "models")
TRAINED = {"rnn": ["reviews-mean", "reviews-attention"], "transducer": ["dates"]}
ARCHES_INC = os.path.join(HERE, "..", "..", "core", "model", "arches.inc")
TOKENIZERS = ["tiny-llama-rope3-f32", "tiny-llama-plain-f16", "tiny-qwen2-f32", "tiny-qwen3-f32", "tiny-gemma3-f32",
              "tiny-gpt2-f32", "tiny-t5-gated-f32", "tiny-bert-mean-f32"]
# Whose reference text was tidied (blanks before punctuation), as a GGUF file does not say.
TIDIED = ["bert-minilm"]
QUANT_TYPES = ("F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4").split()
WHOLE_WEIGHTS = ("f32", "f16", "bf16")
WHOLE_ACTIVATIONS = ("reference", "vulkan")   # backends that do not round activations to 8 bits
# Backends that lack an op of some architecture: the steps go to the next of the list.
WITH_OTHERS = {"xnnpack": "xnnpack,cpu"}


def fail(sentence):
    print("FAIL", sentence)
    sys.exit(1)


class Goldens:
    """Where the data is, the program under test, and a folder for what it writes."""

    def __init__(self, program, backend, scratch, only=None, every=1, whole=False, real="smollm2"):
        named = os.environ.get("MOTE_GOLDENS_DIR")
        self.full = bool(named)
        self.folder = named or os.path.join(HERE, "data")
        if not os.path.isdir(self.folder):
            fail("MOTE_GOLDENS_DIR names %s, which is not a folder" % self.folder)
        self.program, self.backend, self.scratch, self.only = program, backend, scratch, only
        self.every, self.whole, self.real = every, whole, real
        self.device = None

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def out(self, name):
        return os.path.join(self.scratch, name)

    def have(self, path):
        """Whether a file is there; in the full set it must be."""
        if os.path.exists(path):
            return True
        if self.full:
            fail("%s is missing from the full set" % path)
        return False

    def dump(self, *arguments):
        if self.backend == "vulkan" and not self.have_device():
            print("skipped: there is no Vulkan device on this machine")
            sys.exit(1 if os.environ.get("MOTE_VULKAN_MUST_RUN") else SKIPPED)
        done = subprocess.run([self.program, *arguments], stdout=subprocess.PIPE, universal_newlines=True)
        if done.returncode != 0:
            fail("%s ended with %d" % (" ".join(arguments[:2]), done.returncode))
        return done.stdout

    def have_device(self):
        """Whether the backend opens on this machine; asked once."""
        if self.device is None:
            self.device = subprocess.run([self.program, "device", "--backend", self.backend]).returncode == 0
        return self.device

    def check(self, *arguments):
        """Runs check.py; True when it found nothing wrong."""
        return subprocess.run([sys.executable, os.path.join(HERE, "check.py"), *arguments]).returncode == 0

    def real_model(self, variable=None):
        variable = variable or "MOTE_" + self.real.upper()
        model = os.environ.get(variable)
        if not model:
            print("skipped: %s is not set" % variable)
            sys.exit(SKIPPED)
        return model


def quant(goldens):
    written = goldens.dump("quant", goldens.path("quant"), goldens.scratch).split()
    have = [name for name in QUANT_TYPES if goldens.have(goldens.path("quant", name + ".blocks.bin"))]
    every = json.load(open(goldens.path("quant", "quant.json")))
    if len(have) == 0 or not set(have) <= set(written):
        fail("the program has %s, the data %s" % (written, have))
    left_out = [name for name in every if name not in have]
    return goldens.check("quant", goldens.path("quant"), goldens.scratch, "--without", ",".join(left_out))


def architectures():
    """The rows of arches.inc, every architecture that mote can be built with: {name: its forward pass here, or None}."""
    rows = re.findall(r"^MOTE_ARCHITECTURE\((\w+),", open(ARCHES_INC).read(), re.MULTILINE)
    found = {name[len("forward_"):-len(".py")]: os.path.join(HERE, name) for name in os.listdir(HERE)
             if re.fullmatch(r"forward_\w+\.py", name) and name != "forward_pass.py"}
    for name in sorted({*MODELS, *TRAINED, *found} - {*rows}):
        fail("tests/golden has outputs of the architecture %s, which has no row in core/model/arches.inc" % name)
    if not rows:
        fail("core/model/arches.inc has no rows")
    return {name: found.get(name) for name in rows}


def logits(goldens):
    """Every architecture must have a model that is compared, in either set, or a forward pass here."""
    good = True
    if goldens.only not in (None, *architectures()):
        fail("core/model/arches.inc has no row for %s" % goldens.only)
    for architecture, forward in architectures().items():
        if goldens.only not in (None, architecture):
            continue
        backends = WITH_OTHERS.get(goldens.backend, goldens.backend)
        if architecture in ENCODERS and backends == "vulkan":
            backends += ",cpu"   # which runs what it leaves
        right, compared = logits_of(goldens, MODELS.get(architecture, [])[::goldens.every], goldens.path("models"), backends)
        good &= right
        right, more = logits_of(goldens, TRAINED.get(architecture, []), LAB, backends)
        good, compared = good and right, compared + more
        if forward is not None:
            subprocess.run([sys.executable, "-B", forward, goldens.scratch], check=True)
            right, more = logits_of(goldens, ["forward-" + architecture], goldens.scratch, backends)
            good, compared = good and right, compared + more
        if compared == 0:
            print("FAIL tests/golden has no outputs of the architecture", architecture)
            good = False
    return good


def logits_of(goldens, models, folder, backends):
    good, compared = True, 0
    for name in models:
        model, reference = os.path.join(folder, name + ".gguf"), os.path.join(folder, name + ".ref.json")
        if not (goldens.have(model) and goldens.have(reference)):
            continue
        whole, cut = goldens.out(name + ".bin"), goldens.out(name + ".cut.bin")
        goldens.dump("logits", model, reference, whole, "--backend", backends)
        goldens.dump("logits", model, reference, cut, "--backend", backends, "--batch", "3")
        exact = goldens.backend in WHOLE_ACTIVATIONS or json.load(open(reference))["weights"].lower() in WHOLE_WEIGHTS
        good &= goldens.check("logits", reference, whole, *([] if exact else ["--rel-rms", "0.03"]))
        if open(whole, "rb").read() != open(cut, "rb").read():
            print("FAIL", name, "cut into batches of 3 gives other bits")
            good = False
        compared += 1
    return good, compared


def each_tokenizer(goldens):
    """Pairs of a name and a GGUF file with that vocabulary."""
    for name in TOKENIZERS:
        if goldens.have(goldens.path("models", name + ".gguf")) and goldens.have(goldens.path("tokenizer", name + ".jsonl")):
            yield name, goldens.path("models", name + ".gguf")
    vocabularies = os.environ.get("MOTE_VOCABULARIES")
    if vocabularies and goldens.full:
        for file in sorted(os.listdir(vocabularies)):
            if file.endswith(".gguf") and os.path.exists(goldens.path("tokenizer", file[:-5] + ".jsonl")):
                yield file[:-5], os.path.join(vocabularies, file)


def tokens(goldens):
    good, compared = True, 0
    for name, model in each_tokenizer(goldens):
        print(name, end=": ", flush=True)
        cases, found = goldens.path("tokenizer", name + ".jsonl"), goldens.out(name + ".jsonl")
        goldens.dump("tokens", model, cases, found)
        good &= goldens.check("tokens", cases, found, *(["--without", "detok_hex"] if name in TIDIED else []))
        compared += 1
    return good and compared > 0


def stream(goldens):
    cases, everything = goldens.path("tokenizer", "streaming.jsonl"), goldens.out("stream.jsonl")
    if not os.path.exists(cases):
        fail("%s is missing" % cases)
    named = {json.loads(line)["tokenizer"] for line in open(cases)}
    done = set()
    with open(everything, "w") as all_lines:
        for name, model in each_tokenizer(goldens):
            found = goldens.out(name + ".stream.jsonl")
            goldens.dump("stream", name, model, cases, found)
            all_lines.write(open(found).read())
            done.add(name)
    print("tokenizers:", " ".join(sorted(done & named)))
    return goldens.check("stream", cases, everything, "--without", ",".join(sorted(named - done)))


def sampler(goldens):
    found = goldens.out("sampler.jsonl")
    goldens.dump("sampler", goldens.folder, found)
    return goldens.check("sampler", goldens.path("sampler", "cases.jsonl"), found, "--tol", "1e-5")


def read_real(goldens):
    return json.load(open(goldens.path("real", goldens.real + ".json")))


def prompts(goldens):
    """SmolLM2's chat prompts, as text to the byte and as ids."""
    model, cases, found = goldens.real_model(), goldens.out("prompts.jsonl"), goldens.out("prompts.found.jsonl")
    wanted = [dict(case, add_generation_prompt=True) for case in read_real(goldens)["cases"]]
    templates = goldens.path("templates", "templates.jsonl")
    if goldens.have(templates):
        for line in open(templates):
            case = json.loads(line)
            if case["template"] == "smollm2" and "text" in case and not case["extra"]:
                wanted.append(case)
    with open(cases, "w") as file:
        file.writelines(json.dumps(case) + "\n" for case in wanted)
    goldens.dump("prompts", model, cases, found)
    bad = 0
    for want, line in zip(wanted, open(found)):
        got = json.loads(line)
        if got["text"] != want["text"] or got["ids"] != want.get("prompt_ids", got["ids"]):
            print("FAIL", want["id"], "want", repr(want["text"]), "got", repr(got["text"]), got["ids"])
            bad += 1
    print("%d prompts, %d differ" % (len(wanted), bad))
    return bad == 0 and len(wanted) > 0


# How far a real model's logits and (relative) perplexity may be off, where not 1.5 and what is said below. xnnpack runs it
# in int8 per row of weights and of activations, some of which are a hundred times the others: backends/xnnpack/README.md.
# vulkan: found 5e-5, the last digit of the outputs. The surprise of a token, the logarithm of the sum of all exp(logit)
# less its own logit, changes by at most twice what a logit does, so the perplexity by a factor of exp(2 x 2e-4).
LOGITS_OFF = {"reference": 0.01, "vulkan": 0.0002, "xnnpack": 3.5}
PERPLEXITY_OFF = {"reference": 0.0005, "vulkan": math.exp(2 * LOGITS_OFF["vulkan"]) - 1, "xnnpack": 0.04}
# How many chunks of the text where not all of them: lavapipe takes a minute or two for one.
PERPLEXITY_CHUNKS = {"vulkan": 1}
PERPLEXITY_OFF_8_BIT = {"smollm2": 0.005, "gemma3": 0.01}   # by model


def follow(goldens):
    """Along the handed ids: the argmax where the margin is over 1.0, and the ten largest logits."""
    found, limit = goldens.out("follow.jsonl"), LOGITS_OFF.get(goldens.backend, 1.5)
    cases = read_real(goldens)["cases"]
    if goldens.backend == "vulkan" and not goldens.whole:   # a driver without a GPU is slow
        cases = cases[:2]
    cut = goldens.out("cases.json")
    with open(cut, "w") as file:
        json.dump({"cases": cases}, file)
    goldens.dump("follow", goldens.real_model(), cut, found, "--backend", goldens.backend)
    bad, judged, differ, worst = 0, 0, 0, 0.0
    for case, line in zip(cases, open(found)):
        steps = json.loads(line)["steps"]
        if len(steps) != len(case["greedy_ids"]):
            fail("%s has %d steps instead of %d" % (case["id"], len(steps), len(case["greedy_ids"])))
        for at, (step, want, margin) in enumerate(zip(steps, case["greedy_ids"], case["margins"])):
            differ += step["ids"][0] != want
            if margin > 1.0 or goldens.backend in WHOLE_ACTIVATIONS and margin > 0.02:
                judged += 1
                if step["ids"][0] != want:
                    bad += 1
                    print("FAIL %s step %d: %d instead of %d, margin %g" % (case["id"], at, step["ids"][0], want, margin))
        for at, (step, want) in enumerate(zip(steps, case["top10"])):
            got = dict(zip(step["ids"], step["logits"]))
            for token, logit in zip(want["ids"], want["logits"]):
                if token in got:
                    worst = max(worst, abs(got[token] - logit))
                    if abs(got[token] - logit) > limit:
                        bad += 1
                        print("FAIL %s step %d: logit of %d is %g instead of %g" % (case["id"], at, token, got[token], logit))
    print("%d steps judged, %d argmax differ at any margin, logits off by %.4g at most (limit %g)" % (judged, differ, worst, limit))
    return bad == 0 and judged > 0


def perplexity(goldens):
    """Chunks of 256; on a backend with 8-bit activations the longest, where it is furthest off, or all when all is asked for."""
    reference, real = goldens.backend in WHOLE_ACTIVATIONS, read_real(goldens)
    good = True
    for chunk in ["256"] if reference else sorted(real["perplexity"])[0 if goldens.whole else -1:]:
        found = goldens.out("perplexity.json")
        limit = PERPLEXITY_OFF.get(goldens.backend, PERPLEXITY_OFF_8_BIT[goldens.real])
        n_chunks = PERPLEXITY_CHUNKS.get(goldens.backend, 0)   # 0: all
        goldens.dump("perplexity", goldens.real_model(), goldens.path("real", real["text"]), chunk, found, "--backend",
                     goldens.backend, "--chunks", str(n_chunks))
        got, want = json.load(open(found)), real["perplexity"][chunk]["running"][n_chunks - 1]
        good &= len(got["running"]) == (n_chunks or len(real["perplexity"][chunk]["running"]))
        off = got["perplexity"] / want - 1
        good &= abs(off) <= limit and got["text_tokens"] == real["text_tokens"]
        print("chunks of %s: %.5f, reference %.5f, off by %+.4f %% (limit %.3g %%), %d tokens" % (
            chunk, got["perplexity"], want, 100 * off, 100 * limit, got["text_tokens"]))
    return good


def similarity(goldens):
    """MiniLM's vectors of ten sentences and the cosine of each pair."""
    import numpy as np
    model, found = goldens.real_model("MOTE_MINILM"), goldens.out("similarity.bin")
    reference = goldens.path("real", "minilm.json")
    want = json.load(open(reference))
    goldens.dump("embed", model, reference, found, "--backend", goldens.backend)
    shape = want["rows"], want["dim"]
    vectors = np.fromfile(found, "<f4").reshape(shape).astype(np.float64)
    expected = np.fromfile(goldens.path("real", want["data"]), "<f4").reshape(shape).astype(np.float64)
    cosines, numbers = np.abs(vectors @ vectors.T - np.array(want["cosine"])).max(), np.abs(vectors - expected).max()
    print("cosines off by %.2g at most (limit 0.002), vectors by %.2g (limit 2e-4)" % (cosines, numbers))
    return bool(cosines <= 0.002 and numbers <= 2e-4)


SECTIONS = {section.__name__: section for section in (quant, logits, tokens, stream, sampler, prompts, follow, perplexity,
                                                      similarity)}


def main():
    try:
        import numpy  # noqa: F401 (check.py needs it)
    except ImportError:
        other = os.environ.get("MOTE_PYTHON")
        if not other or os.environ.get("MOTE_GOLDENS_TRIED"):
            fail("no numpy for %s; MOTE_PYTHON names a Python that has it (tests/run.sh sets it)" % sys.executable)
        os.environ["MOTE_GOLDENS_TRIED"] = "1"
        os.execvp(other, [other, os.path.abspath(__file__), *sys.argv[1:]])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=sorted(SECTIONS))
    parser.add_argument("--dump", required=True)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--whole", action="store_true", help="also what is slow and adds little")
    parser.add_argument("--only", help="of section logits, the models of this architecture")
    parser.add_argument("--every", type=int, default=1, help="of section logits, each n-th model of an architecture, the first among them")
    parser.add_argument("--real", choices=sorted(PERPLEXITY_OFF_8_BIT), default="smollm2", help="of sections with a real model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        goldens = Goldens(arguments.dump, arguments.backend, scratch, arguments.only, arguments.every, arguments.whole, arguments.real)
        sys.exit(0 if SECTIONS[arguments.section](goldens) else 1)


if __name__ == "__main__":
    main()
