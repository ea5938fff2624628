"""Labels and annotations: their values, their precedence, and the messages on mistakes."""

import pytest

from weir.kubernetes.api.objects import Metadata, OwnerReference
from weir.kubernetes.translate.annotations import (
    FOREIGN,
    OURS,
    PREFIX,
    Annotations,
    not_there,
    read,
    read_one,
)
from weir.model.nodes import Topology
from weir.model.workloads import TopologyRequest, WorkloadType


def _on(labels=None, annotations=None, name="p"):
    return Metadata(name=name, labels=labels or {}, annotations=annotations or {})


def _said(**written):
    """Ours, with dashes for underscores."""
    return read_one(
        _on(annotations={PREFIX + key.replace("_", "-"): value for key, value in written.items()})
    )


@pytest.mark.parametrize(
    ("key", "value", "field", "means"),
    [
        ("project", "team-a", "project", "team-a"),
        ("type", "inference", "type", WorkloadType.INFERENCE),
        ("type", "Train", "type", WorkloadType.TRAIN),
        ("gpu-fraction", "0.5", "fraction_milli", 500),
        ("gpu-fraction", ".25", "fraction_milli", 250),
        ("gpu-fraction", "300m", "fraction_milli", 300),
        ("gpu-fraction", "1", "fraction_milli", 1000),
        ("gpu-fraction", "0.30000000000000004", "fraction_milli", 300),
        ("gpu-memory", "8Gi", "gpu_memory", 8 << 30),
        ("gpu-memory", "0.1Gi", "gpu_memory", 107_374_183),
        ("gpu-memory", "2000Mi", "gpu_memory", 2000 << 20),
        ("min-pods", "4", "min_pods", 4),
        ("preemptible", "true", "preemptible", True),
        ("preemptible", "False", "preemptible", False),
        ("max-runtime", "2h30m", "max_runtime_s", 9000.0),
        ("max-runtime", "90", "max_runtime_s", 90.0),
        ("topology", "net:required=rack", "topology", TopologyRequest("net", "rack")),
        ("topology", "net:preferred=rack", "topology", TopologyRequest("net", None, "rack")),
        (
            "topology",
            "net:required=block,preferred=rack",
            "topology",
            TopologyRequest("net", "block", "rack"),
        ),
        ("checkpointed-at", "1970-01-01T00:01:40Z", "checkpointed_s", 100.0),
        ("checkpointed-at", "1970-01-01T01:01:40+01:00", "checkpointed_s", 100.0),
        ("checkpointed-at", "1970-01-01T00:01:40", "checkpointed_s", 100.0),
        ("checkpointed-at", "100", "checkpointed_s", 100.0),
    ],
)
def test_every_key_is_read_from_labels_and_from_annotations(key, value, field, means):
    for where in (_on(labels={PREFIX + key: value}), _on(annotations={PREFIX + key: value})):
        answer, mistakes = read_one(where)
        assert mistakes == ()
        assert getattr(answer, field) == means


def test_every_key_reads_its_own_example():
    for key in (*OURS, *FOREIGN):
        assert key.read(key.example.strip('"')) is not None, key.name
        assert key.meaning.endswith(".")


@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("project", "", "is empty: write a name"),
        ("type", "gaming", "write train, build or inference"),
        ("gpu-fraction", "2", "write a fraction up to 1, or ask for whole devices in resources.limits"),
        ("gpu-fraction", "0", "write a fraction such as 0.5"),
        ("gpu-fraction", "half", "write one such as 0.5"),
        (
            "gpu-fraction",
            "0.33333",
            "'0.33333' is finer than 0.001, the smallest share of a device: write 0.333",
        ),
        ("gpu-memory", "2000000.5", "is not a whole number of bytes: write 2000000, or a unit, such as"),
        ("gpu-memory", "2000", "write the unit too"),
        ("gpu-memory", "-1Gi", "write an amount such as 8Gi"),
        ("gpu-memory", "lots", "write one such as 8Gi or 2000Mi"),
        ("min-pods", "0", "write a whole number from 1"),
        ("min-pods", "all", "write a whole number from 1"),
        ("min-pods", "²", "write a whole number from 1"),
        ("preemptible", "yes", 'neither "true" nor "false": write one'),
        ("max-runtime", "soon", "write one such as 90s"),
        ("max-runtime", "-5m", "write a duration such as 90s"),
        ("topology", "rack", "write NAME:required=LEVEL"),
        ("topology", "net:", "write NAME:required=LEVEL"),
        ("topology", "net:require=rack", "write NAME:required=LEVEL"),
        ("topology", "net:required=a,required=b", "write NAME:required=LEVEL"),
        ("checkpointed-at", "yesterday", "write one such as 2026-03-01T12:00:00Z"),
        ("project-name", "a", f"isn't known: did you mean {PREFIX}project?"),
        ("gpufraction", "0.5", f"isn't known: did you mean {PREFIX}gpu-fraction?"),
    ],
)
def test_a_mistake_names_the_key_and_says_what_to_write(key, value, reported):
    answer, mistakes = read_one(_on(annotations={PREFIX + key: value}))
    assert len(mistakes) == 1
    assert mistakes[0].startswith(PREFIX + key)
    assert reported in mistakes[0]
    assert answer == Annotations()


def test_all_mistakes_come_at_once():
    _, mistakes = _said(type="gaming", min_pods="x", nonsense="1")
    assert len(mistakes) == 3


