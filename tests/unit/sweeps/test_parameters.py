"""Search spaces: what is written becomes values in range, and reaches the command of a trial."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.sweeps.parameters import (
    SweepParameter,
    command_length_max,
    command_of_trial,
    grid_size,
    parse_parameter,
    variables,
)
from weir.sweeps.past_trials import PastTrial
from weir.sweeps.samplers import grid_point, random_point, suggest

SPACE = [
    parse_parameter("lr", "log:1e-5..1e-1"),
    parse_parameter("layers", "int:1..8"),
    parse_parameter("opt", "choice:adam,sgd"),
]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1..2", "is no range"),
        ("float", "has no values"),
        ("float:1", "is no range"),
        ("float:2..1", "write the smaller number first"),
        ("float:a..1", "is no number"),
        ("float:0..inf", "is no number"),
        ("int:0.5..2", "is no whole number"),
        ("log:0..1", "which isn't above 0"),
        ("log:1..2:0.5", "a step doesn't go with log"),
        ("float:0..1:0", "isn't above 0"),
        ("choice:a,,b", "has an empty choice"),
        ("choice:a,a", "names a choice twice"),
        ("int:0..1e300", "is too large for int"),
        ("int:-1e308..0", "is too large for int"),
        ("float:-1e308..1e308", "is too wide"),
        ("float:0..1e300:1e-300", "is too wide"),
        ("choice:a\0b,c", "has a zero byte"),
        (f"choice:a,{'[' * 60_000}", "is longer than 4,096 characters"),
    ],
)
def test_bad_range_is_refused_with_what_to_write(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_parameter("lr", text)


@pytest.mark.parametrize("word", ["9" * 4000, "[" * 4000, "1e999"])
def test_choice_that_is_no_number_of_any_use_is_a_word(word: str) -> None:
    assert parse_parameter("x", f"choice:{word},b").choices == (word, "b")


def test_grid_of_any_size_is_counted_without_its_values() -> None:
    """Its values would fill the memory long before it was refused."""
    with pytest.raises(ValueError, match=r"the grid has 1,000,000,000,001 points"):
        grid_size([parse_parameter("x", "float:0..1:1e-12")])


def test_length_of_a_command_is_known_before_any_is_made() -> None:
    """A short request could ask for more memory than a machine has."""
    space = [parse_parameter("x", f"choice:{'a' * 4096},b")]
    command = ["{x}" * 100_000]
    assert command_length_max(command, space, arguments=True) >= 4096 * 100_000
    for words, arguments in ((["a", "{x}/{x}/{y}"], True), (["a"], True), (["a"], False)):
        most = command_length_max(words, space, arguments=arguments)
        made = command_of_trial(words, space, {"x": "a" * 4096}, arguments=arguments)
        assert sum(map(len, made)) <= most


@pytest.mark.parametrize("name", ["", "1a", "a b", "a=b", "a{", "x" * 64])
def test_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        parse_parameter(name, "float:0..1")


@given(
    kind=st.sampled_from(["float", "log", "int", "logint"]),
    low=st.integers(1, 1000),
    width=st.integers(1, 1000),
    fraction=st.floats(0, 1, exclude_max=True),
)
def test_values_are_in_range(kind: str, low: int, width: int, fraction: float) -> None:
    value = parse_parameter("x", f"{kind}:{low}..{low + width}").value_at(fraction)
    assert isinstance(value, int if "int" in kind else float)
    assert low <= value <= low + width  # type: ignore[operator]


def test_each_whole_number_and_each_choice_is_as_likely() -> None:
    for parameter, values in (
        (parse_parameter("n", "int:1..4"), [1, 2, 3, 4]),
        (parse_parameter("c", "choice:a,b,3,true"), ["a", "b", 3, True]),
        (parse_parameter("s", "float:0..0.75:0.25"), [0.0, 0.25, 0.5, 0.75]),
        (parse_parameter("i", "int:2..8:2"), [2, 4, 6, 8]),
    ):
        assert [parameter.value_at((index + 0.5) / 4) for index in range(4)] == values
        assert list(parameter.points() or ()) == values


def test_placeholders_become_values_and_other_braces_stay() -> None:
    values = {"lr": 0.001, "layers": 3, "opt": "adam"}
    command = ["python", "-c", "print({x: {lr}})", "--o={opt}"]
    assert command_of_trial(command, SPACE, values, arguments=True) == [
        *("python", "-c", "print({x: 0.001})", "--o=adam")
    ]
    assert command_of_trial(["train"], SPACE, values, arguments=True) == [
        *("train", "--lr=0.001", "--layers=3", "--opt=adam")
    ]
    assert command_of_trial(["train"], SPACE, values, arguments=False) == ["train"]


def test_values_are_in_the_environment() -> None:
    space = [*SPACE, SweepParameter("weight-decay", SPACE[0].scale, 0.1, 1.0)]
    environment = variables(space, {"lr": 0.001, "layers": 3, "opt": "adam", "weight-decay": 0.5})
    assert environment["WEIR_PARAM_LR"] == "0.001"
    assert environment["WEIR_PARAM_WEIGHT_DECAY"] == "0.5"
    assert json.loads(environment["WEIR_PARAMS"]) == {
        "lr": 0.001,
        "layers": 3,
        "opt": "adam",
        "weight-decay": 0.5,
    }


def test_grid_has_each_point_once() -> None:
    space = [parse_parameter("a", "int:1..3"), parse_parameter("b", "choice:x,y")]
    assert grid_size(space) == 6
    points = [tuple(grid_point(space, 7, number).values()) for number in range(6)]
    assert sorted(points) == [(a, b) for a in (1, 2, 3) for b in "xy"]
    with pytest.raises(ValueError, match="write choice:1e-4,1e-3"):
        grid_size(SPACE)


def test_random_point_depends_on_seed_and_number_alone() -> None:
    assert random_point(SPACE, 1, 5) == random_point(SPACE, 1, 5)
    assert random_point(SPACE, 1, 5) != random_point(SPACE, 2, 5)


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_optuna_learns_from_the_records_and_the_same_records_give_the_same_parameters(sampler: str) -> None:
    """The loss is lowest at the upper end: the later half of the trials is nearer to it than chance is."""
    pytest.importorskip("optuna")
    space = [parse_parameter("x", "float:0..1"), parse_parameter("y", "float:0..1")]
    past: list[PastTrial] = []
    for number in range(40):
        suggested = suggest(sampler, space, 3, number, past)
        assert suggest(sampler, space, 3, number, past) == suggested
        x, y = (float(suggested.params[name]) for name in ("x", "y"))
        loss = 2.0 - x - y
        results = {1: loss, 3: loss - 0.1} if loss < 0.8 else {1: loss}
        past.append(PastTrial(suggested.params, results, state=suggested.state))
    later = [float(trial.params["x"]) + float(trial.params["y"]) for trial in past[20:]]
    assert sum(later) / len(later) > 1.2


def test_optuna_takes_trials_that_run_that_failed_and_that_diverged() -> None:
    pytest.importorskip("optuna")
    points = [random_point(SPACE, 0, number) for number in range(300)]
    past = [
        PastTrial(points[0], {}),
        PastTrial(points[1], {}, is_over=True),
        PastTrial(points[2], {1: float("inf")}),
        *(PastTrial(point, {1: 1.0, 3: 0.5}, is_complete=True) for point in points[3:]),
    ]
    params = suggest("tpe", SPACE, 0, len(past), past).params
    assert 1e-5 <= float(params["lr"]) <= 1e-1
    assert params["opt"] in ("adam", "sgd")
