"""examples/firmware on an emulated board: the host's bits, exactly the quoted memory, no heap.

  firmware_test.py BOARD SOURCE BUILD MODEL HOST_PROGRAM HOST_LIMITS

Builds tests/firmware/board for BOARD in BUILD. 77: the cross compiler or the emulator is not on this machine.
"""
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

board, source, build, model, host_program, host_limits = sys.argv[1:7]
BUILD_SECONDS, RUN_SECONDS = 1500, 120
EMULATOR = ["qemu-system-arm", "-M", board, "-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=output",
            "-semihosting-config", "enable=on,target=native,chardev=output", "-kernel"]

missing = [tool for tool in ("arm-none-eabi-gcc", "arm-none-eabi-g++", "arm-none-eabi-size", "qemu-system-arm", "cmake", "ninja")
           if not shutil.which(tool)]
# A compiler without its C++ library counts as none.
if not missing and subprocess.run(["arm-none-eabi-g++", "-std=c++20", "-E", "-x", "c++", "-"], input="#include <span>", text=True,
                                  capture_output=True).returncode:
    missing = ["the C++ library of arm-none-eabi-g++"]
if missing:
    print(f"{' and '.join(missing)} not found: examples/firmware was not tried (tests/run.sh installs what it needs)")
    sys.exit(77)


def run(*command, seconds=RUN_SECONDS):
    """(exit code, what was printed, seconds)"""
    started = time.monotonic()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=seconds)
    return result.returncode, result.stdout, time.monotonic() - started


def must(*command, seconds=RUN_SECONDS):
    code, text, took = run(*command, seconds=seconds)
    if code != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {code}:\n{text[-4000:]}")
    return text, took


def emulate(name):
    return run(*EMULATOR, f"{build}/{name}.elf")


def numbers(text):
    """{name: value} of the lines "name value"."""
    return {name: int(value) for name, value in re.findall(r"^([a-z ]+) (\d+)$", text, flags=re.MULTILINE)}


def answer(text):
    """The lines that must be the same everywhere: prompt, ids and the bits of all logits."""
    return [line for line in text.splitlines() if line.startswith(("prompt ", "id ", "logits "))]


def sections(path):
    text, _ = must("arm-none-eabi-size", "-A", path)
    return {name: int(size) for name, size in re.findall(r"^(\.\S+)\s+(\d+)", text, flags=re.MULTILINE)}


def library_bytes(path):
    """Bytes of code and constants that libmote.a has in a program, by its map."""
    with open(path + ".map", encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("Linker script and memory map"):]
    sizes = re.findall(r"^ \.(?:text|rodata)\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+\S*libmote\.a\(", text, flags=re.MULTILINE)
    return sum(int(size, 16) for size in sizes)


class Firmware(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        must("cmake", "-S", f"{source}/tests/firmware/board", "-B", build, "-G", "Ninja", f"-DMOTE_BOARD={board}",
             "--toolchain", f"{source}/examples/firmware/arm-none-eabi.cmake", f"-DMOTE_FIRMWARE_MODEL={model}",
             "-DMOTE_FIRMWARE_PRINT_LOGITS=ON", "-DMOTE_WARNINGS_AS_ERRORS=ON")
        _, took = must("ninja", "-j1", "-C", build, seconds=BUILD_SECONDS)
        print(f"{board}: built in {took:.0f} s")

    def test_the_answer_has_the_hosts_bits(self):
        code, text, took = emulate("firmware/firmware")
        self.assertEqual(code, 0, text[-2000:])
        there, here = answer(text), answer(must(host_program)[0])
        self.assertGreater(len(here), 24 * 2)
        self.assertGreater(min(len(line) for line in here if line.startswith("logits ")), 300 * 9)
        # Not assertEqual: its difference of two lists of this length would take minutes.
        different = [number for number, (a, b) in enumerate(zip(there, here)) if a != b]
        self.assertEqual((len(there), different), (len(here), []), "lines that differ from the host's")
        said = numbers(text)
        part = sections(f"{build}/firmware/firmware.elf")
        print(f"{board}: the same {len(here)} lines as on the host, in {took:.2f} s; arena {said['arena bytes']}, "
              f"stack {said['stack bytes']}, model {part['.model']}, code and constants {part['.text']} "
              f"(mote {library_bytes(build + '/firmware/firmware.elf')}), data {part.get('.data', 0)}, bss {part['.bss']}")

    def test_the_model_stays_in_the_flash_and_the_arena_is_the_quote(self):
        with open(f"{build}/firmware/firmware_quote.h", encoding="utf-8") as file:
            quote = {name: int(value) for name, value in re.findall(r"#define FIRMWARE_(\w+)_BYTES (\d+)", file.read())}
        said = numbers(emulate("firmware/firmware")[1])
        arena = quote["ENGINE"] + quote["MODEL"] + quote["SESSION"]
        self.assertEqual(said["arena bytes"], arena)
        self.assertEqual(said["model bytes"], os.path.getsize(model))
        self.assertLess(quote["PACKED"], 8192)   # what the backend keeps; weights are not among it
        part = sections(f"{build}/firmware/firmware.elf")
        self.assertGreaterEqual(part[".model"], os.path.getsize(model))
        # No other memory: beside the arena only a few words may be written.
        self.assertGreaterEqual(part[".bss"], arena)
        self.assertLess(part[".bss"] - arena + part.get(".data", 0), 1024)
        self.assertGreater(said["stack bytes"], 1024)
        self.assertLess(said["stack bytes"], part[".stack"])

    def test_what_does_not_fit_is_a_status(self):
        code, text, _ = emulate("limits")
        said = numbers(text)
        self.assertEqual((code, said.get("failed")), (0, 0), text)
        self.assertGreaterEqual(said["checks"], 27)
        here = numbers(must(host_limits)[0])
        self.assertEqual(here["failed"], 0)
        for name in ("huge state", "huge history"):
            self.assertGreater(here[name], 0)
            self.assertEqual(said[name], here[name], "64-bit quotes are the same on a 32-bit machine")

    def test_a_heap_does_not_link(self):
        must("ninja", "-j1", "-C", build, "heap_none")
        self.assertEqual(emulate("heap_none")[:2], (0, "no heap\n"))
        for kind, words in (("malloc", "_sbrk"), ("new", "_sbrk"), ("vector", "_sbrk"),
                            ("own_sbrk", "this firmware must not link the heap: malloc")):
            code, text, _ = run("ninja", "-j1", "-C", build, "heap_" + kind)
            self.assertNotEqual(code, 0, f"heap_{kind} was linked")
            self.assertIn(words, text)
            self.assertFalse(os.path.exists(f"{build}/heap_{kind}.elf"))

    def test_float_vectors_that_lose_subnormals_are_refused(self):
        for cpu, refused in (("cortex-m55", True), ("cortex-m55+nomve.fp", False)):
            code, text, _ = run("arm-none-eabi-g++", "-std=c++20", "-mthumb", "-mfloat-abi=hard", f"-mcpu={cpu}", f"-I{source}",
                                "-fsyntax-only", "-x", "c++", f"{source}/core/base/fma.h")
            self.assertEqual((code != 0, "Helium" in text), (refused, refused), text)


unittest.main(argv=sys.argv[:1], verbosity=2)
