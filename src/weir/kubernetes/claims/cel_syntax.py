"""Parser of CEL expressions: text to a tree, bounded in length and depth.

Weir evaluates device selectors itself. The Python libraries for CEL lack the optional fields, `cel.bind`,
quantities and semantic versions of Kubernetes' device expressions, and none of them bounds the cost of an
evaluation. Users write these expressions, and one of them must not stop the scheduler.
"""

import re
from dataclasses import dataclass
from typing import Any

LENGTH_MOST = 10 * 1024
DEPTH_MOST = 100

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>0[xX][0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
    |(?P<string>(?P<prefix>[rRbB]{0,2})(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
        |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_./\- ]+`)
    |(?P<sign>\[\?|\.\?|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[xX][0-9a-fA-F]{2}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_PLAIN_ESCAPES = frozenset("\\?\"'`")
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_CONSTANTS = {"true": True, "false": False, "null": None}
_INT_MOST = 1 << 63
_DIGITS_MOST = 64
MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))


class CelSyntaxError(ValueError):
    """The text is no CEL expression, or one beyond the bounds."""


@dataclass(frozen=True, slots=True)
class Expr:
    """A node of the tree: its kind, its fixed parts and its operands."""

    kind: str
    value: Any = None
    operands: tuple["Expr", ...] = ()


class Unsigned(int):
    """An unsigned integer of CEL."""


def parse(text: str) -> Expr:
    """Return the tree of an expression.

    Raises:
        CelSyntaxError: it isn't one, or it is too long or too deep.
    """
    if len(text) > LENGTH_MOST:
        raise CelSyntaxError(f"an expression has at most {LENGTH_MOST} characters")
    parser = _CelParser(_tokens(text))
    tree = parser.ternary()
    parser.expect_end()
    return tree


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelSyntaxError(f"unexpected character {text[at]!r} at {at + 1}")
        at = match.end()
        kind = match.lastgroup or ""
        if kind == "prefix":
            kind = "string"
        if kind != "space":
            tokens.append((kind, match[0]))
    return tokens


