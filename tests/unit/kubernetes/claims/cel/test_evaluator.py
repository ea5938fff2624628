"""Device selectors: CEL as Kubernetes extends it, and its bounds."""

import contextlib

import pytest

from weir.kubernetes.claims.cel.evaluator import STEPS_MAX, Selector, StepMeter, selector
from weir.kubernetes.claims.cel.functions import FUNCTION_NAMES, METHOD_NAMES
from weir.kubernetes.claims.cel.literals import CelSyntaxError
from weir.kubernetes.claims.cel.quantities import quantity_of
from weir.kubernetes.claims.cel.values import CelError, DefaultMap, semver_of

GPU = "gpu.example.com"
DEVICE = {
    "driver": GPU,
    "allowMultipleAllocations": False,
    "attributes": DefaultMap(
        {
            GPU: {
                "model": "A100",
                "index": 3,
                "healthy": True,
                "driverVersion": semver_of("1.2.3"),
                "links": ["a", "b"],
            }
        }
    ),
    "capacity": DefaultMap({GPU: {"memory": quantity_of("40Gi")}}),
}
ATTRIBUTES = f'device.attributes["{GPU}"]'
MEMORY = f'device.capacity["{GPU}"].memory'

TRUE = [
    f'device.driver == "{GPU}" && {ATTRIBUTES}.model == "A100"',
    f"has({ATTRIBUTES}.model) && !has({ATTRIBUTES}.missing)",
    '!has(device.attributes["other"].model)',
    f'"model" in {ATTRIBUTES} && !("x" in device.attributes["other"])',
    f"{ATTRIBUTES}.?missing.orValue(7) == 7 && {ATTRIBUTES}.?index.orValue(7) == 3",
    f'{ATTRIBUTES}[?"index"].hasValue() && !{ATTRIBUTES}.?gone.hasValue()',
    f"{ATTRIBUTES}.?index.optMap(i, i + 1).orValue(0) == 4",
    f"{MEMORY}.compareTo(quantity('40Gi')) == 0 && {MEMORY}.isGreaterThan(quantity('1G'))",
    f"quantity('1Gi').add({MEMORY}) == quantity('41Gi') && {MEMORY}.asInteger() == 40 * 1024 * 1024 * 1024",
    f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("1.2.0")) && {ATTRIBUTES}.driverVersion.major() == 1',
    'semver("1.0.0-rc.1").isLessThan(semver("1.0.0")) && semver("1.0.0-rc.2").compareTo(semver("1.0.0-rc.10")) == -1',
    f"cel.bind(a, {ATTRIBUTES}, a.model == 'A100' && a.healthy)",
    f'{ATTRIBUTES}.model.matches("^A[0-9]{{3}}$") && !{ATTRIBUTES}.model.matches("^a") && matches("xay", "a")',
    f'{ATTRIBUTES}.model.startsWith("A1") && {ATTRIBUTES}.model.endsWith("00") && {ATTRIBUTES}.model.contains("10")',
    f'{ATTRIBUTES}.model.lowerAscii() == "a100" && "a,b".split(",") == ["a", "b"] && "abc".substring(1) == "bc"',
    f'{ATTRIBUTES}.links.exists(l, l == "b") && {ATTRIBUTES}.links.includes("a") && {ATTRIBUTES}.model.includes("A100")',
    "[1, 2, 3].all(x, x > 0) && [1, 2].exists_one(x, x == 1) && [1, 2].map(x, x * 2) == [2, 4]",
    "[1, 2, 3].filter(x, x > 1).size() == 2 && [1, 2, 3].map(x, x > 1, x + 1) == [3, 4] && [1, 5].sum() == 6",
    "{'a': 1}.all(k, k == 'a') && {'a': 1}['a'] == 1 && size({'a': 1}) == 1 && {'a': 1}.a == 1",
    "true || device.attributes['x'].y == 1",
    "!(device.attributes['x'].y == 1 && false)",
    "-7 / 2 == -3 && -7 % 2 == -1 && 7 / -2 == -3 && 1.5 + 1.5 == 3.0 && 2u + 1u == 3u && 1 == 1.0",
    "1 < 2 ? 'a' < 'b' : false",
    "int('12') == 12 && string(3) == '3' && double('1.5') == 1.5 && bool('true') && type(1) == int",
    "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 3]) && sets.equivalent([1, 2], [2, 1])",
    r'"a\n\x41\u0042\103" == "a\nABC" && r"\d" == "\\d" && """a"b""" == "a\"b"',
    "isQuantity('1Gi') && !isQuantity('x') && isSemver('1.0.0') && !isSemver('1.0')",
    "optional.none().orValue(true) && optional.of(1).value() == 1 // a comment",
    "1 != true && null == null && '1' != 1",
    "device.allowMultipleAllocations == false",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_selector_is_true(text: str) -> None:
    assert selector(text).matches(DEVICE) is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{ATTRIBUTES}.missing == 1", "no such key"),
        (f"{ATTRIBUTES}.model", "gives string"),
        (f"{ATTRIBUTES}.model > 1", "no order"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "overflow"),
        ("'a' + 1 == 'b'", "no such overload"),
        ("quantity('x') == quantity('1')", "no quantity"),
        ("'a'.matches('(')", "missing \\)"),
        ("'a'.startsWith(1)", "no such overload"),
        ("'a'.startsWith()", "arguments"),
        ("other == 1", "undeclared"),
        ("[1][5] == 1", "out of range"),
        ("device.attributes['x'].y == 1 && true", "no such key"),
    ],
)
def test_a_selector_without_a_value_says_why(text: str, why: str) -> None:
    with pytest.raises(CelError, match=why):
        Selector(text).matches(DEVICE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "(1",
        "a b",
        "'a",
        "§",
        "has(1)",
        "x.all(1, true)",
        "nothing(1)",
        "'a'.nothing()",
        "google.protobuf.Timestamp{seconds: 1} == timestamp(1)",
        "99999999999999999999 > 0",
        "(" * 200 + "1" + ")" * 200,
        "!" * 500 + "true",
        "[" * 150,
        "1" + " + 1" * 500,
        "a" + ".b" * 500,
        "true " * 5000,
        "1 == " + "1" * 5000,
        r"'\q'",
    ],
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(CelSyntaxError):
        Selector(text)


