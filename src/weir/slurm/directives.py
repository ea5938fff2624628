"""Directives of a job script: the words of its `#SBATCH` lines, split as sbatch splits them.

Lines after the first command are text of the script. Quotes and backslashes protect characters, and `#`
begins a comment anywhere outside of quotes.
"""

from typing import NamedTuple

from weir.slurm.errors import SlurmError

MAGIC = "#SBATCH"
_OLD_MAGIC = "#SLURM"
_OTHERS = ("#PBS", "#BSUB")
_SEPARATORS = ("hetjob", "packjob")
STANDARD_INPUT = "standard input"
"""Name of a script that isn't in a file."""


class Word(NamedTuple):
    """A word of a directive, and its line."""

    text: str
    line: int


class Directives(NamedTuple):
    """Options of the #SBATCH lines, and options of lines for other schedulers."""

    words: tuple[Word, ...]
    foreign: tuple[Word, ...] = ()


def place(name: str, line: int) -> str:
    """Return the place of a line for a message: `job.sh:3`, or `standard input, line 3`."""
    return f"{name}, line {line}" if name == STANDARD_INPUT else f"{name}:{line}"


def read_directives(text: str, name: str) -> Directives:
    """Return the directives of a script.

    Raises:
        SlurmError: it is no script, or a directive can't be split.
    """
    if not text.startswith("#!"):
        raise SlurmError(
            f"{place(name, 1)}: begins with no interpreter: write a first line such as #!/bin/bash"
        )
    if "\0" in text:
        raise SlurmError(f"{name}: holds a zero byte: submit a text, and let it start the program")
    if "\r\n" in text:
        convert = "sed 's/\\r$//'" if name == STANDARD_INPUT else f"sed -i 's/\\r$//' {name}"
        raise SlurmError(f"{name}: has DOS line breaks: convert it, as with `{convert}`")
    words: list[Word] = []
    foreign: list[Word] = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare and not bare.startswith("#"):
            break
        if line.startswith(_OTHERS):
            foreign.append(Word(bare, number))
        rest = _directive(line)
        if rest is None:
            continue
        these = split_words(rest, place(name, number))
        if these[:1] and these[0] in _SEPARATORS:
            right = "submit each part as a job of its own"
            raise SlurmError(
                f"{place(name, number)}: {these[0]} makes a heterogeneous job, and Weir has none: {right}"
            )
        words += (Word(word, number) for word in these)
    return Directives(tuple(words), tuple(foreign))


def _directive(line: str) -> str | None:
    """Return the words of a directive as text; None for another line."""
    for magic in (MAGIC, _OLD_MAGIC):
        if line.startswith(magic):
            return line.removeprefix(magic)
    return None


def split_words(text: str, where: str) -> list[str]:
    """Split the text after `#SBATCH` into words.

    Raises:
        SlurmError: a quote isn't closed, a word is empty or begins with a colon.
    """
    words: list[str] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text) or text[position] == "#":
            return words
        if text[position] == ":":
            raise SlurmError(f"{where}: a word begins with a colon: write options such as --time=1:00:00")
        word, position = _word(text, position, where)
        if not word:
            raise SlurmError(f"{where}: an empty word ends the line for sbatch: leave it out")
        words.append(word)


def _word(text: str, position: int, where: str) -> tuple[str, int]:
    """Return the word at a position, and the position after it."""
    letters: list[str] = []
    quote = ""
    while position < len(text) and (quote or not text[position].isspace()):
        letter = text[position]
        position += 1
        if letter == "\\":
            # Else the word ends at an unquoted space
            if position < len(text) and (quote or not text[position].isspace()):
                letters.append(text[position])
                position += 1
        elif quote:
            if letter == quote:
                quote = ""
            else:
                letters.append(letter)
        elif letter in "'\"":
            quote = letter
        elif letter == "#":
            return "".join(letters), position - 1
        else:
            letters.append(letter)
    if quote:
        raise SlurmError(f"{where}: the quote {quote} isn't closed: write it again at the end of the word")
    return "".join(letters), position
