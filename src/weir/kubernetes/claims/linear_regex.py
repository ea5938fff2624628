"""Regular expressions in linear time, for patterns that users write: no backtracking.

The patterns are those of RE2 that device selectors use: characters, classes, groups, alternatives,
repetitions and anchors. Others are refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

PATTERN_MOST = 1000
STATES_MOST = 4000
COST_MOST = 20_000
"""States of a pattern, their ways on and the parts of their classes."""
REPEATS_MOST = 1000
DEPTH_MOST = 50

Matcher = Callable[[str], bool]
_CLASSES: dict[str, Matcher] = {
    "d": lambda char: "0" <= char <= "9",
    "w": lambda char: char.isascii() and (char.isalnum() or char == "_"),
    "s": lambda char: char in "\t\n\f\r ",
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ANCHORS = {"^": "start", "$": "end"}
_ESCAPED_ANCHORS = {"A": "start", "z": "end", "b": "boundary", "B": "no_boundary"}


class PatternError(ValueError):
    """The pattern isn't one, or one that isn't supported."""


@dataclass(slots=True)
class _NfaState:
    """A state: it consumes a character, tests an anchor or splits."""

    consumes: Matcher | None = None
    anchor: str = ""
    to: list[int] = field(default_factory=list)


class LinearPattern:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Compile a pattern.

        Raises:
            PatternError: it is none, too large or unsupported.
        """
        if len(pattern) > PATTERN_MOST:
            raise PatternError(f"a pattern has at most {PATTERN_MOST} characters")
        self.cost = 0  # of a search for each character, at most
        self._states: list[_NfaState] = []
        self._pattern, self._at, self._depth, self._folds = pattern, 0, 0, False
        if pattern.startswith("(?i)"):
            self._folds, self._at = True, 4
        start, ends = self._alternatives()
        if self._at < len(pattern):
            raise PatternError(f"unexpected ) at {self._at + 1} in {pattern!r}")
        self._start, self._final = start, self._new()
        self._link(ends, self._final)

    def search(self, text: str) -> bool:
        """Return True if the pattern matches a part of the text."""
        current: set[int] = set()
        for at in range(len(text) + 1):
            if self._close(current, self._start, text, at):
                return True
            if at == len(text):
                break
            char = text[at]
            following: set[int] = set()
            for number in current:
                state = self._states[number]
                if state.consumes is not None and state.consumes(char):
                    for to in state.to:
                        if self._close(following, to, text, at + 1):
                            return True
            current = following
        return False

    def _close(self, reached: set[int], number: int, text: str, at: int) -> bool:
        """Add a state and those that follow it without a character; return True at the final one."""
        stack = [number]
        while stack:
            number = stack.pop()
            if number == self._final:
                return True
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.consumes is None and (not state.anchor or _holds(state.anchor, text, at)):
                stack.extend(state.to)
        return False

    # Compilation: each part returns its first state and the states whose way on is open

    def _new(self, consumes: Matcher | None = None, anchor: str = "") -> int:
        if len(self._states) >= STATES_MOST:
            raise PatternError("the pattern is too large")
        self._spend(1)
        self._states.append(_NfaState(consumes, anchor))
        return len(self._states) - 1

    def _spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > COST_MOST:
            raise PatternError("the pattern is too large")

    def _link(self, ends: Sequence[int], to: int) -> None:
        self._spend(len(ends))
        for end in ends:
            self._states[end].to.append(to)

    def _alternatives(self) -> tuple[int, list[int]]:
        self._depth += 1
        if self._depth > DEPTH_MOST:
            raise PatternError("the pattern is nested too deep")
        starts: list[int] = []
        ends: list[int] = []
        while True:
            start, open_ends = self._sequence()
            starts.append(start)
            ends += open_ends
            if self._at >= len(self._pattern) or self._pattern[self._at] != "|":
                break
            self._at += 1
        self._depth -= 1
        if len(starts) == 1:
            return starts[0], ends
        split = self._new()
        self._states[split].to = starts
        return split, ends

    def _sequence(self) -> tuple[int, list[int]]:
        start = self._new()
        ends = [start]
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            from_at = self._at
            first, atom_ends = self._atom()
            least, most = self._repetition()
            if (least, most) != (1, 1):
                first, atom_ends = self._repeated(from_at, first, atom_ends, least, most)
            self._link(ends, first)
            ends = atom_ends
        return start, ends

    def _repeated(
        self, from_at: int, first: int, ends: list[int], least: int, most: int | None
    ) -> tuple[int, list[int]]:
        after = self._at
        start = self._new()
        open_ends = [start]
        skips: list[int] = []
        copies = max(least, 1) if most is None else most
        for copy in range(copies):
            if copy:
                self._at = from_at
                first, ends = self._atom()
            if copy >= least:
                skips += open_ends
            self._link(open_ends, first)
            if most is None and copy == copies - 1:
                loop = self._new()
                self._link(ends, loop)
                self._states[loop].to.append(first)
                ends = [loop]
            open_ends = ends
        self._at = after
        return start, [*skips, *open_ends]

    def _repetition(self) -> tuple[int, int | None]:
        sign = self._pattern[self._at : self._at + 1]
        least, most = 1, 1  # type: int, int | None
        if sign and sign in "*+?":
            self._at += 1
            least, most = (1 if sign == "+" else 0), (1 if sign == "?" else None)
        elif sign == "{":
            end = self._pattern.find("}", self._at)
            first, comma, second = (
                self._pattern[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
            )
            if not first.isdecimal() or (second and not second.isdecimal()):
                raise PatternError(f"a literal {{ is written as \\{{ in {self._pattern!r}")
            least = int(first)
            most = (int(second) if second else None) if comma else least
            if max(least, most or 0) > REPEATS_MOST or (most is not None and most < least):
                raise PatternError(f"a repetition is from 0 to {REPEATS_MOST}")
            self._at = end + 1
        else:
            return 1, 1
        if self._pattern[self._at : self._at + 1] == "?":
            self._at += 1  # lazy: it finds the same matches
        if self._pattern[self._at : self._at + 1] in ("*", "+", "?", "{"):
            raise PatternError(f"two repetitions in a row in {self._pattern!r}")
        return least, most

    def _atom(self) -> tuple[int, list[int]]:
        char = self._pattern[self._at]
        self._at += 1
        if char == "(":
            return self._group()
        if char in _ANCHORS:
            state = self._new(anchor=_ANCHORS[char])
        elif char == ".":
            state = self._new(lambda one: one != "\n")
        elif char == "[":
            state = self._new(self._class())
        elif char == "\\":
            state = self._escape()
        elif char in "*+?":
            raise PatternError(f"nothing to repeat at {self._at} in {self._pattern!r}")
        else:
            state = self._new(self._literal(char))
        return state, [state]

    def _group(self) -> tuple[int, list[int]]:
        if self._pattern.startswith("?:", self._at):
            self._at += 2
        elif self._pattern.startswith(("?P<", "?<"), self._at) and not self._pattern.startswith(
            ("?<=", "?<!"), self._at
        ):
            self._at = self._pattern.find(">", self._at) + 1
            if self._at == 0:
                raise PatternError(f"a group's name has no end in {self._pattern!r}")
        elif self._pattern.startswith("?", self._at):
            raise PatternError(f"the group (?{self._pattern[self._at + 1 : self._at + 2]} is not supported")
        start, ends = self._alternatives()
        if self._at >= len(self._pattern):
            raise PatternError(f"a group has no end in {self._pattern!r}")
        self._at += 1
        return start, ends

    def _escape(self) -> int:
        char = self._next_char()
        if char in _ESCAPED_ANCHORS:
            return self._new(anchor=_ESCAPED_ANCHORS[char])
        return self._new(self._escaped(char))

    def _next_char(self) -> str:
        if self._at >= len(self._pattern):
            raise PatternError(f"{self._pattern!r} ends early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _escaped(self, char: str) -> Matcher:
        if char.lower() in _CLASSES:
            of_class = _CLASSES[char.lower()]
            return of_class if char.islower() else lambda one: not of_class(one)
        if char in _ESCAPES:
            return self._literal(_ESCAPES[char])
        if char.isascii() and char.isalnum():
            raise PatternError(f"\\{char} is not supported")
        return self._literal(char)

    def _literal(self, char: str) -> Matcher:
        if self._folds:
            folded = char.lower()
            return lambda one: one.lower() == folded
        return lambda one: one == char

    def _class(self) -> Matcher:
        negated = self._pattern[self._at : self._at + 1] == "^"
        self._at += negated
        parts: list[Matcher] = []
        first = True
        while (char := self._next_char()) != "]" or first:
            first = False
            if char == "[" and self._pattern[self._at : self._at + 1] == ":":
                raise PatternError("named classes are not supported")
            if char == "\\":
                escaped = self._next_char()
                if escaped.lower() in _CLASSES:
                    parts.append(self._escaped(escaped))
                    continue
                if escaped not in _ESCAPES and escaped.isascii() and escaped.isalnum():
                    raise PatternError(f"\\{escaped} is not supported")
                char = _ESCAPES.get(escaped, escaped)
            following = self._pattern[self._at : self._at + 2]
            if len(following) == 2 and following[0] == "-" and following[1] != "]":
                self._at += 1
                last = self._next_char()
                last = self._next_char() if last == "\\" else last
                if last < char:
                    raise PatternError(f"the range {char}-{last} is empty")
                parts.append(self._range(char, last))
            else:
                parts.append(self._literal(char))
        self._spend(len(parts))
        return lambda one: any(part(one) for part in parts) != negated

    def _range(self, low: str, high: str) -> Matcher:
        if self._folds:
            return lambda one: low <= one.lower() <= high or low <= one.upper() <= high
        return lambda one: low <= one <= high


def _holds(anchor: str, text: str, at: int) -> bool:
    if anchor == "start":
        return at == 0
    if anchor == "end":
        return at == len(text)
    is_word = _CLASSES["w"]
    before = at > 0 and is_word(text[at - 1])
    after = at < len(text) and is_word(text[at])
    return (before != after) == (anchor == "boundary")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> LinearPattern:
    """Return a compiled pattern.

    Raises:
        PatternError: it is none, too large or unsupported.
    """
    return LinearPattern(pattern)
