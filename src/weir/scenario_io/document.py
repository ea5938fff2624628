"""Text to values with their lines: YAML 1.2 or JSON.

Values are built from the events of libyaml's parser on an explicit stack. So the input controls neither the
depth nor the number of values. It can only make text, numbers, booleans, null, lists and mappings. Values
repeated by references are counted before they are read. `no` and `12:30` stay texts, and `010` is ten. A key
that is written twice is a mistake.

ruamel.yaml would replace about 100 lines, but it reads a file of 35,000 lines in 5.4 s instead of 0.3 s. It
also reports only the first duplicate key, and fails on deep nesting.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from weir.scenario_io.json_lines import read_json
from weir.scenario_io.source_map import LineCounter, Mistakes, SourceBranch, Spot

STANDARD_INPUT = Path("-")
BYTES_MAX = 256 << 20
"""Size limit of a file."""
DEPTH_MAX = 64
"""Depth limit of lists and mappings; the format needs seven levels."""
REPEATED_MAX = 100_000
"""Limit of values that references to anchors repeat, all together."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = {None, "!", *(_CORE + name for name in ("str", "int", "float", "bool", "null"))}
_WORDS: dict[str, Any] = {"": None, "~": None}
for _word, _meaning in (("null", None), ("true", True), ("false", False)):
    for _form in (_word, _word.capitalize(), _word.upper()):
        _WORDS[_form] = _meaning
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)


def read_document(text: str, mistakes: Mistakes) -> Any:
    """Return the values of a document; `mistakes` gets their lines.

    Raises:
        InvalidFile: the text can't be read at all.
    """
    not_json: Exception | None = None
    if text[:256].lstrip()[:1] in ("{", "["):
        try:
            return read_json(text, mistakes)
        except (ValueError, RecursionError) as error:
            not_json = error
    try:
        return _read_yaml(text, mistakes)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        if not_json is not None and mistakes.file.endswith(".json"):
            line = getattr(not_json, "lineno", 1)
            problem = getattr(not_json, "msg", "is nested too deeply or has a number too long")
            mistakes.on(line, f"is not JSON: {problem}; fix it there")
        else:
            mistakes.on(*_syntax(text, error))
    mistakes.refuse_if_any()
    raise AssertionError("refused above")


def text_of(path: Path | str, mistakes: Mistakes) -> str:
    """Return the text of a file.

    Raises:
        InvalidFile: it can't be opened, is too large, or isn't UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        mistakes.on(0, f"can't be opened: {reason.lower()}; name a file that can be read")
        mistakes.refuse_if_any()
    return decoded(raw, mistakes)


def input_name(file: Path) -> str:
    """Return the name of an input in sentences about it."""
    return "standard input" if file == STANDARD_INPUT else str(file)


def input_text(file: Path, mistakes: Mistakes) -> str:
    """Return the text of a file; `-` is the standard input.

    Raises:
        InvalidFile: it can't be opened, is too large, or isn't UTF-8.
    """
    if file == STANDARD_INPUT:
        return decoded(sys.stdin.buffer.read(BYTES_MAX + 1), mistakes)
    return text_of(file, mistakes)


def decoded(raw: bytes, mistakes: Mistakes) -> str:
    """Return the text of a file's bytes.

    Raises:
        InvalidFile: they are too many, or not UTF-8.
    """
    if len(raw) > BYTES_MAX:
        mistakes.on(1, f"is larger than {BYTES_MAX >> 20} MiB; write a smaller file")
        mistakes.refuse_if_any()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        mistakes.on(line, f"byte {raw[error.start]:#04x} is not UTF-8; save the file as UTF-8 text")
        mistakes.refuse_if_any()
        raise AssertionError("refused above") from error


def _syntax(text: str, error: Exception) -> tuple[int, str]:
    """Return the line and the message of a YAML error."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "can't be read"
        # The error may be after the last line
        line = min(mark.line, text.rstrip().count("\n")) if mark else 0
        return line + 1, f"is not YAML: {problem}; fix the indentation, quotes or colon there"
    if isinstance(error, yaml.reader.ReaderError):
        # The position is in bytes or characters, depending on the reader; the character decides.
        odd = error.character if isinstance(error.character, str) else chr(error.character)
        offset = text.find(odd)
        return LineCounter(text).line_at(
            max(offset, 0)
        ), f"has the character {odd!r}; leave it out, or write it as an escape"
    if isinstance(error, UnicodeEncodeError):
        return LineCounter(text).line_at(
            error.start
        ), "has an incomplete character (half of a surrogate pair); save the file as UTF-8 text"
    return 1, "is not YAML; write a scenario as docs/reference/scenarios.md shows"


