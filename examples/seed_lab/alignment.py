"""How the decoder of dates.gguf read its input, as a picture: the mean of its heads, out of what mote tells. Python alone.

  mote attention -m models/dates.gguf -p "the third of march nineteen ninety nine" -o dates.npy
  alignment.py dates.npy alignment.svg
"""
import json
import os
import struct
import sys
from xml.sax.saxutils import escape

CELL, LEFT, TOP, GAP = 34, 56, 104, 14
INK, FAINT = "#1d3a5f", "#8795a6"


def labels():
    """The words of that text and the pieces of its date; train.py wrote them."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "alignment.json")) as file:
        said = json.load(file)
    return said["input"], said["output"]


def mean_of_heads(path):
    """Rows of weights, each the mean over the heads of the one layer in an array [layer, heads, rows, positions] of float32."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 10 + struct.unpack_from("<H", data, 8)[0]   # the format: numpy.lib.format, version 1.0
    shape = tuple(map(int, data[10:begin].split(b"(")[1].split(b")")[0].split(b",")))
    layers, heads, rows, columns = shape
    assert layers == 1, shape
    weights = struct.unpack_from(f"<{heads * rows * columns}f", data, begin)
    return [[sum(weights[(head * rows + row) * columns + column] for head in range(heads)) / heads
             for column in range(columns)] for row in range(rows)]


def picture(words, pieces, weights):
    """Row i of the weights is where the decoder looked when it wrote piece i; what it did behind the last is left out."""
    width, height = LEFT + CELL * len(words) + 60, TOP + CELL * len(pieces) + 56
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="Helvetica, Arial, sans-serif" font-size="14">',
             "<!-- drawn by alignment.py -->",
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for column, word in enumerate(words):
        x, y = LEFT + CELL * (column + 0.5) + 4, TOP - 10
        lines.append(f'<text x="{x:g}" y="{y}" fill="{INK}" transform="rotate(-45 {x:g} {y})">{escape(word)}</text>')
    for row, piece in enumerate(pieces):
        y = TOP + CELL * row
        lines.append(f'<text x="{LEFT - GAP}" y="{y + CELL * 0.66:g}" fill="{INK}" text-anchor="end" font-size="17" '
                     f'font-family="Menlo, Consolas, monospace">{escape(piece)}</text>')
        for column, weight in enumerate(weights[row]):
            x = LEFT + CELL * column
            lines.append(f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="4" fill="{INK}" '
                         f'fill-opacity="{0.04 + 0.96 * weight:.3f}"><title>{escape(piece)} from {escape(words[column])}: '
                         f'{weight:.2f}</title></rect>')
    for line, words_of_it in enumerate(("each row sums to 1; the darker a cell,", "the more the decoder read there")):
        lines.append(f'<text x="{LEFT}" y="{height - 30 + 16 * line}" fill="{FAINT}" font-size="12">{words_of_it}</text>')
    return "\n".join(lines + ["</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[2], "w") as out:
        out.write(picture(*labels(), mean_of_heads(sys.argv[1])))
