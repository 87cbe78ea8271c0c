"""examples/quickstart.sh, run again, and examples/hello: the answer alone on standard output, with the ids that the
reference gives.

  quickstart_test.py ROOT BUILD_FOLDER

The ids are those of transformers in float32, greedy, for the pinned model (the full set of reference outputs has them as
smollm2-0 and smollm2-4); the smallest distance between the best and the second-best logit along them is 0.16 and 0.41.
"""
import json
import subprocess
import sys

import model as models

ANSWERS = {
    None: [19556, 17, 339, 5248, 1535, 288, 724, 351, 750, 1942, 282, 4833, 2385, 1391, 30, 1812, 6633, 346, 1535, 1834, 47],
    "List three fruits that are yellow.": [33, 30, 12619, 12310, 198, 34, 30, 1816, 5120, 198, 35, 30, 37756, 11895],
}
root, build = sys.argv[1:]
model = models.smollm2(root)
failures = 0


def expect(condition, sentence):
    global failures
    if not condition:
        failures += 1
        print("FAIL: " + sentence)


def check_answer(command, ids):
    result = subprocess.run(command, capture_output=True, text=True)
    expect(result.returncode == 0, f"{command[0]} ended with status {result.returncode}: {result.stderr[-2000:]}")
    text = result.stdout.rstrip("\n")
    tokenized = subprocess.run([build + "/mote", "tokenize", "-m", model, "--json"], input=text, capture_output=True, text=True)
    expect(tokenized.returncode == 0, f"mote tokenize: {tokenized.stderr}")
    found = json.loads(tokenized.stdout)["ids"] if tokenized.returncode == 0 else None
    expect(found == ids, f"{command[0]} answered {text!r}, whose ids are {found}, not {ids}")


for prompt, ids in ANSWERS.items():
    check_answer([root + "/examples/quickstart.sh"] + ([prompt] if prompt else []), ids)
    if prompt:
        check_answer([build + "/examples/hello/hello", model, prompt], ids)
result = subprocess.run([root + "/examples/quickstart.sh", "two", "words"], capture_output=True, text=True)
expect(result.returncode == 1 and "in quotes" in result.stderr and not result.stdout, "two prompts are refused in a sentence")
sys.exit(1 if failures else 0)
