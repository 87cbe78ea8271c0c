#!/usr/bin/env python3
"""Writes tables.inc beside this file from Python's unicodedata.

    make_tables.py            writes tables.inc
    make_tables.py --check    says whether tables.inc is what this Python would write (exit status 1: no)

What is in it, and how it is packed:
  kClassBlock[cp >> 7]         number of the block of 128 code points, below kClassEnd; what lies beyond it: far_class
  kClassBits[block][..]        four bits each: a class in the lower three (class_of), 8 = needs a look by NFC
  kCombining*                  ranges of equal canonical combining class, other than 0
  kShort*, kLong*              canonical decompositions (one step), code points within 16 bits and beyond
  kComposition                 indices into the decompositions that compose, by (first, second)
  kLower*                      lower case of what does not decompose: every first or second code point of a range
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


def class_of(c):
    """0 other, 1 \\p{L}, 2 \\p{N}, 3 Mc and Me, 4 White_Space, 5 \\p{P}, 6 Cc, Cf and Co, 7 Mn"""
    if c in SPACES:
        return 4
    category = u.category(chr(c))
    if category in ("Mn", "Cn", "Cs"):
        return 7 if category == "Mn" else 0
    return {"L": 1, "N": 2, "M": 3, "P": 5, "C": 6}.get(category[0], 0)


def far_class(c):
    """The class of a code point from CLASS_END on, as unicode.cpp has it."""
    if 0xE0100 <= c <= 0xE01EF:
        return 7
    tag = c == 0xE0001 or 0xE0020 <= c <= 0xE007F
    return 6 if tag or (c >= 0xF0000 and c & 0xFFFF < 0xFFFE) else 0


def lower_ranges(decomposes):
    """[start, count, stride, distance to the lower case], every row with at most 256 characters."""
    rows = []
    for c in range(N):
        low = chr(c).lower() if not 0xD800 <= c < 0xE000 else chr(c)
        if c in decomposes or low == chr(c):
            continue
        assert len(low) == 1, hex(c)
        distance = ord(low) - c
        if rows:
            start, count, stride, row_distance = rows[-1]
            step = c - (start + (count - 1) * stride)
            if row_distance == distance and count < 256 and (step == stride or (count == 1 and step in (1, 2))):
                rows[-1] = [start, count + 1, step, distance]
                continue
        rows.append([c, 1, 1, distance])
    return rows


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
        assert c not in look and class_of(c) == far_class(c), hex(c)
    for b in range(CLASS_END >> 7):
        nibbles = [class_of(c) | (8 if c in look else 0) for c in range(b << 7, (b + 1) << 7)]
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
    out += numbers("kComposition", "uint16_t", order)
    lower = lower_ranges(d)
    assert all(start < 1 << 23 for start, *_ in lower)
    out += numbers("kLowerStart", "uint32_t", [start << 8 | count - 1 for start, count, _, _ in lower])
    out += numbers("kLowerStep", "int32_t", [distance * 2 + stride - 1 for _, _, stride, distance in lower])
    out += ["// clang-format on", ""]
    text = "\n".join(out)
    total = len(index) + len(bits) + 5 * len(ranges) + 6 * len(short) + 12 * len(long) + 2 * len(order) + 8 * len(lower)
    path = os.path.join(HERE, "tables.inc")
    if sys.argv[1:] == ["--check"]:
        same = open(path).read() == text
        print("tables.inc is", "up to date" if same else "not what this Python (Unicode %s) writes" % u.unidata_version)
        sys.exit(0 if same else 1)
    open(path, "w").write(text)
    print("%d bytes of tables, Unicode %s" % (total, u.unidata_version))


if __name__ == "__main__":
    main()
