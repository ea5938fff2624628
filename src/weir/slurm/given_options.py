"""Options as they are given: words become options with values, by the rules of getopt_long."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from weir.slurm.directives import Directives, place
from weir.slurm.errors import SlurmError
from weir.slurm.options import OPTIONS, SBATCH, WAIT_FOR_SWITCH, OptionTable, SlurmOption

_SAME_AS = {"tasks-per-node": "ntasks-per-node"}
"""Second names of options."""


class GivenOption(NamedTuple):
    """An option with its value, and where it stands. `value` is None if it has no argument."""

    option: SlurmOption
    value: str | None
    where: str

    @property
    def name(self) -> str:
        """Return the name of the option."""
        return _SAME_AS.get(self.option.name, self.option.name)

    @property
    def text(self) -> str:
        """Return the value, empty if there is none."""
        return self.value or ""

    @property
    def written(self) -> str:
        """Return the option as its long form."""
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"


class Located(NamedTuple):
    """A word, and where it stands."""

    text: str
    where: str


def from_script(directives: Directives, name: str) -> list[GivenOption]:
    """Return the options of a script.

    Raises:
        SlurmError: a word is no option.
    """
    words = [Located(word.text, place(name, word.line)) for word in directives.words]
    given, rest = parse(words, SBATCH)
    if rest:
        right = "write options such as --ntasks=4"
        raise SlurmError(f"{rest[0].where}: {rest[0].text!r} is no option of sbatch: {right}")
    return given


def from_variables(variables: Mapping[str, str]) -> list[GivenOption]:
    """Return the options that variables such as SBATCH_PARTITION give."""
    options = []
    for option in OPTIONS:
        if option.variable and option.variable in variables:
            text = variables[option.variable]
            value = None if option.takes == "nothing" or (option.takes == "optional" and not text) else text
            options.append(GivenOption(option, value, f"${option.variable}"))
    if WAIT_FOR_SWITCH in variables:
        where = f"${WAIT_FOR_SWITCH}"
        options.append(GivenOption(SBATCH.by_name["switches"], f"@{variables[WAIT_FOR_SWITCH]}", where))
    return options


def from_command_line(
    words: Sequence[str], table: OptionTable = SBATCH
) -> tuple[list[GivenOption], list[str]]:
    """Return the options before the script or program, and the words from there on.

    Raises:
        SlurmError: an option is unknown.
    """
    given, rest = parse([Located(word, "") for word in words], table)
    return given, [word.text for word in rest]


def parse(words: Sequence[Located], table: OptionTable) -> tuple[list[GivenOption], Sequence[Located]]:
    """Return the options up to the first other word, and the words from there on.

    Raises:
        SlurmError: an option is unknown, or its argument is missing or needless.
    """
    given: list[GivenOption] = []
    index = 0
    while index < len(words):
        text = words[index].text
        if text == "--":
            return given, words[index + 1 :]
        if not text.startswith("-") or text == "-":
            break
        parsed, used = (_long if text.startswith("--") else _short)(words, index, table)
        given += parsed
        index += used
    return given, words[index:]


def _long(words: Sequence[Located], index: int, table: OptionTable) -> tuple[list[GivenOption], int]:
    word = words[index]
    name, parted, value = word.text[2:].partition("=")
    option = _named(name, word.where, table)
    if option.takes == "nothing" and parted:
        raise SlurmError(f"{_place(word)}--{option.name} takes no value: write --{option.name}")
    if parted or option.takes != "value":
        return [GivenOption(option, value if parted else None, word.where)], 1
    if index + 1 == len(words):
        raise SlurmError(f"{_place(word)}--{option.name} has no value: write --{option.name}=VALUE")
    return [GivenOption(option, words[index + 1].text, word.where)], 2


def _short(words: Sequence[Located], index: int, table: OptionTable) -> tuple[list[GivenOption], int]:
    """Return the options of a word of letters, such as -Qn4."""
    word = words[index]
    given = []
    for position in range(1, len(word.text)):
        letter, rest = word.text[position], word.text[position + 1 :]
        option = table.by_letter.get(letter)
        if option is None:
            raise SlurmError(
                f"{_place(word)}-{letter} is no option of {table.program}: `man {table.program}` lists them"
            )
        if option.takes == "nothing":
            given.append(GivenOption(option, None, word.where))
            continue
        if rest or option.takes == "optional":
            return [*given, GivenOption(option, rest or None, word.where)], 1
        if index + 1 == len(words):
            raise SlurmError(f"{_place(word)}-{letter} has no value: write --{option.name}=VALUE")
        return [*given, GivenOption(option, words[index + 1].text, word.where)], 2
    return given, 1


def _named(name: str, where: str, table: OptionTable) -> SlurmOption:
    """Return the option of a name, or of the beginning of one name alone."""
    if name in table.by_name:
        return table.by_name[name]
    matches = [option for option in table.by_name.values() if name and option.name.startswith(name)]
    place = f"{where}: " if where else ""
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = " or ".join(f"--{option.name}" for option in matches)
        raise SlurmError(f"{place}--{name} could be several options: write {names}")
    raise SlurmError(f"{place}--{name} is no option of {table.program}: `man {table.program}` lists them")


def last_of(given: Iterable[GivenOption]) -> dict[str, GivenOption]:
    """Return the last occurrence of each option, which counts."""
    return {option.name: option for option in given}


def _place(word: Located) -> str:
    return f"{word.where}: " if word.where else ""
