"""How the decoder weighed the words of its input, as a picture. Python alone.

  alignment.py ALIGNMENT.json OUT.svg

ALIGNMENT.json: {"input": [word], "output": [piece], "weights": [[of each word] for each piece]}, rows of which sum to 1.
"""
import json
import sys
from xml.sax.saxutils import escape

CELL, LEFT, TOP, GAP = 34, 56, 104, 14
INK, FAINT = "#1d3a5f", "#8795a6"


def picture(alignment):
    words, pieces = alignment["input"], alignment["output"]
    width, height = LEFT + CELL * len(words) + 60, TOP + CELL * len(pieces) + 56
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="Helvetica, Arial, sans-serif" font-size="14">',
             "<!-- drawn by alignment.py from what train.py wrote -->",
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for column, word in enumerate(words):
        x, y = LEFT + CELL * (column + 0.5) + 4, TOP - 10
        lines.append(f'<text x="{x:g}" y="{y}" fill="{INK}" transform="rotate(-45 {x:g} {y})">{escape(word)}</text>')
    for row, piece in enumerate(pieces):
        y = TOP + CELL * row
        lines.append(f'<text x="{LEFT - GAP}" y="{y + CELL * 0.66:g}" fill="{INK}" text-anchor="end" font-size="17" '
                     f'font-family="Menlo, Consolas, monospace">{escape(piece)}</text>')
        for column, weight in enumerate(alignment["weights"][row]):
            x = LEFT + CELL * column
            lines.append(f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="4" fill="{INK}" '
                         f'fill-opacity="{0.04 + 0.96 * weight:.3f}"><title>{escape(piece)} from {escape(words[column])}: '
                         f'{weight:.2f}</title></rect>')
    for line, words_of_it in enumerate(("each row sums to 1; the darker a cell,", "the more the decoder read there")):
        lines.append(f'<text x="{LEFT}" y="{height - 30 + 16 * line}" fill="{FAINT}" font-size="12">{words_of_it}</text>')
    return "\n".join(lines + ["</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as out:
        out.write(picture(json.load(source)))
