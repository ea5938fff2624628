"""Tokens and literals of CEL expressions."""

import math
import re
from typing import Any

LENGTH_MAX = 10 * 1024
_INT_MAX = 1 << 63
_DIGITS_MAX = 64

_ESCAPED = r"(?:[^\\]|\\.)*?"
_TOKEN = re.compile(
    rf"""(?P<space>\s+|//[^\n]*)
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>0x[0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
    |(?P<string>[bB]?[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')
        |[bB]?(?:\"\"\"{_ESCAPED}\"\"\"|'''{_ESCAPED}'''|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_./\- ]+`)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{{}}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[xX][0-9a-fA-F]{2}|[0-3][0-7]{2}|.)", re.DOTALL)
_BYTES_ESCAPE = re.compile(_ESCAPE.pattern.encode(), re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_PLAIN_ESCAPES = frozenset("\\?\"'`")


class CelSyntaxError(ValueError):
    """The text is no CEL expression, or one beyond the bounds."""


class Unsigned(int):
    """An unsigned integer of CEL."""


def tokens_of(text: str) -> list[tuple[str, str]]:
    """Return the kinds and texts of the tokens of an expression, without spaces and comments.

    Raises:
        CelSyntaxError: a part of the expression is no token, or the expression is too long.
    """
    if len(text) > LENGTH_MAX:
        raise CelSyntaxError(f"an expression has at most {LENGTH_MAX} characters")
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CelSyntaxError(f"unexpected character {text[position]!r} at {position + 1}")
        position = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append((kind, match[0]))
    return tokens


def literal(kind: str, text: str) -> Any:
    """Return the value of a token.

    Raises:
        CelSyntaxError: the token has no value: an integer beyond 64 bits, or an unknown escape.
    """
    if kind == "float":
        return _double(text)
    if kind == "int":
        return _integer(text)
    prefix = text[: min(text.index(quote) for quote in "\"'" if quote in text)].lower()
    body = text[len(prefix) :].replace("\r\n", "\n").replace("\r", "\n")
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes]
    if "b" not in prefix:
        return body if "r" in prefix else _ESCAPE.sub(_unescaped, body)
    encoded = _encoded(body)
    return encoded if "r" in prefix else _BYTES_ESCAPE.sub(_unescaped_bytes, encoded)


def _double(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise CelSyntaxError(f"{text} is no 64-bit number")
    return value


def _integer(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        raise CelSyntaxError(f"{text[:_DIGITS_MAX]}… is no 64-bit integer")
    unsigned = text[-1] in "uU"
    value = int(text.rstrip("uU"), 16 if "x" in text else 10)
    if unsigned and 0 <= value < 2 * _INT_MAX:
        return Unsigned(value)
    if unsigned or not -_INT_MAX <= value < _INT_MAX:
        raise CelSyntaxError(f"{text} is no 64-bit integer")
    return value


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise CelSyntaxError("the text is no UTF-8") from None


def _unescaped(match: re.Match[str]) -> str:
    body = match[1]
    if body in _ESCAPES:
        return _ESCAPES[body]
    if body in _PLAIN_ESCAPES:
        return body
    code = _code(body, "uUxX")
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CelSyntaxError(f"\\{body} is no character")
    return chr(code)


def _unescaped_bytes(match: re.Match[bytes]) -> bytes:
    body = match[1].decode(errors="replace")
    if body in _ESCAPES or body in _PLAIN_ESCAPES:
        return _ESCAPES.get(body, body).encode()
    return bytes((_code(body, "xX"),))


def _code(body: str, prefixes: str) -> int:
    if body[0] in prefixes and len(body) > 1:
        return int(body[1:], 16)
    if body.isdigit() and len(body) == 3:
        return int(body, 8)
    raise CelSyntaxError(f"unknown escape \\{body}")
