"""What the scripts of this folder share: commands that end the test with their whole output when they fail."""
import os
import subprocess
import sys


def run(*command, **options):
    """The command's standard output; the test ends when it fails."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        sys.exit(f"FAIL: {' '.join(map(str, command))}\nstatus {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def must_fail(sentence, *command):
    """Fails, and says `sentence`."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    said = " ".join((result.stdout + result.stderr).split())
    if result.returncode == 0 or sentence not in said:
        sys.exit(f"FAIL: {' '.join(map(str, command))}\nstatus {result.returncode}, wanted a failure with {sentence!r}\n{said[-3000:]}")


def expect_equal(found, wanted, what):
    if found.strip() != wanted.strip():
        sys.exit(f"FAIL: {what} printed\n  {found.strip()}\nand not\n  {wanted.strip()}")
    print(f"{what}: {found.strip()}")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
