"""The program under test, the models it is tried on, and strict readers of what it writes."""
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("MOTE_PROGRAM", "")
SANITIZED = os.environ.get("MOTE_SANITIZED", "0") == "1"
EMULATED = os.environ.get("MOTE_EMULATED", "0") == "1"
# No locale, nothing of the user's; and what tells an emulator which processor it is.
BARE = {name: os.environ[name] for name in ("PATH", "QEMU_CPU") if name in os.environ}
HANG_SECONDS = 1200 if EMULATED else 120   # a guard against hanging, nothing more


def find_model(name):
    folders = [os.path.join(os.environ.get("MOTE_TEST_DATA_DIR", ""), "models")]
    if os.environ.get("MOTE_GOLDENS_DIR"):
        folders.append(os.path.join(os.environ["MOTE_GOLDENS_DIR"], "models"))
    for folder in folders:
        if os.path.exists(os.path.join(folder, name)):
            return os.path.abspath(os.path.join(folder, name))
    return None


def lab(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "seed_lab", "models", name + ".gguf")


MODEL = find_model("tiny-llama-rope3-f32.gguf")
BERT, T5 = find_model("tiny-bert-mean-f32.gguf"), find_model("tiny-t5-gated-f32.gguf")
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


def read_npy_array(path):
    """Shape and values of a version 1.0 file of float32."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack_from("<H", data, 8)
    assert (10 + length) % 64 == 0 and data[10 + length - 1:10 + length] == b"\n"
    header = eval(data[10:10 + length].decode("ascii"), {"__builtins__": {}})
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    count = math.prod(header["shape"])
    assert len(data) == 10 + length + 4 * count, (len(data), header)
    return header["shape"], struct.unpack_from(f"<{count}f", data, 10 + length)


def read_npy(path):
    """The rows of an array of two dimensions."""
    (rows, columns), values = read_npy_array(path)
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def string_value(data):
    """A GGUF metadata value: type 8 and the bytes."""
    return struct.pack("<IQ", 8, len(data)) + data


def changed_gguf(data, tensors=True, drop=b"\0", put=None):
    """The same GGUF without the metadata whose keys begin with `drop`, with the entries of `put` ({key: type and value})
    in place of its own or after them, and without tensors where that is asked for."""
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

    n_tensors, n_entries = struct.unpack_from("<QQ", data, 8)
    at, entries = 24, {}
    for _ in range(n_entries):
        end = at + 8 + struct.unpack_from("<Q", data, at)[0]
        key, at = data[at + 8:end], end
        end = skip_value(at + 4, struct.unpack_from("<I", data, at)[0])
        entries[key], at = data[at:end], end
    entries = {key: value for key, value in entries.items() if not key.startswith(drop)} | (put or {})
    table = at
    for _ in range(n_tensors):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    infos, weights = (data[table:at], data[(at + 31) // 32 * 32:]) if tensors else (b"", b"")
    head = data[:8] + struct.pack("<QQ", n_tensors if tensors else 0, len(entries))
    head += b"".join(struct.pack("<Q", len(key)) + key + value for key, value in entries.items()) + infos
    return head + b"\0" * (-len(head) % 32 if tensors else 0) + weights


def split_gguf(data, n_parts):
    """The same GGUF (alignment 32, no tensor without data) in so many files, as gguf-split names and writes them: the first has the metadata."""
    whole, n_tensors = changed_gguf(data, tensors=False), struct.unpack_from("<Q", data, 8)[0]
    at, rows = len(whole), []
    for _ in range(n_tensors):
        start, name = at, at + 8 + struct.unpack_from("<Q", data, at)[0]
        n_dimensions = struct.unpack_from("<I", data, name)[0]
        at = name + 4 + 8 * n_dimensions + 4
        rows.append((data[start:at], struct.unpack_from("<Q", data, at)[0]))
        at += 8
    base, parts = (at + 31) // 32 * 32, []
    ends = [offset for _, offset in rows[1:]] + [len(data) - base]
    for part in range(n_parts):
        mine = range(part * n_tensors // n_parts, (part + 1) * n_tensors // n_parts)
        keys = [(b"split.no", 2, struct.pack("<H", part)), (b"split.count", 2, struct.pack("<H", n_parts)), (b"split.tensors.count", 5, struct.pack("<i", n_tensors))]
        own = b"".join(struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value for key, kind, value in keys)
        head, body, table = whole[24:] if part == 0 else b"", b"", b""
        for i in mine:
            body += b"\0" * (-len(body) % 32)
            table += rows[i][0] + struct.pack("<Q", len(body))
            body += data[base + rows[i][1]:base + ends[i]]
        n_entries = 3 + (struct.unpack_from("<Q", data, 16)[0] if part == 0 else 0)
        file = data[:8] + struct.pack("<QQ", len(mine), n_entries) + head + own + table
        parts.append(file + b"\0" * (-len(file) % 32) + body)
    return parts


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
    result = unittest.main(module=module, verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.skipped and result.testsRun <= len(result.skipped):   # all of it: ctest is to say so
        sys.exit(77)
