"""Fails on an include that "Who may include whom" does not allow.

  include_arrows.py ROOT
"""
import os
import re
import sys

import tree

# Which files may include which: the first row whose pattern matches a file counts. A name that ends in "/" means all
# headers of that folder and below, "platform/*.h" the headers of that folder alone. Arrows are transitive and written
# out here, so that a row can be read by itself. Every folder may include itself.
PLATFORM = ["platform/*.h"]
BASE = PLATFORM + ["core/base/"]
FORMAT = BASE + ["core/format/"]
OPS = FORMAT + ["core/ops/"]
GGUF = FORMAT + ["core/gguf/"]
MODEL = GGUF + ["core/ops/", "core/model/"]
BACKEND = PLATFORM + ["core/base/", "core/format/", "core/ops/"]
ROWS = [
    (r"core/base/", BASE),
    (r"core/format/", FORMAT),
    (r"core/gguf/", GGUF),
    (r"core/ops/", OPS),
    (r"core/model/", MODEL),
    (r"core/pipeline/", MODEL + ["core/pipeline/"]),
    (r"core/sampler/", BASE),
    (r"core/tokenizer/", GGUF),
    (r"core/mote\.h(pp)?$", ["core/mote.h"]),
    (r"core/mote_dev\.h$", ["core/mote.h"]),
    (r"core/[^/]*$", PLATFORM + ["core/"]),                       # api*.cpp: where the parts meet
    (r"backends/registry\.cpp$", BACKEND + ["backends/"]),
    (r"backends/vulkan/", BACKEND + ["shaders/variants.inc", "shaders/shared.h"]),
    (r"backends/[^/]+/", BACKEND),                                # and its own folder: no backend sees another
    (r"platform/android/jni/", ["core/mote.h", "core/mote.hpp"]),
    (r"platform/[^/]*$", PLATFORM),
    (r"platform/[^/]+/", PLATFORM),
    (r"shaders/", []),
    (r"examples/cli/", ["core/mote.h", "core/mote.hpp", "core/mote_dev.h"]),
    (r"examples/skeleton_backend/", ["core/mote.h", "core/mote.hpp", "core/ops/backend.h"]),
    (r"examples/[^/]+/", ["core/mote.h", "core/mote.hpp"]),
    (r"tests/", [""]),
]
# Written by CMake: what this build holds.
LIBRARY = re.compile(r"(core|backends|platform|tests)/")
GENERATED = {"mote_build.h": LIBRARY, "vulkan_shaders.h": LIBRARY, "attention_page_text.h": re.compile(r"examples/cli/")}

# core is portable and allocates nothing: the standard headers it may use. What is missing here either brings a heap,
# an operating system, printing or locales with it, or nobody has needed it yet. The two SIMD headers are for the
# baseline of x86-64 and AArch64, which needs no look at the machine.
CORE_STANDARD_HEADERS = set("""
    algorithm array atomic bit cfloat climits cmath compare concepts cstddef cstdint cstring initializer_list
    iterator limits new numeric optional span string_view tuple type_traits utility version
    stddef.h stdint.h emmintrin.h arm_neon.h
""".split())

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def own_folder(path):
    """The part that a file belongs to: core/gguf, backends/cpu, platform/posix, examples/cli; None above those."""
    parts = path.split("/")
    return "/".join(parts[:2]) + "/" if len(parts) > 2 else None


def allowed(path, target, may_include):
    own = own_folder(path)
    if own and target.startswith(own) and own != "core/":
        return True
    for name in may_include:
        if name == "platform/*.h":
            if re.fullmatch(r"platform/[^/]*\.(h|inc)", target):
                return True
        elif name == "" or target == name or (name.endswith("/") and target.startswith(name)):
            return True
    return False


def check(root):
    findings, checked = [], 0
    for path in tree.files(root, ".h", ".hpp", ".c", ".cc", ".cpp", ".inc"):
        row = next((row for row in ROWS if re.match(row[0], path)), None)
        for kind, target in INCLUDE.findall(tree.read(root, path)):
            checked += 1
            if row is None:
                findings.append(f"{path}: no row of the table says what files of this folder may include")
            elif kind == "<":
                if path.startswith("core/") and target not in CORE_STANDARD_HEADERS:
                    findings.append(f"{path}: <{target}> is not on the list of standard headers for core")
            elif target in GENERATED:
                if not GENERATED[target].match(path):
                    findings.append(f'{path}: "{target}" is made for others alone')
            elif not os.path.isfile(os.path.join(root, target)):
                findings.append(f'{path}: "{target}" is not a path from the root of the tree')
            elif not allowed(path, target, row[1]):
                findings.append(f'{path}: may not include "{target}"')
    tree.end(findings, checked)


check(sys.argv[1])