@pytest.mark.parametrize(
    ("written", "field", "means"),
    [
        ({"kai.scheduler/queue": "a"}, "project", "a"),
        ({"runai/queue": "a"}, "project", "a"),
        ({"project": "a"}, "project", "a"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, "devices", 2),
        ({"gpu-memory": "2000"}, "gpu_memory", 2000 << 20),
        ({"gpu-memory": "4Gi"}, "gpu_memory", 4 << 30),
        ({"kai.scheduler/batch-min-member": "3"}, "min_pods", 3),
        ({"kai.scheduler/preemptibility": "non-preemptible"}, "preemptible", False),
        ({"kai.scheduler/preemptibility": "Preemptible"}, "preemptible", True),
        ({"priorityClassName": "build"}, "priority_class", "build"),
        (
            {"kai.scheduler/topology": "net", "kai.scheduler/topology-required-placement": "rack"},
            "topology",
            TopologyRequest("net", "rack"),
        ),
    ],
)
def test_the_words_of_others_are_understood(written, field, means):
    answer, mistakes = read_one(_on(labels=written))
    assert mistakes == ()
    assert getattr(answer, field) == means


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ({"kai.scheduler/preemptibility": "semi-preemptible"}, "write weir.dev/preemptible"),
        ({"kai.scheduler/topology": "net"}, "write kai.scheduler/topology-required-placement or"),
        ({"kai.scheduler/topology-preferred-placement": "rack"}, "write kai.scheduler/topology: NAME too"),
    ],
)
def test_annotations_of_other_schedulers_without_a_counterpart_are_reported(written, reported):
    _, mistakes = read_one(_on(annotations=written))
    assert len(mistakes) == 1
    assert reported in mistakes[0]


def test_our_word_holds_against_those_of_others():
    answer, mistakes = read_one(
        _on(
            labels={"kai.scheduler/queue": "b", "weir.dev/project": "a"},
            annotations={"gpu-fraction": "0.5", "weir.dev/gpu-memory": "8Gi"},
        )
    )
    assert mistakes == ()
    assert (answer.project, answer.project_from) == ("a", "weir.dev/project")
    assert (answer.fraction_milli, answer.gpu_memory) == (None, 8 << 30)


def test_the_bare_word_project_counts_least_and_says_where_it_is_from():
    answer, _ = read_one(_on(labels={"project": "website", "runai/queue": "a"}))
    assert (answer.project, answer.project_from) == ("a", "runai/queue")
    answer, _ = read_one(_on(labels={"project": "website"}))
    assert answer.project_from == "project"


def test_fraction_and_memory_are_two_words_for_one_thing():
    answer, mistakes = _said(gpu_fraction="0.5", gpu_memory="8Gi")
    assert "write one of them" in mistakes[0]
    assert answer.gpu_memory is None


def test_how_many_devices_needs_a_part_of_them():
    answer, mistakes = _said(gpu_devices="2")
    assert "goes with weir.dev/gpu-fraction or weir.dev/gpu-memory" in mistakes[0]
    assert answer.devices is None


def test_a_label_and_an_annotation_must_not_differ():
    _, mistakes = read_one(_on(labels={"weir.dev/project": "a"}, annotations={"weir.dev/project": "b"}))
    assert mistakes == ("weir.dev/project is 'a' as a label and 'b' as an annotation: write it once",)


def test_what_weir_writes_on_a_pod_is_no_mistake():
    assert read_one(_on(annotations={"weir.dev/gpus": "0,3", "weir.dev/start": "17"})) == (Annotations(), ())


def test_the_owner_says_what_the_work_is_and_the_pod_what_it_takes():
    pod = _on(
        annotations={"weir.dev/project": "pod", "weir.dev/gpu-fraction": "0.5", "weir.dev/type": "build"}
    )
    job = _on(
        annotations={"weir.dev/project": "job", "weir.dev/gpu-memory": "8Gi", "weir.dev/gpu-devices": "4"}
    )
    top = _on(annotations={"weir.dev/min-pods": "3"})
    answer, mistakes = read(pod, [job, top])
    assert mistakes == ()
    assert answer == Annotations(
        project="job",
        project_from="weir.dev/project",
        type=WorkloadType.BUILD,
        fraction_milli=500,
        min_pods=3,
    )


def test_a_template_of_pods_does_not_say_who_made_the_work():
    pod = _on(annotations={"weir.dev/user": "mia", "weir.dev/type": "build"})
    assert read(pod)[0].user == "mia"
    pod.owner_references.append(OwnerReference("apps/v1", "ReplicaSet", "r", "u-r", controller=True))
    assert (read(pod)[0].user, read(pod)[0].type) == (None, WorkloadType.BUILD)
    assert read(pod, [_on(), _on(annotations={"weir.dev/user": "eve"})])[0].user == "eve"


def test_a_mistake_inherited_from_the_owner_is_reported_once():
    wrong = {"weir.dev/type": "gaming"}
    _, mistakes = read(_on(annotations=wrong), [_on(annotations=wrong), _on(labels=wrong)])
    assert len(mistakes) == 1


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        (None, ()),
        (TopologyRequest("net", "block", "rack"), ()),
        (TopologyRequest("nte", "rack"), ("weir.dev/topology: there is no topology nte; did you mean net?",)),
        (
            TopologyRequest("net", "row", "rak"),
            (
                "weir.dev/topology: the topology net has no level row; write one of block, rack",
                "weir.dev/topology: the topology net has no level rak; did you mean rack?",
            ),
        ),
    ],
)
def test_an_unknown_topology_or_level_is_reported(asked, reported):
    assert not_there(asked, {"net": Topology("net", ("block", "rack"))}) == reported
