#!/usr/bin/env python3
"""Writes tables.inc beside this file from Python's unicodedata.

    make_tables.py            writes tables.inc
    make_tables.py --check    says whether tables.inc is what this Python would write (exit status 1: no)

What is in it, and how it is packed:
  kClassBlock[cp >> 7]         number of the block of 128 code points, below kClassEnd; beyond it only the variation
                               selectors U+E0100..E01EF (marks) are in one of the classes
  kClassBits[block][..]        four bits each: a CharacterClass in the lower three, 8 = needs a look by NFC
  kCombining*                  ranges of equal canonical combining class, other than 0
  kShort*, kLong*              canonical decompositions (one step), code points within 16 bits and beyond
  kComposition                 indices into the decompositions that compose, by (first, second)
"""
import os
import sys
import unicodedata as u

N = 0x110000
CLASS_END = 0x32000
HERE = os.path.dirname(os.path.abspath(__file__))
# The property White_Space. Python's str.isspace also counts U+001C..1F, which are not in it.
SPACES = set([0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]) | set(range(9, 14)) | set(range(0x2000, 0x200B))


def decomposition(c):
    d = u.decomposition(chr(c))
    return tuple(int(x, 16) for x in d.split()) if d and not d.startswith("<") else ()


def is_hangul(c):
    return 0xAC00 <= c < 0xAC00 + 11172


def character_class(c):
    if c in SPACES:
        return 4
    category = u.category(chr(c))[0]
    return {"L": 1, "N": 2, "M": 3}.get(category, 0)


def numbers(name, kind, values, per_line=20):
    out = ["inline constexpr %s %s[%d] = {" % (kind, name, len(values))]
    for i in range(0, len(values), per_line):
        out.append("    " + ",".join(str(v) for v in values[i:i + per_line]) + ",")
    return out + ["};"]


def main():
    d = {c: decomposition(c) for c in range(N) if not is_hangul(c) and decomposition(c)}
    assert all(len(v) <= 2 for v in d.values())
    assert all(v[1] not in d for v in d.values() if len(v) == 2), "only the first part may decompose again"

    def depth(c):
        n = 1
        while c in d:
            n += len(d[c]) - 1
            c = d[c][0]
        return n
    assert max(depth(c) for c in d) <= 4
    # A pair composes unless NFC of its composite is something else (the composition exclusions).
    composes = {v: c for c, v in d.items() if len(v) == 2 and u.normalize("NFC", chr(c)) == chr(c)}
    seconds = {v[1] for v in composes}
    look = set(c for c in range(N) if u.combining(chr(c))) | seconds
    look |= set(c for c in d if u.normalize("NFC", chr(c)) != chr(c)) | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))

    blocks, index, bits = {}, [], []
    for c in range(CLASS_END, N):
        assert c not in look and character_class(c) == (3 if 0xE0100 <= c <= 0xE01EF else 0), hex(c)
    for b in range(CLASS_END >> 7):
        nibbles = [character_class(c) | (8 if c in look else 0) for c in range(b << 7, (b + 1) << 7)]
        packed = tuple(nibbles[i] | nibbles[i + 1] << 4 for i in range(0, 128, 2))
        if packed not in blocks:
            blocks[packed] = len(blocks)
            bits += packed
        index.append(blocks[packed])
    assert len(blocks) <= 256

    ranges, c = [], 0
    while c < N:
        k = u.combining(chr(c))
        if k:
            e = c
            while e + 1 < N and u.combining(chr(e + 1)) == k and e - c < 255:
                e += 1
            ranges.append((c << 8 | k, e - c))
            c = e
        c += 1

    short = sorted((c, v[0], v[1] if len(v) == 2 else 0) for c, v in d.items() if max(c, *v) < 0x10000)
    long = sorted((c, v[0], v[1] if len(v) == 2 else 0) for c, v in d.items() if max(c, *v) >= 0x10000)
    place = {row[0]: i for i, row in enumerate(short + long)}
    order = [place[c] for _, c in sorted(composes.items())]

    out = ["// Written by make_tables.py from Unicode %s; do not edit." % u.unidata_version, "// clang-format off"]
    out += ["inline constexpr uint32_t kClassEnd = 0x%X;" % CLASS_END]
    out += numbers("kClassBlock", "uint8_t", index, 40) + numbers("kClassBits", "uint8_t", bits, 32)
    out += numbers("kCombiningStart", "uint32_t", [r[0] for r in ranges]) + numbers("kCombiningMore", "uint8_t", [r[1] for r in ranges], 40)
    for name, kind, rows in (("Short", "uint16_t", short), ("Long", "uint32_t", long)):
        for part, i in (("From", 0), ("First", 1), ("Second", 2)):
            out += numbers("k%s%s" % (name, part), kind, [r[i] for r in rows])
    out += numbers("kComposition", "uint16_t", order) + ["// clang-format on", ""]
    text = "\n".join(out)
    total = len(index) + len(bits) + 5 * len(ranges) + 6 * len(short) + 12 * len(long) + 2 * len(order)
    path = os.path.join(HERE, "tables.inc")
    if sys.argv[1:] == ["--check"]:
        same = open(path).read() == text
        print("tables.inc is", "up to date" if same else "not what this Python (Unicode %s) writes" % u.unidata_version)
        sys.exit(0 if same else 1)
    open(path, "w").write(text)
    print("%d bytes of tables, Unicode %s" % (total, u.unidata_version))


if __name__ == "__main__":
    main()
