"""Reads git's patches and applies them, whole or file by file; no tool is needed that a machine may not have."""
import os
import re


class Change:
    """What a patch does to one file. hunks: (first line, lines before, lines after); edits: ("+" or "-", line)."""

    def __init__(self, path, is_new):
        self.path, self.is_new, self.hunks, self.edits = path, is_new, [], []

    def added(self):
        return [line for kind, line in self.edits if kind == "+"]

    def removes(self):
        return any(kind == "-" for kind, _ in self.edits)

    def apply(self, root):
        path = os.path.join(root, self.path)
        if self.is_new:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        elif not os.path.isfile(path):
            raise ValueError("%s is not there" % self.path)
        with open(path, "a+", encoding="utf-8") as file:
            file.seek(0)
            lines = file.read().splitlines()
        for first, before, after in reversed(self.hunks):
            places = [at for at in range(len(lines) - len(before) + 1) if lines[at:at + len(before)] == before]
            if not places:
                raise ValueError("%s no longer has, near line %d: %s" % (self.path, first, " / ".join(before)))
            at = min(places, key=lambda place: abs(place - first + 1))
            lines[at:at + len(before)] = after
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def read(path):
    """The changes of a patch, by the file's path."""
    changes = {}
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    change = None
    for at, line in enumerate(lines):
        if line.startswith("diff --git "):
            change = None   # up to the next +++
        elif line.startswith("+++ b/") and change is None:
            change = changes[line[6:]] = Change(line[6:], lines[at - 1] == "--- /dev/null")
        elif change is None:
            continue
        elif line.startswith("@@ "):
            change.hunks.append((int(re.match(r"@@ -(\d+)", line).group(1)), [], []))
        elif line[:1] in (" ", "-", "+"):
            if line[0] != " ":
                change.edits.append((line[0], line[1:]))
            if line[0] != "+":
                change.hunks[-1][1].append(line[1:])
            if line[0] != "-":
                change.hunks[-1][2].append(line[1:])
    if not changes:
        raise ValueError("%s changes nothing" % path)
    return changes
