"""Tables of rows that fit the terminal.

On a narrow terminal the least important columns are left out until the others have their minimum width; then
sentences and names are shortened. Programs that read the output get all of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from weir.cli.output.terminal import Screen, Tone, cells, plain, shortened, wrapped

Row = TypeVar("Row")
GAP = "  "
_INDENT = "  "
SENTENCE_EASY, NAME_EASY = 48, 24
"""Columns of this width are read without trouble; wider ones give way first."""


def _plain_tone(_row: object) -> Tone:
    return "plain"


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table.

    `least` is the width it may be shortened to (0: never shortened). Columns with the highest `drop` are left
    out first, those with 0 never. A `sentence` is cut at its end, other text in its middle; one that `wraps`
    goes on in further lines instead. `wide` columns are shown with `--output wide` only.
    """

    head: str
    cell: Callable[[Row], str]
    right: bool = False
    least: int = 0
    drop: int = 0
    sentence: bool = False
    wraps: bool = False
    wide: bool = False
    tone: Callable[[Row], Tone] = _plain_tone


def table(
    rows: Sequence[Row], columns: Sequence[Column[Row]], screen: Screen, *, wide: bool = False
) -> list[str]:
    """Return the lines of a table. A sentence column without any sentence is left out.

    With `wide` nothing else is left out or shortened.
    """
    shown = [
        column
        for column in columns
        if (wide or not column.wide) and not (column.sentence and not any(map(column.cell, rows)))
    ]
    texts = [[plain(column.cell(row)) for row in rows] for column in shown]
    natural = [
        max([cells(column.head), *map(cells, cells_)]) for column, cells_ in zip(shown, texts, strict=True)
    ]
    shown_at, widths = _fit(shown, natural, None if wide else screen.width)
    heads = GAP.join(
        _aligned(shown[index].head, width, right=shown[index].right)
        for index, width in zip(shown_at, widths, strict=True)
    )
    lines = [screen.paint(heads.rstrip(), "quiet")]
    for number, row in enumerate(rows):
        parts = [
            (shown[index], width, _lines(shown[index], texts[index][number], width))
            for index, width in zip(shown_at, widths, strict=True)
        ]
        for line in range(max(len(below) for _, _, below in parts)):
            cells_ = [
                _cell(column, row, below[line] if line < len(below) else "", width, screen)
                for column, width, below in parts
            ]
            lines.append(GAP.join(cells_).rstrip())
    return lines


def _lines(column: Column[Row], text: str, width: int) -> list[str]:
    return wrapped(text, width).split("\n") if column.wraps else [text]


class Lines(Generic[Row]):
    """A table that is printed row by row: columns grow with their content and never shrink."""

    def __init__(self, columns: Sequence[Column[Row]], *, wide: bool = False) -> None:
        self._columns = [column for column in columns if wide or not column.wide]
        self._widths = [max(cells(column.head), column.least) for column in self._columns]
        self._begun = False

    def next(self, row: Row, screen: Screen) -> list[str]:
        """Return the line of a row; the heads come before the first one."""
        texts = [plain(column.cell(row)) for column in self._columns]
        self._widths = [max(width, cells(text)) for width, text in zip(self._widths, texts, strict=True)]
        if self._columns and not self._columns[-1].right:
            self._widths[-1] = 0  # the last column needs no padding
        lines = []
        if not self._begun:
            self._begun = True
            heads = [
                _aligned(column.head, width, right=column.right)
                for column, width in zip(self._columns, self._widths, strict=True)
            ]
            lines.append(screen.paint(GAP.join(heads).rstrip(), "quiet"))
        parts = [
            _cell(column, row, text, max(width, cells(text)), screen)
            for column, text, width in zip(self._columns, texts, self._widths, strict=True)
        ]
        return [*lines, GAP.join(parts).rstrip()]


def _cell(column: Column[Row], row: Row, text: str, width: int, screen: Screen) -> str:
    """Return a cell; only its text is coloured, not the spaces around it."""
    text = shortened(text, width, middle=not column.sentence)
    space = " " * (width - cells(text))
    painted = screen.paint(text, column.tone(row))
    return space + painted if column.right else painted + space


def _fit(
    shown: Sequence[Column[Row]], natural: Sequence[int], width: int | None
) -> tuple[list[int], list[int]]:
    """Return the positions of the columns that fit, and their widths."""
    remaining = list(range(len(shown)))
    while width is not None:
        least = [min(natural[index], shown[index].least or natural[index]) for index in remaining]
        if sum(least) + len(GAP) * (len(remaining) - 1) <= width:
            break
        goes = max(remaining, key=lambda index: (shown[index].drop, index))
        if not shown[goes].drop:
            break
        remaining.remove(goes)
    widths = [natural[index] for index in remaining]
    over = 0 if width is None else sum(widths) + len(GAP) * (len(remaining) - 1) - width
    while over > 0:
        shrinkable = [
            place
            for place, index in enumerate(remaining)
            if shown[index].least and widths[place] > shown[index].least
        ]
        if not shrinkable:
            break
        widths[max(shrinkable, key=lambda place: _can_spare(shown[remaining[place]], widths[place]))] -= 1
        over -= 1
    return remaining, widths


def _can_spare(column: Column[Row], width: int) -> tuple[bool, int]:
    """Return the order of shortening: columns above their easy width first, sentences before names."""
    easy = SENTENCE_EASY if column.sentence else NAME_EASY
    return width > easy, width if column.sentence else width - SENTENCE_EASY


def _aligned(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cells(text))
    return space + text if right else text + space


def pairs(rows: Sequence[tuple[str, str]], screen: Screen) -> list[str]:
    """Return lines with a label and a text each; long texts continue below, aligned."""
    if not rows:
        return []
    width = max(cells(label) for label, _ in rows)
    lines = []
    for label, text in rows:
        width_left = None if screen.width is None else screen.width - len(_INDENT) - width - len(GAP)
        first, *rest = wrapped(plain(text), width_left).split("\n")
        lines.append(f"{_INDENT}{screen.paint(_aligned(label, width, right=False), 'quiet')}{GAP}{first}")
        lines += [" " * (len(_INDENT) + width + len(GAP)) + line for line in rest]
    return lines
