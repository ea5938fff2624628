"""Filters of lists with several words between commas."""

import pytest
from tests.unit.client.fake import row

from weir.api.comma_lists import comma_words, user_words
from weir.api.workload_list import WorkloadRow
from weir.cli.workloads.list_filter import ListFilter
from weir.kubernetes.query.workloads.index import params_query

DISTINGUISHED = "uid=ada,ou=people"


@pytest.mark.parametrize("text", [None, "", " ", ",", " , "])
def test_an_empty_filter_has_no_words(text: str | None) -> None:
    assert comma_words(text) == user_words(text) == ()


def test_words_are_named_once() -> None:
    assert comma_words("a, b,,a") == ("a", "b")


def test_a_user_whose_name_has_a_comma_is_found() -> None:
    """Certificates and directories give such names, and --me sends the name as it is."""
    assert DISTINGUISHED in params_query({"user": DISTINGUISHED}, "").users
    shown = WorkloadRow.model_validate(row(user=DISTINGUISHED))
    assert ListFilter(user=DISTINGUISHED).holds(shown)
    assert not ListFilter(user="uid=bo,ou=people").holds(shown)