class _CelParser:
    """Recursive descent by the precedence of CEL's operators."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise CelSyntaxError(f"unexpected {self._tokens[self._at][1]!r}")

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return text if kind in ("sign", "name") else f"<{kind}>"

    def _take(self, *signs: str) -> str:
        sign = self._peek()
        if sign in signs:
            self._at += 1
            return sign
        return ""

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise CelSyntaxError(f"expected {sign!r}, found {self._peek() or 'the end'!r}")

    def ternary(self) -> Expr:
        self._depth += 1
        if self._depth > DEPTH_MOST:
            raise CelSyntaxError(f"an expression is nested at most {DEPTH_MOST} deep")
        tree = self._binary(0)
        if self._take("?"):
            then = self._binary(0)
            self._expect(":")
            tree = Expr("if", None, (tree, then, self.ternary()))
        self._depth -= 1
        return tree

    _LEVELS: tuple[frozenset[str], ...] = (
        frozenset(("||",)),
        frozenset(("&&",)),
        _RELATIONS,
        frozenset(("+", "-")),
        frozenset(("*", "/", "%")),
    )

    def _binary(self, level: int) -> Expr:
        if level == len(self._LEVELS):
            return self._unary()
        tree = self._binary(level + 1)
        depth = 0
        while sign := self._take(*self._LEVELS[level]):
            depth += 1
            if depth > DEPTH_MOST:
                raise CelSyntaxError(f"an expression has at most {DEPTH_MOST} operands in a row")
            kind = {"||": "or", "&&": "and"}.get(sign, "binary")
            tree = Expr(kind, sign, (tree, self._binary(level + 1)))
        return tree

    def _unary(self) -> Expr:
        signs = []
        while sign := self._take("!", "-"):
            signs.append(sign)
        if len(signs) > DEPTH_MOST:
            raise CelSyntaxError(f"an expression is nested at most {DEPTH_MOST} deep")
        if signs and signs[-1] == "-" and self._peek() in ("<int>", "<float>"):
            signs.pop()
            kind, text = self._tokens[self._at]
            self._tokens[self._at] = (kind, f"-{text}")
        tree = self._member()
        for sign in reversed(signs):
            tree = Expr("not" if sign == "!" else "negate", None, (tree,))
        return tree

    def _member(self) -> Expr:
        tree = self._primary()
        length = 0
        while sign := self._take(".", ".?", "[", "[?"):
            length += 1
            if length > DEPTH_MOST:
                raise CelSyntaxError(f"an expression has at most {DEPTH_MOST} fields in a row")
            if sign in ("[", "[?"):
                index = self.ternary()
                self._expect("]")
                tree = Expr("index" if sign == "[" else "optional_index", None, (tree, index))
                continue
            name = self._name()
            if sign == ".?":
                tree = Expr("optional_index", None, (tree, Expr("constant", name)))
            elif self._take("("):
                tree = self._call(tree, name, self._list(")"))
            else:
                tree = Expr("select", name, (tree,))
        return tree

    def _call(self, target: Expr, name: str, arguments: tuple[Expr, ...]) -> Expr:
        if name in MACROS and 2 <= len(arguments) <= 3:
            variable = arguments[0]
            if variable.kind != "variable":
                raise CelSyntaxError(f"the first argument of {name} must be a name")
            if len(arguments) == 3 and name != "map":
                raise CelSyntaxError(f"{name} with two variables is not supported")
            return Expr("macro", (name, variable.value), (target, *arguments[1:]))
        if name in ("optMap", "optFlatMap") and len(arguments) == 2:
            if arguments[0].kind != "variable":
                raise CelSyntaxError(f"the first argument of {name} must be a name")
            return Expr("optional_map", (name, arguments[0].value), (target, arguments[1]))
        if target.kind == "variable" and target.value == "cel" and name == "bind" and len(arguments) == 3:
            if arguments[0].kind != "variable":
                raise CelSyntaxError("the first argument of cel.bind must be a name")
            return Expr("bind", arguments[0].value, arguments[1:])
        if target.kind == "variable" and target.value in ("optional", "sets"):
            return Expr("call", f"{target.value}.{name}", arguments)
        return Expr("method", name, (target, *arguments))

    def _name(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "the end")
        if kind not in ("name", "quoted"):
            raise CelSyntaxError(f"expected a name, found {text!r}")
        self._at += 1
        return text.strip("`")

    def _list(self, end: str) -> tuple[Expr, ...]:
        items: list[Expr] = []
        while not self._take(end):
            if items:
                self._expect(",")
                if self._take(end):
                    break
            items.append(self.ternary())
        return tuple(items)

    def _primary(self) -> Expr:
        if self._take("("):
            tree = self.ternary()
            self._expect(")")
            return tree
        if self._take("["):
            return Expr("list", None, self._list("]"))
        if self._take("{"):
            return Expr("map", None, self._entries())
        self._take(".")
        if self._at >= len(self._tokens):
            raise CelSyntaxError("the expression ends early")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "name":
            return self._named(text)
        if kind in ("int", "float", "string"):
            return Expr("constant", _literal(kind, text))
        raise CelSyntaxError(f"unexpected {text!r}")

    def _named(self, name: str) -> Expr:
        if name in _CONSTANTS:
            return Expr("constant", _CONSTANTS[name])
        if not self._take("("):
            return Expr("variable", name)
        arguments = self._list(")")
        if name == "has":
            if len(arguments) != 1 or arguments[0].kind != "select":
                raise CelSyntaxError("has() takes one field, such as has(a.b)")
            return Expr("has", arguments[0].value, arguments[0].operands)
        return Expr("call", name, arguments)

    def _entries(self) -> tuple[Expr, ...]:
        entries: list[Expr] = []
        while not self._take("}"):
            if entries:
                self._expect(",")
                if self._take("}"):
                    break
            entries.append(self.ternary())
            self._expect(":")
            entries.append(self.ternary())
        return tuple(entries)


def _literal(kind: str, text: str) -> Any:
    if kind == "float":
        return float(text)
    if kind == "int":
        if len(text) > _DIGITS_MOST:
            raise CelSyntaxError(f"{text[:_DIGITS_MOST]}… is no 64-bit integer")
        unsigned = text[-1] in "uU"
        value = int(text.rstrip("uU"), 0 if "x" in text.lower() else 10)
        if unsigned and 0 <= value < 2 * _INT_MOST:
            return Unsigned(value)
        if unsigned or not -_INT_MOST <= value < _INT_MOST:
            raise CelSyntaxError(f"{text} is no 64-bit integer")
        return value
    prefix = text[: min(text.index(quote) for quote in "\"'" if quote in text)]
    body = text[len(prefix) :]
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes]
    if "b" in prefix.lower():
        raise CelSyntaxError("bytes are not supported")
    return body if "r" in prefix.lower() else _ESCAPE.sub(_unescaped, body)


def _unescaped(match: re.Match[str]) -> str:
    body = match[1]
    if body in _ESCAPES:
        return _ESCAPES[body]
    if body in _PLAIN_ESCAPES:
        return body
    if body[0] in "uUxX" and len(body) > 1:
        code = int(body[1:], 16)
    elif body.isdigit() and len(body) == 3:
        code = int(body, 8)
    else:
        raise CelSyntaxError(f"unknown escape \\{body}")
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise CelSyntaxError(f"\\{body} is no character")
    return chr(code)
