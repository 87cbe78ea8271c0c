"""Checks of the tree that need no compiler.

  rules.py ROOT lengths    files over 400 lines and functions over 60 have a reason in long.txt; none is over 800
  rules.py ROOT readmes    every folder with sources has a README.md of at most a page, with `## Decisions`; what READMEs name
                           exists: back-ticked paths from the root, and quoted test names (test "its name", "its name" fails)
  rules.py ROOT foreign    no machine paths, no mirrors' or registries' names, no generated or large files
  rules.py ROOT format CLANG_FORMAT
  rules.py ROOT shell SHELLCHECK
"""
import os
import re
import shutil
import subprocess
import sys

import tree

SOURCES = (".h", ".hpp", ".c", ".cc", ".cpp", ".comp", ".glsl", ".cmake", ".py", ".sh", ".inc")
MOST_LINES, USUAL_LINES, FUNCTION_LINES, README_LINES = 800, 400, 60, 120
# Reference outputs, fuzz inputs, models that we trained: binary, and limited as a whole.
DATA = ("tests/golden/data/", "tests/fuzz/corpus/", "examples/seed_lab/models/")
DATA_BYTES, FILE_BYTES = 8_000_000, 150_000


def long_reasons(root):
    """{path or "path function": reason} of long.txt"""
    reasons = {}
    for line in tree.read(root, "tests/hygiene/long.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            reasons[name.strip()] = reason.strip()
    return reasons


def functions(text):
    """(first line, name, number of lines) of what looks like a function: from the last line at the left edge, which
    begins its head, to the brace at the left edge that ends it. clang-format sees to it that functions look so."""
    head = None
    for number, line in enumerate(text.split("\n"), 1):
        if line == "}" and head is not None:
            name = re.search(r"([~\w:]+)\s*\(", head[1])
            yield head[0], name.group(1) if name else "?", number - head[0] + 1
        if re.match(r"[A-Za-z_]", line):
            head = None if re.match(r"(namespace|struct|class|union|enum|extern|typedef)\b", line) else (number, line)
        elif line.startswith("}"):
            head = None
        elif head is not None and "(" not in head[1]:
            head = (head[0], head[1] + line)


def names_its_writer(root, path, line):
    """A small table may be committed when it says which script wrote it, and that lies beside it."""
    writer = re.search(r"by (\w+\.py)\b", line)
    return bool(writer) and os.path.isfile(os.path.join(root, os.path.dirname(path), writer.group(1)))


def lengths(root):
    findings, checked, reasons, used = [], 0, long_reasons(root), set()

    def explained(name):
        used.add(name)
        return bool(reasons.get(name))

    for path in tree.files(root, *SOURCES):
        checked += 1
        text = tree.read(root, path)
        if path.endswith(".inc") and names_its_writer(root, path, text.split("\n", 1)[0]):
            continue
        count = text.count("\n")
        has_reason = count > USUAL_LINES and explained(path)
        if count > MOST_LINES:
            findings.append(f"{path}: {count} lines; {MOST_LINES} is the most")
        elif count > USUAL_LINES and not has_reason:
            findings.append(f"{path}: {count} lines; over {USUAL_LINES} wants a reason in tests/hygiene/long.txt")
        if path.endswith((".h", ".hpp", ".c", ".cc", ".cpp")) and not path.startswith("tests/"):
            findings.extend(f"{path}:{line}: {name} has {size} lines; over {FUNCTION_LINES} wants a reason in tests/hygiene/long.txt"
                            for line, name, size in functions(text)
                            if size > FUNCTION_LINES and not explained(f"{path} {name}"))
    findings.extend(f"tests/hygiene/long.txt: {name} is not long any more" for name in reasons if name not in used)
    tree.end(findings, checked)


def readmes(root):
    findings, checked = [], 0
    folders = {os.path.dirname(path) for path in tree.files(root, ".h", ".hpp", ".c", ".cpp", ".py", ".sh", ".comp")}
    for folder in sorted(folder for folder in folders if folder):
        # A folder of tests that mirrors a part is described by that part's page; data by the page above it. One that its
        # parent's page lists needs none of its own, where folders are small.
        mirrored = re.fullmatch(r"tests/(.*)", folder)
        if mirrored and any(os.path.isdir(os.path.join(root, top, mirrored.group(1))) for top in ("", "core")):
            continue
        parent, name = os.path.split(folder)
        if folder.startswith("tests/golden/") or (
                (parent in ("platform", "tests") or parent.count("/") > 0)
                and os.path.isfile(os.path.join(root, parent, "README.md"))
                and f"`{name}/`" in tree.read(root, parent + "/README.md")
                and not os.path.isfile(os.path.join(root, folder, "README.md"))):
            continue
        checked += 1
        path = folder + "/README.md"
        if not os.path.isfile(os.path.join(root, path)):
            findings.append(f"{folder}: no README.md")
            continue
        text = tree.read(root, path)
        if not re.search(r"^## Decisions$", text, flags=re.MULTILINE):
            findings.append(f"{path}: no `## Decisions`")
        if text.count("\n") > README_LINES:
            findings.append(f"{path}: {text.count(chr(10))} lines; a page is {README_LINES} at most")
    tree.end(findings + named_things(root), checked)


def squeezed(text):
    """Without line breaks and case; a C++ string that goes on in the next line is one."""
    return re.sub(r"\s+", " ", re.sub(r'"\s*\n\s*"', "", text)).lower()


def named_things(root):
    """What READMEs name and nobody finds. A quoted test name may leave words out as ..."""
    findings, paths = [], tree.files(root)
    known = set(paths)
    for path in paths:
        while path := os.path.dirname(path):
            known.add(path)
    tops = {path.split("/")[0] for path in known if "/" in path}
    texts = [squeezed(tree.read(root, path)) for path in paths
             if path.endswith((".cpp", ".cmake", "CMakeLists.txt", ".py", ".sh")) and not path.startswith("core/")]
    for readme in (path for path in paths if os.path.basename(path) == "README.md"):
        text = tree.read(root, readme)
        for match in re.finditer(r"`([\w.*-]+(?:/[\w.*-]+)+)/?`", text):
            pattern = re.escape(match.group(1)).replace(r"\*", "[^/]*")
            if match.group(1).split("/")[0] in tops and not any(re.fullmatch(pattern, path) for path in known):
                line = text.count("\n", 0, match.start()) + 1
                findings.append(f"{readme}:{line}: there is no {match.group(1)}")
        for match in re.finditer(r'\btests?:? "([^"]+)"|"([^"]+)" (?:fails|goes red|has a row)', squeezed(text)):
            name = match.group(1) or match.group(2)
            parts = [part.strip() for part in name.split("...") if part.strip()]
            if not any(all(part in other for part in parts) for other in texts):
                findings.append(f'{readme}: there is no test "{name}"')
    return findings


FOREIGN = [
    (r"(?<![\w.$}])/(?:work|farm|root|home|opt|mnt|tmp|Users)/", "a path of one machine"),
    (r"\b(?:deb|archive|ports|snapshot)[.](?:debian|ubuntu)[.]\w+|pypi[.]org|pythonhosted[.]org|registry[.]npmjs|repo1?[.]maven"
     r"|static[.]crates", "the name of a mirror or registry"),
    (r"(?i)\bdo not edit\b|@generated\b|\bauto-?generated\b", "a generated file"),
    (r"(?i)copyright \(c\)|all rights reserved", "somebody's notice: is this file ours?"),
]


def foreign(root):
    findings, checked, data_bytes = [], 0, 0
    for path in tree.files(root):
        checked += 1
        size = os.path.getsize(os.path.join(root, path))
        if path.startswith(DATA):
            data_bytes += size
            continue
        if size > FILE_BYTES:
            findings.append(f"{path}: {size} bytes; {FILE_BYTES} is the most outside of {' and '.join(DATA)}")
        with open(os.path.join(root, path), "rb") as file:
            if b"\0" in file.read():
                findings.append(f"{path}: a binary file outside of {' and '.join(DATA)}")
                continue
        if path in ("LICENSE", "tests/hygiene/rules.py"):
            continue
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            if names_its_writer(root, path, line):
                continue
            findings.extend(f"{path}:{number}: {why}: {line.strip()[:100]}" for pattern, why in FOREIGN if re.search(pattern, line))
    if data_bytes > DATA_BYTES:
        findings.append(f"{' and '.join(DATA)}: {data_bytes} bytes; {DATA_BYTES} is the most")
    tree.end(findings, checked)


def need(tool):
    if shutil.which(tool) is None:
        print(f"{tool} is not on this machine: nothing was checked")
        sys.exit(77)


def format_(root, clang_format):
    need(clang_format)
    paths = tree.files(root, ".h", ".hpp", ".c", ".cc", ".cpp")
    result = subprocess.run([clang_format, "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", result.stderr, flags=re.MULTILINE)))
    if result.returncode and not wrong:
        wrong = [result.stderr.strip()]
    tree.end([f"{path}: run {os.path.basename(clang_format)} -i on it" for path in wrong], len(paths))


def shell(root, shellcheck):
    need(shellcheck)
    paths = [path for path in tree.files(root) if tree.read(root, path).startswith(("#!/bin/sh", "# shellcheck shell="))]
    result = subprocess.run([shellcheck, "--external-sources", "--source-path=SCRIPTDIR", *paths], cwd=root,
                            capture_output=True, text=True)
    tree.end([result.stdout.strip() + result.stderr.strip()] if result.returncode else [], len(paths))


CHECKS = {"shell": shell, "lengths": lengths, "readmes": readmes, "foreign": foreign, "format": format_}
CHECKS[sys.argv[2]](sys.argv[1], *sys.argv[3:])
