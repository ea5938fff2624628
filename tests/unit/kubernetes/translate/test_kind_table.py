"""The table of kinds: an administrator's entries, what is watched and kept, and the mistakes of a table."""

import pytest
from tests.unit.kubernetes.translate.owner_objects import KINDS, derive, job, obj

from weir.kubernetes.translate.kinds import load_kinds
from weir.model.scenario import InvalidFile
from weir.model.workloads import WorkloadType

OWN = """
kinds:
- kind: Website
  api: example.com/v1
  resource: websites
  type: inference
  pods: [{count: spec.servers|2}]
- {kind: Job, api: batch/v1, resource: jobs, pods: [{count: 9}]}
"""


def test_an_administrators_entries_go_first():
    kinds = load_kinds(OWN, "own.yaml")
    website = obj("Website", "example.com/v1beta1", {"servers": 6})
    derived = derive(obj("Deployment", "apps/v1"), website, kinds=kinds)
    assert (derived.key.kind, derived.min_pods, derived.type) == ("Website", 6, WorkloadType.INFERENCE)
    assert derive(job(), kinds=kinds).min_pods == 9


def test_what_is_watched_names_every_version_once():
    watched = {each.resource: each.api_versions for each in KINDS.watched}
    assert watched["jobs"] == ("batch/v1",)
    assert watched["mpijobs"] == ("kubeflow.org/v2beta1", "kubeflow.org/v1")
    assert "pods" not in watched
    assert KINDS.knows("ray.io/v1alpha1", "RayCluster")
    assert not KINDS.knows("batch/v1", "CronJob")


def test_what_is_kept_of_an_object_is_what_is_read():
    whole = job(
        {"parallelism": 2, "template": {"spec": {"containers": []}}}, managedFields=[{"manager": "x"}]
    )
    kept = KINDS.narrow(whole)
    assert kept["spec"] == {"parallelism": 2}
    assert kept["metadata"] == {"name": "it", "uid": "uid-it"}
    assert KINDS.narrow(obj("Website", "example.com/v1", {"big": 1})) == {}


BROKEN = """
kinds:
- kind: A
  api: example.com/v1
  resource: as
  pods: [{count: "sum(spec.*"}]
- kind: B
  api: a/b/c
  resource: bs
  type: gaming
  gagn: owner
  pods: [{count: 1, each: spec.x}]
- {kind: C, api: example.com/v1, resource: cs, when: not this, gang: label, pods: [{role: head, count: 1, name: x}]}
"""


def test_all_mistakes_of_a_table_come_at_once_with_their_lines():
    with pytest.raises(InvalidFile) as refused:
        load_kinds(BROKEN, "own.yaml")
    reported = [str(each) for each in refused.value.mistakes]
    assert len(reported) == 6
    for line, text in [
        (6, "has a bracket that isn't closed; write one such as"),
        (8, "write GROUP/VERSION such as batch/v1"),
        (10, "'gaming' isn't known; write train, inference or build"),
        (11, "unknown key gagn; did you mean gang?"),
        (12, "'spec.x' is a single value; write a path to a list, such as spec.x.*"),
        (13, "is no condition; write one such as"),
    ]:
        assert any(each.startswith(f"own.yaml:{line}: ") and text in each for each in reported), (
            line,
            reported,
        )


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("gang: label, pods: [{count: 1}]", "write owner, pod or a label such as a.io/b"),
        ("pods: [{count: 1, role: head}]", "write the label that tells the role of a pod of C too"),
        ("pods: [{count: 1, name: x}]", "write role, or each and name"),
        ("role: x.io/r, pods: [{count: 1, role: h, each: spec.a.*}]", "write name instead of role"),
        ("pods: []", "pods, below or workload: false: write one of them"),
        ("pods: [{count: 1}], below: true", "pods, below or workload: false: write one of them"),
        ("pods: [{count: 1}], workload: false", "pods, below or workload: false: write one of them"),
        ("pods: [{count: true}]", "true is no expression; write a number"),
    ],
)
def test_contradicting_words_of_a_kind_are_reported(words, reported):
    with pytest.raises(InvalidFile, match=r"own\.yaml:1: ") as refused:
        load_kinds(f"kinds: [{{kind: C, api: x.io/v1, resource: cs, {words}}}]", "own.yaml")
    assert reported in str(refused.value)