BIG = "[" + ",".join("1" * 1 for _ in range(90)) + "]"
COSTLY = [
    f"{BIG}.all(a, {BIG}.all(b, {BIG}.all(c, a + b + c > 0)))",
    "cel.bind(a, 'xxxxxxxxxx', cel.bind(b, a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b+b+b, cel.bind(d, c+c+c+c+c+c+c, cel.bind(e, d+d+d+d+d+d+d+d+d, d + e == 'a')))))",
    f"({BIG}+{BIG}+{BIG}+{BIG}+{BIG}).map(a, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').join('').matches('(a+)+(a+)+(a+)+b')",
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a|a)*(a|aa)+(a+a+)+$x')",
]

LETTERS = f"'{'0' * 4000}'.split('')"
COSTLY += [
    "cel.bind(a, [1,1,1,1,1,1,1,1,1,1], cel.bind(b, [a,a,a,a,a,a,a,a,a,a], cel.bind(c, [b,b,b,b,b,b,b,b,b,b], cel.bind(d, [c,c,c,c,c,c,c,c,c,c], cel.bind(e, [d,d,d,d,d,d,d,d,d,d], [e,e,e] != [e,e,e])))))",
    f"sets.contains({LETTERS}, {LETTERS.replace('0', '1')} + ['0'])",
    f"cel.bind(s, {LETTERS}, [s,s,s,s,s,s,s,s,s,s,s,s,s].all(x, x.indexOf('b') == -1 && x.max() == '0') && s.all(x, s.indexOf('b') == 0 || x.max() == 'b'))",
    f"{LETTERS}.exists(i, 'a'.matches('((a{{1000}}){{1000}}' + i))",
    f"{LETTERS}.exists(i, 'a'.matches('((a{{60}}){{60}})' + i))",
    f"'{'a' * 1000}'.matches('([abcdefghijklmnopqrst]?){{900}}X')",
]


@pytest.mark.parametrize("text", COSTLY)
def test_a_costly_selector_ends(text: str) -> None:
    try:
        assert not Selector(text).matches(DEVICE)
    except CelError as error:
        assert "steps" in str(error) or "too large" in str(error)


def test_an_error_within_the_steps_is_not_hidden_by_the_bound() -> None:
    with pytest.raises(CelError, match=str(STEPS_MAX)):
        Selector(f"{COSTLY[0]} || true").matches(DEVICE)


VALUES = (
    *(
        "1",
        "-1",
        "0",
        "18446744073709551615u",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "0.0/0.0",
    ),
    *(
        "''",
        "'a,b'",
        "'(?<'",
        "'x'.split('')",
        "[]",
        "[1]",
        "[[1], 'a', null]",
        "{}",
        "{1: [2]}",
        "null",
        "true",
    ),
    *("quantity('1E')", "semver('1.2.3-a.1')", "optional.of([1])", "optional.none()", "int", "device"),
    *(
        "device.attributes",
        "b'a'",
        "ip('::1')",
        "cidr('::/0')",
        "url('/?a')",
        "format.uuid()",
        "timestamp(0)",
    ),
)


@pytest.mark.parametrize("name", sorted(FUNCTION_NAMES | METHOD_NAMES))
def test_a_call_with_any_values_has_a_value_or_an_error_of_the_selector(name: str) -> None:
    for first in VALUES:
        for second in VALUES:
            for call in (f"{name}({first}, {second})", f"({first}).{name}({second}, {second})"):
                evaluate(call)
            evaluate(f"({first}).{name}({second})")
        evaluate(f"{name}({first})")
        evaluate(f"({first}).{name}()")


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "%", "<", "==", "in", "&&"])
def test_operators_on_any_values_have_a_value_or_an_error_of_the_selector(sign: str) -> None:
    for first in VALUES:
        for second in VALUES:
            evaluate(f"({first}) {sign} ({second})")
            evaluate(f"({first})[?({second})].hasValue() || ({first})[{second}]")


def evaluate(text: str) -> None:
    with contextlib.suppress(CelError, CelSyntaxError):
        Selector(text).matches(DEVICE)


def test_a_selector_that_is_nested_too_deep_for_its_evaluation_has_an_error() -> None:
    text = "true"
    for _ in range(5):
        text = "!" * 100 + f"({text})"
    with pytest.raises((CelError, CelSyntaxError), match="too deep"):
        Selector(text).matches(DEVICE)


def test_the_steps_of_evaluations_are_counted() -> None:
    meter = StepMeter()
    for text in ("1 + 1 == 2", COSTLY[0]):
        with contextlib.suppress(CelError):
            Selector(text).matches(DEVICE, meter)
    assert STEPS_MAX + 3 <= meter.steps <= STEPS_MAX + 10_000
