"""Functions of device selectors: what they give, and that nothing they do takes long or escapes as another error.

The values are those of the API server, which tests/kubernetes/test_selector_expressions.py asks for them.
"""

import pytest
from tests.unit.kubernetes.claims.cel.selector_expressions import ERRORS, REFUSED, VALUES, shown

from weir.kubernetes.claims.cel.evaluator import STEPS_MAX, Selector, StepMeter
from weir.kubernetes.claims.cel.functions import FUNCTION_NAMES, METHOD_NAMES
from weir.kubernetes.claims.cel.literals import CelSyntaxError
from weir.kubernetes.claims.cel.values import CelError


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.mark.parametrize(("expression", "value"), VALUES.items())
def test_an_expression_has_the_value_of_kubernetes(expression: str, value: str) -> None:
    assert Selector(f"{shown(expression)} == {literal(value)}").matches({})


@pytest.mark.parametrize("expression", ERRORS)
def test_an_expression_without_a_value_for_kubernetes_has_an_error(expression: str) -> None:
    with pytest.raises(CelError):
        Selector(f"{shown(expression)} == ''").matches({})


@pytest.mark.parametrize("expression", REFUSED)
def test_an_expression_that_kubernetes_refuses_has_no_value(expression: str) -> None:
    with pytest.raises((CelError, CelSyntaxError)):
        Selector(f"{shown(expression)} == ''").matches({})


def test_the_table_calls_every_function_and_method() -> None:
    text = " ".join((*VALUES, *ERRORS))
    names = {name for name in FUNCTION_NAMES | METHOD_NAMES if f"{name}(" not in text}
    assert names == {"includes"}, "only selectors of devices have it"


def test_only_the_first_items_of_a_list_are_included() -> None:
    assert Selector(
        "lists.range(49).includes(47) && !lists.range(48).includes(48) && dyn(1).includes(1)"
    ).matches({})
    with pytest.raises(CelError, match="at most 48"):
        Selector("lists.range(49).includes(48)").matches({})


def test_an_alternative_is_evaluated_only_without_a_value() -> None:
    assert Selector("optional.of(1).orValue(1 / 0) == 1").matches({})
    with pytest.raises(CelError, match="zero"):
        Selector("optional.none().orValue(1 / 0) == 1").matches({})


def test_a_variable_may_have_the_name_of_a_group_of_functions() -> None:
    assert Selector("[ip('::1')].all(ip, ip.isLoopback()) && [{'IP': 1}].all(net, net.IP == 1)").matches({})


def test_patterns_that_split_characters_are_refused() -> None:
    with pytest.raises(CelError, match="not supported"):
        Selector(r"'é'.matches('\\C')").matches({})
    assert Selector(r"'\\C'.matches('^\\\\C$')").matches({})


LONG = "a" * 4000


def bound(text: str) -> str:
    """Return an expression with `long` of 4,000 characters, and `longer` of 80,000."""
    return f"cel.bind(long, '{LONG}', cel.bind(longer, {'+'.join(['long'] * 20)}, {text}))"


LISTS = "cel.bind(a, ['x','x','x','x','x','x','x','x','x','x'], "
for inner, outer in ("ab", "bc", "cd", "de"):
    LISTS += f"cel.bind({outer}, [{','.join([inner] * 10)}], "


def nested(text: str) -> str:
    """Return an expression with `e`, a list of lists with 100,000 items."""
    return f"{LISTS}{text}{')' * 5}"


def repeated(text: str, count: int = 9000) -> str:
    return f"lists.range({count}).exists(i, {text})"


@pytest.mark.parametrize(
    "expression",
    [
        *(bound("longer.lastIndexOf('ab' + long) == 1"), bound("longer.contains(long + 'b')")),
        *(bound("longer.split('b' + long).size() == 0"), bound("longer.replace('', 'a') == ''")),
        *(bound("longer.findAll('a').size() == 1"), bound("long.findAll('a*b|a').size() == 1")),
        *(bound("longer.matches('(a|b)*a(a|b){900}c')"), bound("long.matches('([a-t]?){900}X')")),
        repeated(r"'a'.matches('" + r"\\pL" * 190 + "' + string(i))"),
        repeated(r"'a'.matches('\\pL{1000}' + string(i))"),
        repeated("'a'.matches('.{0,1000}' + string(i))"),
        repeated("'a'.matches('(?i)" + "[\u0400-\u04ff]" * 90 + "' + string(i))"),
        repeated("'a'.matches('" + "(" * 300 + "a" + ")*" * 300 + "' + string(i))"),
        repeated("'a'.matches('(' + string(i))"),
        *(
            nested("'%s'.format([e]) == ''"),
            nested("e.flatten(9) == []"),
            nested("[e, e].map(x, '%s'.format([x])) == []"),
        ),
        nested("[e, a].sortBy(x, x.flatten(9).size()) == []"),
        *(repeated("'%.99999f'.format([1.5]) == ''"), repeated("'%.3000f'.format([1.5]) == ''")),
        bound(f"{'strings.quote(' * 20}long{')' * 20} == ''"),
        *(
            "lists.range(3000).distinct() == []",
            "lists.range(1000000000000) == []",
            "lists.range(60000) == []",
        ),
        repeated("lists.range(1000).size() == 0"),
        f"cel.bind(m, {'lists.range(9000).transformMap(i, v, v)'}, {repeated('m == {}')})",
        repeated("{0: 1}.transformMapEntry(k, v, {string(v) + string(k): lists.range(99)}).size() == 0"),
        f"cel.bind(u, url('/?{'a=b&' * 2000}'), {repeated('u.getQuery().size() == 0')})",
        repeated(f"url('/{'%41' * 3000}').getEscapedPath() == ''"),
        repeated(f"isIP('1:2:3:4:5:6:7:{'f' * 8000}')"),
        repeated(f"isIP('fe80::1%{'f' * 8000}')"),
        repeated("cidr('10.0.0.0/8').containsIP('11.0.0.1')"),
        repeated(f"!format.dns1123Subdomain().validate('{'a.' * 4000}').hasValue()"),
        repeated(f"!format.dns1123Label().validate('{'a-' * 4000}').hasValue()"),
        repeated(f"!format.byte().validate('{'a' * 7999}').hasValue()"),
        repeated(f"!format.datetime().validate('{'t' * 8000}').hasValue()"),
        repeated("duration('1h1m1s1ms1us1ns') < duration('1s')"),
        repeated("timestamp(0).getFullYear('Europe/' + string(i)) > 1"),
        repeated("quantity('1.5Gi').add(quantity('1')).compareTo(quantity('3')) < 0"),
        repeated("quantity('1e999999').compareTo(quantity('3')) > 5"),
        repeated("string(1.5e-300) == ''"),
        repeated(f"int('{'9' * 8000}') < 0"),
        repeated(f"semver('1.2.3-{'9.' * 120}a') == semver('1.0.0')"),
        bound(repeated("bytes(longer) == b''")),
    ],
)
def test_a_costly_call_ends(expression: str) -> None:
    meter = StepMeter()
    with pytest.raises(CelError, match=r"steps|too large|no |is invalid|twice"):
        Selector(expression).matches({}, meter)
    assert meter.steps <= 6 * STEPS_MAX, "the last charge is for what wasn't done"
