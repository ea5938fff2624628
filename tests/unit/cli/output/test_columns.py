"""Tables in terminals of any width."""

from weir.cli.output.columns import Column, table
from weir.cli.output.terminal import Screen

Row = tuple[str, str]
PROBLEM = "workload.image: a template needs an image that the cluster can pull; write one"


def columns(*, wraps: bool) -> tuple[Column[Row], ...]:
    last: Column[Row] = Column("PROBLEM", lambda row: row[1], least=24, sentence=True, wraps=wraps)
    name: Column[Row] = Column("NAME", lambda row: row[0])
    return name, last


def test_a_column_that_wraps_is_never_cut() -> None:
    rows = [("train", PROBLEM), ("eval", "")]
    lines = table(rows, columns(wraps=True), Screen(40, 24, colour=False))
    assert max(map(len, lines)) <= 40
    assert lines[0].startswith("NAME")
    assert lines[1].startswith("train  workload.image:")
    assert lines[2].startswith("       ")
    assert lines[-1] == "eval"
    assert " ".join(" ".join(lines[1:-1]).split()) == f"train {PROBLEM}"


def test_another_sentence_is_cut_to_one_line() -> None:
    lines = table([("train", PROBLEM)], columns(wraps=False), Screen(40, 24, colour=False))
    assert len(lines) == 2
    assert len(lines[1]) <= 40


def test_a_program_gets_a_column_that_wraps_in_one_line() -> None:
    lines = table([("train", PROBLEM)], columns(wraps=True), Screen(None, None, colour=False))
    assert lines[1] == f"train  {PROBLEM}"