class _Frame:
    """A list or mapping that is not complete yet."""

    __slots__ = ("anchor", "branch", "key", "key_line", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], line: int, anchor: str | None) -> None:
        self.value = value
        self.branch = SourceBranch(line, {} if isinstance(value, dict) else [])
        self.anchor = anchor
        self.size = 1
        self.key: str | None = None
        self.key_line = 0


class _YamlReader:
    """Builder of a document's values from parser events."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, Spot, int]] = {}
        self.repeated = 0
        self.documents = 0
        self.value: Any = None
        self.root: Spot = 1

    def read(self, events: Iterator[yaml.Event]) -> None:
        """Build the values from all events.

        Raises:
            InvalidFile: the values can't be built.
        """
        for event in events:
            mark = event.start_mark
            line = mark.line + 1 if mark is not None else 0
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event, line)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._open(event, line)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                frame = self.stack.pop()
                self._put(frame.value, frame.branch, frame.size, frame.anchor)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event.anchor or "", line)
            elif isinstance(event, yaml.DocumentStartEvent):
                self.documents += 1
                if self.documents > 1:
                    self._stop(line, "a second document begins here; write one document a file")

    def _stop(self, line: int, text: str) -> None:
        self.mistakes.on(line, text)
        self.mistakes.refuse_if_any()

    def _open(self, event: yaml.CollectionStartEvent, line: int) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _CORE + ("map" if mapping else "seq")):
            self.mistakes.on(line, f"the tag {_short_tag(event.tag)} means nothing here; leave it out")
        if len(self.stack) >= DEPTH_MAX:
            self._stop(line, f"is nested more than {DEPTH_MAX} deep; write it flatter")
        self.stack.append(_Frame({} if mapping else [], line, event.anchor))

    def _alias(self, anchor: str, line: int) -> None:
        anchored = self.anchors.get(anchor)
        if anchored is None:
            self.mistakes.on(
                line, f"*{anchor} stands for nothing complete; write &{anchor} before a value above it"
            )
            anchored = (None, line, 1)
        value, spot, size = anchored
        self.repeated += size
        if self.repeated > REPEATED_MAX:
            self._stop(line, f"references repeat more than {REPEATED_MAX} values; write them out")
        self._put(value, spot, size, None, line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and not top.key_line:
            self._key(top, event.value, line)
            return
        value: Any = event.value
        if event.tag not in _SCALAR_TAGS:
            self.mistakes.on(line, f"the tag {_short_tag(event.tag)} means nothing here; leave it out")
        elif event.implicit[0] or event.tag not in (None, "!", _CORE + "str"):
            try:
                value = plain(event.value)
            except ValueError:
                self.mistakes.on(line, "is a number too long to read; write a shorter one")
        self._put(value, line, 1, event.anchor)

    def _key(self, top: _Frame, key: str, line: int) -> None:
        top.key_line = line
        if key in top.value:
            first = top.branch.keys[key]
            self.mistakes.on(line, f"{key} is written twice, first on line {first}; keep one of them")
            top.key = None  # the value of this key is read and dropped
        else:
            top.key = key

    def _put(self, value: Any, spot: Spot, size: int, anchor: str | None, line: int = 0) -> None:
        """Add a complete value to its list or mapping. `line` is the line of a reference to it."""
        if anchor is not None:
            self.anchors[anchor] = (value, spot, size)
        if not self.stack:
            self.value, self.root = value, spot
            return
        top = self.stack[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
            assert isinstance(top.branch.below, list)
            top.branch.below.append(spot)
        elif not top.key_line:
            key_line = line or (spot if isinstance(spot, int) else spot.line)
            self.mistakes.on(key_line, "a key is a list, a mapping or a reference; write a word")
            top.key, top.key_line = None, key_line
        else:
            if top.key is not None:
                assert isinstance(top.branch.below, dict)
                top.value[top.key] = value
                top.branch.below[top.key] = spot
                top.branch.keys[top.key] = top.key_line
            top.key, top.key_line = None, 0


def _read_yaml(text: str, mistakes: Mistakes) -> Any:
    reader = _YamlReader(mistakes)
    reader.read(yaml.parse(text, Loader=_LOADER))
    mistakes.root = reader.root
    return reader.value


def plain(written: str) -> Any:
    """Return the YAML 1.2 value of an unquoted word: null, true, false, a number or the text.

    Raises:
        ValueError: it is a number with too many digits.
    """
    if written in _WORDS:
        return _WORDS[written]
    if INTEGER.fullmatch(written):
        return int(written, 0) if written[:2] in ("0o", "0x") else int(written)
    if FLOAT.fullmatch(written):
        return float(written.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return written


def _short_tag(tag: str | None) -> str:
    if tag is None:
        return "!"
    return "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag[:60]
