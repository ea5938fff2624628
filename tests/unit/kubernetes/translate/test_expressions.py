"""The little language of the table of kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.kubernetes.translate.expressions import kept_at, parse_amount, parse_condition, parse_path

SET = {
    "spec": {
        "replicas": 3,
        "none": None,
        "text": "7",
        "word": "many",
        "yes": True,
        "groups": [{"replicas": 2, "min": 1}, {"min": 4}, {"replicas": 5}],
        "roles": {"Worker": {"replicas": 4}, "Master": {"replicas": 1}},
        "mode": "Indexed",
        "suspend": False,
    },
    "status": {"conditions": [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("4", 4),
        ("spec.replicas", 3),
        ("spec.text", 7),
        ("spec.word", None),
        ("spec.yes", None),
        ("spec.none|2", 2),
        ("spec.nowhere", None),
        ("spec.nowhere|1", 1),
        ("spec.nowhere|spec.elsewhere|5", 5),
        ("spec.replicas + 2 * 3", 9),
        ("(spec.replicas + 2) * 3", 15),
        ("spec.replicas*2", 6),
        ("spec.nowhere + 1", None),
        ("spec.nowhere|0 + 1", 1),
        ("1 - spec.replicas", 0),
        ("spec.replicas - 1 - 1", 1),
        ("sum(spec.groups.*.replicas)", 7),
        ("sum(spec.groups.*.replicas|1)", 8),
        ("sum(spec.roles.*.replicas)", 5),
        ("sum(spec.nothing.*.replicas)", 0),
        ("min(spec.groups.*.replicas)", 2),
        ("max(spec.groups.*.min, spec.replicas)", 4),
        ("min(spec.replicas, spec.nowhere)", 3),
        ("min(spec.nowhere, spec.nothing.*)", None),
        ("min(spec.nowhere)|6", 6),
        ("sum(spec.groups.*.replicas|1) + 1", 9),
    ],
)
def test_a_number_is_read_off_the_object(text, means):
    assert parse_amount(text).read(SET) == means


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "breaks off"),
        ("spec.", "has '.', which means nothing here"),
        ("spec.a +", "breaks off"),
        ("spec.a b", "has 'b' where it should end"),
        ("(spec.a", "isn't closed"),
        ("sum(a", "isn't closed"),
        ("open(a)", "has '(' where it should end"),
        ("__import__('os')", "which means nothing here"),
        ("a * * b", "has '*' where a number or a path should be"),
        ("spec.a.*", "write sum(...), min(...) or max(...) around it"),
        ("spec.a.*|1", "write sum(...), min(...) or max(...) around it"),
        ("1 + spec.a.*", "calculates with several numbers at once"),
        ("a|b.*", "has several numbers behind |"),
        ("(" * 40 + "a" + ")" * 40, "brackets more than 16 deep"),
        ("a+" * 300 + "a", "is longer than 500 characters"),
    ],
)
def test_an_invalid_expression_is_refused_with_the_cause(text, reported):
    with pytest.raises(ValueError, match="write") as refused:
        parse_amount(text)
    assert reported in str(refused.value)


@given(st.text(max_size=40))
def test_nothing_written_breaks_the_reading(text):
    try:
        amount = parse_amount(text)
    except ValueError:
        return
    value = amount.read(SET)
    assert value is None or value >= 0


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("condition Complete", True),
        ("condition Failed", False),
        ("condition Other", False),
        ("spec.mode = Indexed", True),
        ("spec.mode=Other", False),
        ("spec.mode = Other or Indexed", True),
        ("spec.replicas = 3", True),
        ("spec.suspend", False),
        ("spec.roles", True),
        ("spec.nowhere", False),
        ("spec.nowhere = Indexed", False),
        ("spec.groups.*.replicas", True),
        ("spec.groups.*.nothing", False),
        ("spec.groups.*.replicas = 5", True),
    ],
)
def test_a_condition_holds_or_not(text, holds):
    assert parse_condition(text).holds(SET) is holds


@pytest.mark.parametrize(
    "text", ["", "condition A B", "spec.a ==", "spec.a = ", "a = b or", "not a", "a=b;c"]
)
def test_an_invalid_condition_is_refused_with_advice(text):
    with pytest.raises(ValueError, match="write one such as condition Complete"):
        parse_condition(text)


def test_an_object_is_cut_to_what_is_read():
    paths = [
        parse_path(text)
        for text in ("spec.groups.*.min", "spec.mode", "status.conditions.*.type", "spec.text.a")
    ]
    assert kept_at(paths).cut(SET) == {
        "spec": {"text": None, "groups": [{"min": 1}, {"min": 4}, {}], "mode": "Indexed"},
        "status": {"conditions": [{"type": "Complete"}, {"type": "Failed"}]},
    }
