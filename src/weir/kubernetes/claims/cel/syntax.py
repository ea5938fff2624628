"""Parser of CEL expressions: text to a tree, bounded in length and depth.

Weir evaluates device selectors itself. The Python libraries for CEL lack the optional fields, `cel.bind`,
quantities and semantic versions of Kubernetes' device expressions. None of them bounds the cost of an
evaluation. Users write these expressions, and one of them must not stop the scheduler.
"""

from dataclasses import dataclass
from typing import Any

from weir.kubernetes.claims.cel.literals import CelSyntaxError, literal, tokens_of
from weir.kubernetes.claims.cel.values import TYPES

DEPTH_MAX = 100
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_CONSTANTS = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "in", "let", "loop"),
        *("namespace", "package", "return", "var", "void", "while"),
    )
)
MACROS = {
    "all": (1, 2),
    "exists": (1, 2),
    "exists_one": (1, 2),
    "existsOne": (2,),
    "map": (1,),
    "filter": (1,),
    "sortBy": (1,),
    "transformList": (2,),
    "transformMap": (2,),
    "transformMapEntry": (2,),
}
"""Macros over the items of a list or a map, with the counts of variables that they take."""
_CONDITIONAL = frozenset(("map", "transformList", "transformMap", "transformMapEntry"))
"""Macros that may have a condition before their last argument."""


@dataclass(frozen=True, slots=True)
class Expr:
    """A node of the tree: its kind, its fixed parts and its operands."""

    kind: str
    value: Any = None
    operands: tuple["Expr", ...] = ()


def parse(text: str) -> Expr:
    """Return the tree of an expression.

    Raises:
        CelSyntaxError: the text is no expression, or too long or too deep.
    """
    parser = _CelParser(tokens_of(text))
    tree = parser.ternary()
    parser.expect_end()
    return tree


class _CelParser:
    """Recursive descent by the precedence of CEL's operators."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def expect_end(self) -> None:
        if self._position < len(self._tokens):
            raise CelSyntaxError(f"unexpected {self._tokens[self._position][1]!r}")

    def _peek(self) -> str:
        if self._position >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._position]
        return text if kind in ("sign", "name") else f"<{kind}>"

    def _take(self, *signs: str) -> str:
        sign = self._peek()
        if sign in signs:
            self._position += 1
            return sign
        return ""

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise CelSyntaxError(f"expected {sign!r}, found {self._peek() or 'the end'!r}")

    def ternary(self) -> Expr:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise CelSyntaxError(f"an expression is nested at most {DEPTH_MAX} deep")
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
            if depth > DEPTH_MAX:
                raise CelSyntaxError(f"an expression has at most {DEPTH_MAX} operands in a row")
            kind = {"||": "or", "&&": "and"}.get(sign, "binary")
            tree = Expr(kind, sign, (tree, self._binary(level + 1)))
        return tree

    def _unary(self) -> Expr:
        signs = []
        while sign := self._take("!", "-"):
            signs.append(sign)
        if len(signs) > DEPTH_MAX:
            raise CelSyntaxError(f"an expression is nested at most {DEPTH_MAX} deep")
        if signs and signs[-1] == "-" and self._peek() in ("<int>", "<float>"):
            signs.pop()
            kind, text = self._tokens[self._position]
            self._tokens[self._position] = (kind, f"-{text}")
        tree = self._member()
        for sign in reversed(signs):
            tree = Expr("not" if sign == "!" else "negate", None, (tree,))
        return tree

    def _member(self) -> Expr:
        tree = self._primary()
        length = 0
        while sign := self._take(".", "["):
            length += 1
            if length > DEPTH_MAX:
                raise CelSyntaxError(f"an expression has at most {DEPTH_MAX} fields in a row")
            optional = self._take("?")
            if sign == "[":
                index = self.ternary()
                self._expect("]")
                tree = Expr("optional_index" if optional else "index", None, (tree, index))
                continue
            name = self._name()
            if optional:
                tree = Expr("optional_index", None, (tree, Expr("constant", name)))
            elif self._take("("):
                tree = self._call(tree, name, self._list(")"))
            else:
                tree = Expr("select", name, (tree,))
                if (dotted := _dotted(tree)) in TYPES:
                    tree = Expr("type", dotted, (tree,))
        return tree

    def _call(self, target: Expr, name: str, arguments: tuple[Expr, ...]) -> Expr:
        for count in MACROS.get(name, ()):
            if len(arguments) == count + 1 or (name in _CONDITIONAL and len(arguments) == count + 2):
                variables = _variables(name, arguments[:count])
                return Expr("macro", (name, variables), (target, *arguments[count:]))
        if name in ("optMap", "optFlatMap") and len(arguments) == 2:
            (variable,) = _variables(name, arguments[:1])
            return Expr("optional_map", (name, variable), (target, arguments[1]))
        if target == _CEL and name == "bind" and len(arguments) == 3:
            (variable,) = _variables("cel.bind", arguments[:1])
            return Expr("bind", variable, arguments[1:])
        return Expr("method", name, (target, *arguments))

    def _name(self) -> str:
        kind, text = self._tokens[self._position] if self._position < len(self._tokens) else ("", "the end")
        if kind not in ("name", "quoted"):
            raise CelSyntaxError(f"expected a name, found {text!r}")
        self._position += 1
        return text.strip("`")

    def _list(self, end: str, *, optional: bool = False) -> tuple[Expr, ...]:
        """Return the items up to a closing sign; with `optional`, an item may start with a question mark."""
        items: list[Expr] = []
        while not self._take(end):
            if items:
                self._expect(",")
                if self._take(end):
                    break
            items.append(self._item(optional=optional))
        return tuple(items)

    def _item(self, *, optional: bool = True) -> Expr:
        if optional and self._take("?"):
            return Expr("if_present", None, (self.ternary(),))
        return self.ternary()

    def _primary(self) -> Expr:
        if self._take("("):
            tree = self.ternary()
            self._expect(")")
            return tree
        if self._take("["):
            return Expr("list", None, self._list("]", optional=True))
        if self._take("{"):
            return Expr("map", None, self._entries())
        self._take(".")
        if self._position >= len(self._tokens):
            raise CelSyntaxError("the expression ends early")
        kind, text = self._tokens[self._position]
        self._position += 1
        if kind == "name":
            return self._named(text)
        if kind in ("int", "float", "string"):
            return Expr("constant", literal(kind, text))
        raise CelSyntaxError(f"unexpected {text!r}")

    def _named(self, name: str) -> Expr:
        if name in _CONSTANTS:
            return Expr("constant", _CONSTANTS[name])
        if name in _RESERVED:
            raise CelSyntaxError(f"{name} is a reserved word")
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
            entries.append(self._item())
            self._expect(":")
            entries.append(self.ternary())
        return tuple(entries)


_CEL = Expr("variable", "cel")


def _dotted(tree: Expr) -> str:
    """Return the name with dots that fields of a variable look like; nothing for others."""
    if tree.kind == "variable":
        return str(tree.value)
    before = _dotted(tree.operands[0]) if tree.kind == "select" else ""
    return f"{before}.{tree.value}" if before else ""


def _variables(macro: str, arguments: tuple[Expr, ...]) -> tuple[str, ...]:
    """Return the names that a macro's first arguments declare."""
    names = tuple(argument.value for argument in arguments if argument.kind == "variable")
    if len(names) < len(arguments):
        raise CelSyntaxError(f"the first argument of {macro} must be a name")
    if len(set(names)) < len(names):
        raise CelSyntaxError(f"{macro} takes two different names")
    return names
