"""How many bytes of the static program hello_static are mote's, and whether they stay within the budget.

  size.py ROOT OBJECTS PROGRAM

Reads the link map beside PROGRAM (PROGRAM.map): every section that was linked in, with the object it came from.
OBJECTS lists the library's objects, one a line; their folders below ROOT are the rows of the table.
"""
import collections
import os
import re
import sys

TOTAL_BUDGET = 1048576   # bytes of the program, without symbols
MOTE_BUDGET = 280000     # of them mote's own


def linked_sections(map_path):
    """(bytes, archive, member) of each section that takes room in the file."""
    with open(map_path, encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("Linker script and memory map"):]
    for found in re.finditer(r"^ (\.[\w.$-]+|COMMON)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S+)$", text, re.MULTILINE):
        section, address, size, origin = found.group(1), int(found.group(2), 16), int(found.group(3), 16), found.group(4)
        in_file = not re.match(r"\.(debug|comment|note|bss|tbss|rela|iplt|igot)", section) and section != "COMMON"
        if address and size and in_file:
            archive, _, member = origin.rstrip(")").partition("(")
            yield size, os.path.basename(archive), member


def folders_by_member(root, objects_path):
    """libmote.a knows an object only by its file name: which folder below ROOT is it from?"""
    folders = collections.defaultdict(set)
    with open(objects_path, encoding="utf-8") as file:
        for line in file:
            found = re.search(r"/mote\.dir/(?:\./)?(.*)/([^/]+\.o)$", line.strip())
            if found:
                folders[found.group(2)].add(found.group(1))
    return {member: " or ".join(sorted(names)) for member, names in folders.items()}


def main():
    root, objects_path, program = sys.argv[1:]
    folders = folders_by_member(root, objects_path)
    rows = collections.Counter()
    for size, archive, member in linked_sections(program + ".map"):
        if archive == "libmote.a":
            if member not in folders:
                sys.exit(f"{program}.map names {member} of libmote.a, which is not among the library's objects")
            rows[folders[member]] += size
        elif archive.startswith("lib"):
            rows["the C library and the compiler's"] += size
        else:
            rows["hello.c and start-up code"] += size
    own = sum(size for row, size in rows.items() if not row.startswith(("the C library", "hello.c")))
    total = os.path.getsize(program)   # linked without symbols

    print("| part | bytes |\n| --- | ---: |")
    for row, size in rows.most_common():
        name = f"`{row}`" if os.path.isdir(os.path.join(root, row)) else row
        print(f"| {name} | {size:,} |")
    print(f"| headers and padding of the file | {total - sum(rows.values()):,} |")
    print(f"| **the program, of which mote's own: {own:,}** | **{total:,}** |")
    if own < 50000:
        sys.exit(f"only {own} bytes are mote's: the link map was not understood")
    if total > TOTAL_BUDGET or own > MOTE_BUDGET:
        sys.exit(f"over budget: {total:,} of {TOTAL_BUDGET:,} bytes, mote's own {own:,} of {MOTE_BUDGET:,}")


main()
