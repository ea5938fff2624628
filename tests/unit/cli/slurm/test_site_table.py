"""Tables of names of a site."""

from pathlib import Path

import pytest

from weir.cli.slurm import site_table
from weir.cli.slurm.site_table import site_names
from weir.slurm.errors import SlurmError


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The administrator's table and the person's."""
    administrators, own = tmp_path / "etc.yaml", tmp_path / "own.yaml"
    monkeypatch.setattr(site_table, "ADMINISTRATORS", administrators)
    monkeypatch.setenv(site_table.VARIABLE, str(own))
    return administrators, own


def test_a_persons_table_goes_before_the_administrators(tables: tuple[Path, Path]) -> None:
    administrators, own = tables
    administrators.write_text("project: a\naccounts: {x: one, y: two}\nqos: {high: {priority: high}}\n")
    own.write_text("accounts: {x: mine}\npartitions: {gpu: {gpu_models: [A100]}}\n")
    names = site_names()
    assert (names.project, names.name("accounts", "x"), names.name("accounts", "y")) == ("a", "mine", "two")
    assert names.rule("partitions", "gpu") == {"gpu_models": ["A100"]}
    assert names.rule("qos", "high") == {"priority": "high"}
    assert names.rule("qos", "low") is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("partition: {gpu: {}}\n", "own.yaml:1"),
        ("partitions: {gpu: {gpus: 2}}\n", "gpus"),
        ("accounts: [a]\n", "accounts"),
        ("qos: {high: {priority: }}\n- x\n", "own.yaml"),
        ("just text\n", "no mapping"),
        ("partitions: {gpu: {max_runtime: soon}}\n", "duration"),
    ],
)
def test_a_mistake_in_a_table_is_named_with_its_line(text: str, hint: str, tables: tuple[Path, Path]) -> None:
    tables[1].write_text(text)
    with pytest.raises(SlurmError) as refusal:
        site_names()
    assert "own.yaml" in str(refusal.value)
    assert hint in str(refusal.value)


def test_a_named_table_has_to_be_there(tables: tuple[Path, Path]) -> None:
    with pytest.raises(SlurmError) as refusal:
        site_names()
    assert "own.yaml" in str(refusal.value)
