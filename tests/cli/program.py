"""The program under test, the models it is tried on, and strict readers of what it writes."""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("MOTE_PROGRAM", "")
SANITIZED = os.environ.get("MOTE_SANITIZED", "0") == "1"
HANG_SECONDS = 120   # a guard against hanging, nothing more


def find_model(name):
    folders = [os.path.join(os.environ.get("MOTE_TEST_DATA_DIR", ""), "models")]
    if os.environ.get("MOTE_GOLDENS_DIR"):
        folders.append(os.path.join(os.environ["MOTE_GOLDENS_DIR"], "models"))
    for folder in folders:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


MODEL = find_model("tiny-llama-rope3-f32.gguf")
SHORT = ("--raw", "-p", "The river", "--temp", "0", "-n", "8")


def mote(*arguments, stdin=b"", expect=0, **options):
    """Runs the program; returns its standard output and standard error as bytes, having checked the exit code."""
    before = options.pop("preexec_fn", None)

    def prepare():   # a test runner in the background may ignore interrupts, which children inherit
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if before:
            before()

    options.setdefault("timeout", HANG_SECONDS)
    if stdin is not None and "input" not in options:
        options["input"] = stdin
    done = subprocess.run([PROGRAM, *[str(a) for a in arguments]], stdout=options.pop("stdout", subprocess.PIPE),
                          stderr=options.pop("stderr", subprocess.PIPE), preexec_fn=prepare, **options)
    if done.returncode != expect:
        raise AssertionError(f"mote {' '.join(str(a)[:60] for a in arguments)}: exit code {done.returncode}, expected "
                             f"{expect}; it said {(done.stderr or b'')[-2000:]!r}")
    return done.stdout, done.stderr


def strict_json(data):
    """JSON as RFC 8259 has it: UTF-8, no NaN or Infinity, no repeated names."""
    def refuse(value):
        raise ValueError(f"{value} is not JSON")

    def unique(pairs):
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a name is there twice")
        return dict(pairs)

    return json.loads(data.decode("utf-8"), parse_constant=refuse, object_pairs_hook=unique)


def read_npy(path):
    """Rows of float32 of a version 1.0 file."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack_from("<H", data, 8)
    assert (10 + length) % 64 == 0 and data[10 + length - 1:10 + length] == b"\n"
    header = eval(data[10:10 + length].decode("ascii"), {"__builtins__": {}})
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    rows, columns = header["shape"]
    assert len(data) == 10 + length + 4 * rows * columns, (len(data), header)
    values = struct.unpack_from(f"<{rows * columns}f", data, 10 + length)
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def without_tensors(data):
    """The same GGUF with its metadata alone."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def skip_value(at, kind):
        if kind == 8:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind != 9:
            return at + sizes[kind]
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(count):
            at = skip_value(at, element)
        return at

    (entries,) = struct.unpack_from("<Q", data, 16)
    at = 24
    for _ in range(entries):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at = skip_value(at + 4, struct.unpack_from("<I", data, at)[0])
    return data[:8] + struct.pack("<Q", 0) + data[16:at]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path


def main(module):
    if not PROGRAM:
        sys.exit("MOTE_PROGRAM must name the program")
    if MODEL is None:
        print("no tiny-llama-rope3-f32.gguf under MOTE_TEST_DATA_DIR or MOTE_GOLDENS_DIR")
        sys.exit(77)
    unittest.main(module=module, verbosity=2)
