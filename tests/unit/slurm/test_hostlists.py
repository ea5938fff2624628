"""Lists of hosts."""

import pytest

from weir.slurm.errors import SlurmError
from weir.slurm.hostlists import expand_hosts, fold_hosts


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("box", ["box"]),
        ("n[1-3],login", ["n1", "n2", "n3", "login"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a,b,a", ["a", "b", "a"]),
    ],
)
def test_a_list_expands(written: str, names: list[str]) -> None:
    assert expand_hosts(written) == names


def test_thousands_of_groups_expand() -> None:
    assert expand_hosts("n[7]" * 3000 + "[1-2]") == ["n7" * 3000 + "1", "n7" * 3000 + "2"]
    with pytest.raises(SlurmError, match="65536"):
        expand_hosts("n[1-2]" * 3000)


@pytest.mark.parametrize("written", ["n[1-", "n[3-1]", "n[a]", "n[1-999999999]", "r[1-300]n[1-300]"])
def test_a_wrong_list_is_refused(written: str) -> None:
    with pytest.raises(SlurmError):
        expand_hosts(written)


@pytest.mark.parametrize(
    ("names", "written"),
    [(["n1", "n2", "n3", "n5"], "n[1-3,5]"), (["n08", "n09", "login"], "n[08-09],login"), (["n4"], "n4")],
)
def test_names_fold(names: list[str], written: str) -> None:
    assert fold_hosts(names) == written
