"""Compiles each public header by itself, as every language an app may use it from, and compares how C and C++ lay out
its structs.

  headers_alone.py ROOT C_COMPILER CXX_COMPILER GENERATED_INCLUDE_FOLDER
"""
import re
import subprocess
import sys

import tree

root, c_compiler, cxx_compiler, generated = sys.argv[1:5]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
C_STANDARDS = ["c99", "c11", "c17"]
CXX_STANDARDS = ["c++11", "c++14", "c++17", "c++20"]
C_HEADERS = ["core/mote.h", "core/mote_dev.h"]
findings, checked = [], 0


def compile_text(compiler, language, text, *options):
    return subprocess.run([compiler, "-x", language, *WARNINGS, "-I", root, "-I", generated, *options, "-o", "-", "-"],
                          input=text, capture_output=True, text=True)


def alone(header, compiler, language, standard):
    global checked
    checked += 1
    # Twice: the guard is part of the promise.
    text = f'#include "{header}"\n#include "{header}"\nint anything_so_that_c_is_not_empty;\n'
    result = compile_text(compiler, language, text, "-std=" + standard, "-fsyntax-only")
    if result.returncode:
        findings.append(f"{header} alone as {standard}:\n{result.stderr.strip()}")


def struct_fields(header):
    """{struct: [field...]} of a header that declares structs as `typedef struct NAME { ... } NAME;`"""
    text = re.sub(r"/\*.*?\*/", "", tree.read(root, header), flags=re.DOTALL)
    structs = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.DOTALL):
        names = []
        for statement in body.split(";"):
            if "(*" in statement:  # a function pointer
                names += re.findall(r"\(\*\s*(\w+)\)", statement)
            else:
                names += [re.sub(r"\[.*", "", part).split()[-1].lstrip("*") for part in statement.split(",") if part.split()]
        structs[name] = names
    return structs


def layout(header, structs, compiler, language, standard, bits):
    """The sizes and offsets, read from the assembly of one constant table; None where the compiler lacks that target."""
    values = [f"sizeof({name})" for name in structs]
    values += [f"offsetof({name}, {field})" for name, fields in structs.items() for field in fields]
    text = f'#include <stddef.h>\n#include "{header}"\n'
    text += ('extern "C" ' if language == "c++" else "") + "const unsigned char present = 1;\n"
    text += "extern const unsigned mote_layout[];\nconst unsigned mote_layout[] = {0xabcdef01u, " + ", ".join(
        f"(unsigned)({value})" for value in values) + "};\n"
    result = compile_text(compiler, language, text, "-std=" + standard, f"-m{bits}", "-ffreestanding", "-S")
    if result.returncode:
        return None
    words = []
    for directive, number in re.findall(r"^\s*\.(long|zero)\s+(-?\w+)", result.stdout, flags=re.MULTILINE):
        words += [0] * (int(number) // 4) if directive == "zero" else [int(number, 0) & 0xFFFFFFFF]
    start = words.index(0xABCDEF01) + 1
    return words[start:start + len(values)]


def compare_layouts(header):
    global checked
    structs = struct_fields(header)
    names = [f"sizeof({name})" for name in structs]
    names += [f"{name}.{field}" for name, fields in structs.items() for field in fields]
    fixed = {}
    for bits in (64, 32):
        c = layout(header, structs, c_compiler, "c", "c99", bits)
        cxx = layout(header, structs, cxx_compiler, "c++", "c++20", bits)
        if c is None or cxx is None:
            print(f"{header}: this compiler does not do {bits} bits")
            if bits == 64:
                findings.append(f"{header}: no layout could be read")
            continue
        checked += len(names)
        findings.extend(f"{header}: {name} is {a} in C and {b} in C++ ({bits} bits)"
                        for name, a, b in zip(names, c, cxx) if a != b)
        # An error crosses every border and holds no pointer: it is the same everywhere.
        for name, value in zip(names, c):
            if "mote_error" in name and fixed.setdefault(name, value) != value:
                findings.append(f"{header}: {name} differs between 32 and 64 bits")
    if header == "core/mote.h" and not structs.get("mote_error"):
        findings.append("core/mote.h: the structs could not be read")


for header in C_HEADERS:
    for standard in C_STANDARDS:
        alone(header, c_compiler, "c", standard)
    for standard in CXX_STANDARDS:
        alone(header, cxx_compiler, "c++", standard)
    compare_layouts(header)
for header in tree.files(root, ".h", ".hpp"):
    if header == "core/mote.hpp" or header.startswith("core/ops/"):
        alone(header, cxx_compiler, "c++", "c++20")
tree.end(findings, checked)
