"""Pictures of the manual, drawn when it is built: who holds which GPU, as SVG in the page's own colours.

Text and lines have the colour of the text around them, the fillings a tone between, so that a picture can be
read on light and dark pages alike.
"""

from collections.abc import Sequence
from html import escape

from diagrams import DIAGRAMS, diagram

CELL, GAP, LEFT, TOP, LINE = 34, 5, 92, 34, 62
NOTE = 300
INK = "var(--color-foreground-primary, currentColor)"
QUIET = "var(--color-foreground-secondary, currentColor)"
LOOKS = {
    "q": f'fill="#2f81d8" stroke="{INK}" stroke-opacity=".35"',
    "b": f'fill="url(#borrowed)" stroke="{INK}" stroke-opacity=".35"',
    ".": f'fill="none" stroke="{QUIET}" stroke-dasharray="3 3"',
    "x": 'fill="none" stroke="#c8553d" stroke-width="1.5" stroke-dasharray="2 2"',
}
MEANINGS = {
    "q": "held, in quota",
    "b": "held, borrowed",
    ".": "guaranteed, not held",
    "x": "had to be given back",
}

STYLE = 'style="max-width: 100%; height: auto" font-size="14" xmlns="http://www.w3.org/2000/svg"'
STRIPES = (
    '<defs><pattern id="borrowed" width="7" height="7" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><rect width="7" height="7" fill="#e2a33b"/>'
    '<rect width="2.5" height="7" fill="#b9791a"/></pattern></defs>'
)

Row = tuple[str, int, str, str]
"""A project's name, its quota, a letter for each cell, and a note."""
PICTURES: dict[str, tuple[str, Sequence[Row]]] = {
    "borrowed": (
        "vision runs on eight GPUs: four are its own, four are borrowed from speech, which uses none",
        [
            ("vision", 4, "qqqqbbbb", "holds 8, 4 of them borrowed"),
            ("speech", 4, "....", "uses nothing: vision borrows its 4"),
        ],
    ),
    "back": (
        "speech asked for four GPUs and has them; vision gave back what it had borrowed, and keeps four",
        [
            ("vision", 4, "qqqqxxxx", "keeps its 4; what ran on the others waits"),
            ("speech", 4, "qqqq", "has its 4, a moment after it asked"),
        ],
    ),
    "shares": (
        "search leaves four GPUs: vision with weight 3 gets three of them, speech with weight 1 gets one",
        [
            ("vision", 2, "qqbbb", "quota 2, weight 3: 3 of the 4 that are left"),
            ("speech", 2, "qqb", "quota 2, weight 1: 1 of them"),
            ("search", 4, "....", "quota 4, asks for nothing"),
        ],
    ),
}


def picture(name: str) -> str:
    """Return a picture as an element of a page."""
    if name in DIAGRAMS:
        return diagram(name)
    title, rows = PICTURES[name]
    widest = max(len(cells) for _, _, cells, _ in rows)
    width = LEFT + widest * (CELL + GAP) + 12 + NOTE
    height = TOP + len(rows) * LINE + 10
    parts = [
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" {STYLE}>',
        f"<title>{escape(title)}</title>",
        STRIPES,
    ]
    for at, row in enumerate(rows):
        parts += _row(row, TOP + at * LINE, widest)
    parts += _legend("".join(cells for _, _, cells, _ in rows), height - 8)
    return "\n".join([*parts, "</svg>"])


def _row(row: Row, top: int, widest: int) -> list[str]:
    name, quota, cells, note = row
    middle = top + CELL / 2 + 5
    parts = [_text(0, middle, name, INK, 'font-weight="600"')]
    for at, kind in enumerate(cells):
        parts.append(_cell(LEFT + at * (CELL + GAP), top, CELL, kind))
    mark = LEFT + quota * (CELL + GAP) - GAP / 2
    ends = f'x1="{mark}" y1="{top - 8}" x2="{mark}" y2="{top + CELL + 4}"'
    return [
        *parts,
        f'<line {ends} stroke="{INK}" stroke-width="2"/>',
        _text(mark, top - 11, f"quota {quota}", QUIET, 'text-anchor="middle" font-size="11"'),
        _text(LEFT + widest * (CELL + GAP) + 12, middle, note, QUIET),
    ]


def _legend(used: str, bottom: float) -> list[str]:
    parts, left = [], LEFT
    for kind, meaning in MEANINGS.items():
        if kind in used:
            parts.append(_cell(left, bottom - 11, 13, kind))
            parts.append(_text(left + 19, bottom, meaning, QUIET, 'font-size="12"'))
            left += 34 + 7 * len(meaning)
    return parts


def _cell(left: float, top: float, size: float, kind: str) -> str:
    return f'<rect x="{left}" y="{top}" width="{size}" height="{size}" rx="{size // 6 + 1}" {LOOKS[kind]}/>'


def _text(left: float, bottom: float, said: str, colour: str, more: str = "") -> str:
    return f'<text x="{left}" y="{bottom}" fill="{colour}" {more}>{escape(said)}</text>'
