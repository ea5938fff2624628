"""Times from which the past of a namespace is its own."""

from math import inf

import msgspec

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import Namespace
from weir.kubernetes.query.workloads.namespace_ages import NamespaceAges


def made(name: str, at: str) -> ObjectSet[Namespace]:
    body = {"metadata": {"name": name, "uid": at, "creationTimestamp": at}}
    return ObjectSet(name, msgspec.convert(body, Namespace))


def test_a_namespace_that_is_made_again_begins_again() -> None:
    ages = NamespaceAges()
    ages.see([made("kube-system", "2026-01-01T00:00:00Z"), made("team", "2026-01-01T00:00:00Z")])
    assert ages.began_s("team") == 1_767_225_600
    ages.see([ObjectRemoved("team", "u")])
    assert ages.began_s("team") == inf, "the next one may be there, and not be known yet"
    ages.see([made("team", "2026-01-02T00:00:00Z")])
    assert ages.began_s("team") == 1_767_312_000


def test_all_namespaces_together_have_no_beginning() -> None:
    assert NamespaceAges().began_s("") == 0


def test_before_the_namespaces_are_known_no_past_is_shown() -> None:
    assert NamespaceAges().began_s("team") == inf
