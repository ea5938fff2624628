"""Queues of other schedulers become departments and projects, and each field of theirs is accounted for."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weir.cli.main import main
from weir.kubernetes.migrate import kai, kueue, runai
from weir.kubernetes.migrate.queue_objects import Conversion
from weir.kubernetes.translate.device_resources import DeviceResources

Objects = dict[str, dict[str, Any]]


def by_name(conversion: Conversion) -> Objects:
    return {f"{each['kind']} {each['metadata']['name']}": each["spec"] for each in conversion.objects}


def sentences(conversion: Conversion, outcome: str) -> str:
    return "\n".join(str(line) for line in conversion.ledger.lines if line.outcome == outcome)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "Queue", "metadata": {"name": name}, "spec": spec}


def bounds(quota: float, limit: float = -1, weight: float = 1) -> dict[str, float]:
    return {"quota": quota, "limit": limit, "overQuotaWeight": weight}


def test_kai_queues_become_a_tree_with_the_namespaces_of_their_pods() -> None:
    conversion = kai.convert(
        [
            {"kind": "PodGroup", "metadata": {"name": "a", "namespace": "n2"}, "spec": {"queue": "vision"}},
            {
                "kind": "Pod",
                "metadata": {"name": "b", "namespace": "n1", "labels": {"kai.scheduler/queue": "vision"}},
            },
            queue(
                "vision",
                parentQueue="labs",
                priority=120,
                preemptMinRuntime="5m",
                resources={
                    "gpu": bounds(8.5, 16, 2),
                    "cpu": bounds(4500, 4000),
                    "memory": bounds(1024 * 1.048576, 0.5),
                },
            ),
            queue("labs", parentQueue="all", resources={"gpu": bounds(-1)}),
            queue("all", displayName="All", resources={"gpu": bounds(32)}),
        ]
    )
    assert by_name(conversion) == {
        "Department all": {"quota": {"gpu": 32}, "weight": {"gpu": 1}},
        "Department labs": {"parent": "all", "quota": {"gpu": "unlimited"}, "weight": {"gpu": 1}},
        "Project vision": {
            "department": "labs",
            "quota": {"gpu": "8.5", "cpu": "4.5", "memory": "1Gi"},
            "limit": {"gpu": 16},
            "weight": {"gpu": 2, "cpu": 1, "memory": 1},
            "priority": 120,
            "namespaces": ["n1", "n2"],
        },
    }
    assert [*by_name(conversion)][:2] == ["Department all", "Department labs"], "parents come first"
    left_out = sentences(conversion, "left out")
    for part in ("displayName: All", "preemptMinRuntime: 5m", "cpu.limit: 4 of cpu is below", "memory.limit"):
        assert part in left_out


def test_kai_queue_without_pods_names_what_to_fill_in() -> None:
    conversion = kai.convert([queue("vision", parentQueue="gone", resources={"gpu": bounds(1)})])
    assert by_name(conversion) == {"Project vision": {"quota": {"gpu": 1}, "weight": {"gpu": 1}}}
    assert "fill in spec.namespaces" in sentences(conversion, "changed")
    assert "parentQueue: gone isn't in the input" in sentences(conversion, "left out")


def test_queues_of_another_scheduler_are_no_queues_of_kai() -> None:
    volcano = {"apiVersion": "scheduling.volcano.sh/v1beta1", **queue("vision", weight=2)}
    group = {
        **volcano,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "n"},
        "spec": {"queue": "mine"},
    }
    mine = {"apiVersion": "scheduling.run.ai/v2", **queue("mine", resources={"gpu": bounds(8)})}
    found = kai.convert([volcano, group, mine])
    assert list(by_name(found)) == ["Project mine"]
    assert "namespaces" not in by_name(found)["Project mine"]
    for name in ("Queue vision", "PodGroup g"):
        assert f"{name}: it is of scheduling.volcano.sh, not of KAI." in sentences(found, "left out")


def flavor(name: str, **resources: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"name": key.replace("gpu", "nvidia.com/gpu"), **value} for key, value in resources.items()]
    return {"name": name, "resources": listed}


def cluster_queue(name: str, flavors: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": {"resourceGroups": groups, **spec}}


def from_kueue(*things: dict[str, Any]) -> Conversion:
    return kueue.convert(things, DeviceResources())


def test_kueue_quotas_of_flavors_are_added_up_and_borrowing_is_the_limit() -> None:
    conversion = from_kueue(
        cluster_queue(
            "vision",
            [
                flavor("h100", gpu={"nominalQuota": 8, "borrowingLimit": "4"}, cpu={"nominalQuota": "500m"}),
                flavor("a100", gpu={"nominalQuota": "2", "borrowingLimit": 0, "lendingLimit": 1}),
            ],
            cohortName="labs",
            fairSharing={"weight": "2500m"},
            preemption={"reclaimWithinCohort": "Any"},
            queueingStrategy="BestEffortFIFO",
        ),
        {
            "kind": "LocalQueue",
            "metadata": {"name": "q", "namespace": "n1"},
            "spec": {"clusterQueue": "vision"},
        },
        {
            "kind": "Cohort",
            "metadata": {"name": "labs"},
            "spec": {
                "parentName": "all",
                "resourceGroups": [{"flavors": [flavor("h100", gpu={"nominalQuota": 64})]}],
            },
        },
        {"kind": "Cohort", "metadata": {"name": "all"}, "spec": {}},
        {"kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": {"nodeLabels": {"a": "b"}}},
    )
    assert by_name(conversion) == {
        "Department all": {},
        "Department labs": {"parent": "all", "quota": {"gpu": 64}},
        "Project vision": {
            "department": "labs",
            "namespaces": ["n1"],
            "quota": {"gpu": 10, "cpu": "0.5"},
            "limit": {"gpu": 14},
            "weight": {"gpu": "2.5", "cpu": "2.5"},
        },
    }
    assert "gpu of h100, a100 are added up" in sentences(conversion, "changed")
    for part in ("lendingLimit: 1", "preemption", "queueingStrategy", "ResourceFlavor h100"):
        assert part in sentences(conversion, "left out")


def test_kueue_queue_without_a_cohort_borrows_nothing() -> None:
    conversion = from_kueue(cluster_queue("alone", [flavor("f", gpu={"nominalQuota": 4})]))
    spec = by_name(conversion)["Project alone"]
    assert (spec["quota"], spec["limit"]) == ({"gpu": 4}, {"gpu": 4})


def test_kueue_ledger_names_a_limit_that_is_lost_and_no_default() -> None:
    flavors = [flavor("h100", gpu={"nominalQuota": 8, "borrowingLimit": 4}), flavor("spot", gpu={})]
    conversion = from_kueue(
        cluster_queue("vision", flavors, cohort="labs", stopPolicy="None"),
        cluster_queue("held", flavors, cohort="labs", stopPolicy="Hold"),
        {
            "kind": "LocalQueue",
            "metadata": {"name": "q", "namespace": "n1"},
            "spec": {"clusterQueue": "gone"},
        },
    )
    assert "limit" not in by_name(conversion)["Project vision"]
    assert "gpu has no limit: only h100 has a borrowingLimit" in sentences(conversion, "changed")
    left_out = sentences(conversion, "left out")
    assert "stopPolicy: None" not in left_out
    for part in ("ClusterQueue held: stopPolicy: Hold", "LocalQueue of n1: clusterQueue: gone isn't in"):
        assert part in left_out


def test_kueue_cohort_with_the_name_of_a_queue_gets_another_name() -> None:
    conversion = from_kueue(cluster_queue("labs", [flavor("f", gpu={"nominalQuota": 4})], cohort="labs"))
    assert by_name(conversion)["Project labs"]["department"] == "labs-cohort"
    assert "is named labs-cohort" in sentences(conversion, "changed")


def project(name: str, pools: Mapping[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    resources = [{"nodePool": {"id": 1, "name": pool}, **amounts} for pool, amounts in pools.items()]
    return {"kind": "Project", "name": name, "resources": resources, **more}


def test_runai_projects_of_several_node_pools() -> None:
    gpus = {"deserved": 4, "limit": 8, "overQuotaWeight": 2}
    conversion = runai.convert(
        [
            {"kind": "Department", "id": 7, "name": "labs", "resources": [], "createdAt": "2026-01-01"},
            project(
                "vision",
                {"default": {"gpu": gpus}, "h100": {"gpu": gpus, "memory": {"deserved": 1, "units": "GB"}}},
                parentId=7,
                defaultNodePools=["default"],
                schedulingRules={
                    "trainingJobTimeLimitSeconds": 3600,
                    "trainingJobMaxIdleDurationSeconds": 60,
                },
            ),
            project(
                "nlp",
                {"default": {"gpu": {"deserved": 1, "limit": -1}, "priority": "High"}},
                parent={"id": "9", "name": "others"},
                requestedNamespace="nlp",
                schedulingRules={"trainingJobTimeLimitSeconds": 60, "interactiveJobTimeLimitSeconds": 60},
            ),
        ]
    )
    assert by_name(conversion) == {
        "Department labs": {},
        "Project vision": {
            "department": "labs",
            "namespaces": ["runai-vision"],
            "quota": {"gpu": 8, "memory": "1G"},
            "limit": {"gpu": 16},
            "weight": {"gpu": 2},
        },
        "Project nlp": {
            "department": "others",
            "namespaces": ["nlp"],
            "quota": {"gpu": 1},
            "times": {"maxRuntime": "60s"},
        },
    }
    assert "default, h100 are added up" in sentences(conversion, "changed")
    for part in ("defaultNodePools", "3600: times.maxRuntime has one", "MaxIdle", "priority: High"):
        assert part in sentences(conversion, "left out")


@pytest.mark.parametrize("gpus", [0.1, 0.2, 0.8, 1.1, 0.001])
def test_fractions_of_gpus_are_those_that_were_written(gpus: float) -> None:
    amounts = {"quota": gpus, "limit": gpus, "overQuotaWeight": gpus}
    (queued,) = by_name(kai.convert([queue("vision", resources={"gpu": amounts})])).values()
    unit = project("vision", {"default": {"gpu": {"deserved": gpus, **amounts}}})
    (named,) = by_name(runai.convert([unit])).values()
    for spec in (queued, named):
        assert [spec[key]["gpu"] for key in ("quota", "limit", "weight")] == [str(gpus)] * 3


def test_sum_of_floats_is_the_amount_that_it_means() -> None:
    (spec,) = by_name(kai.convert([queue("vision", resources={"gpu": {"quota": 0.1 + 0.2}})])).values()
    assert spec["quota"]["gpu"] == "0.3"


def test_runai_idle_limit_of_all_types_is_that_of_the_project() -> None:
    def rules(name: str, **seconds: int) -> dict[str, Any]:
        keys = {f"{of}JobMaxIdleDurationSeconds": value for of, value in seconds.items()}
        return project(name, {}, schedulingRules=keys)

    conversion = runai.convert(
        [
            rules("same", interactive=3600, training=3600),
            rules("two", interactive=60, training=90),
            rules("none", interactive=0, training=0),
        ]
    )
    specs = by_name(conversion)
    assert specs["Project same"]["times"] == {"idleLimit": "3600s"}
    assert not [name for name in ("two", "none") if "times" in specs[f"Project {name}"]]
    left_out = sentences(conversion, "left out")
    assert left_out.count("times.idleLimit has one value for all types of work") == 2


def test_object_that_weir_refuses_is_named_and_the_others_are_converted() -> None:
    conversion = kai.convert(
        [
            queue("Not A Name\x1b[31m", resources={"gpu": bounds(1)}),
            queue("good", resources={"gpu": bounds(1)}),
            queue("huge", resources={"gpu": bounds(1e14)}),
        ]
    )
    assert [*by_name(conversion)] == ["Project good"]
    left_out = sentences(conversion, "left out")
    assert "Queue huge: the whole object" in left_out
    assert "\x1b" not in left_out


_KEYS = st.sampled_from(
    [
        "quota",
        "limit",
        "resources",
        "gpu",
        "name",
        "kind",
        "metadata",
        "spec",
        "parentQueue",
        "flavors",
        "resourceGroups",
        "cohort",
        "nominalQuota",
        "deserved",
        "parent",
        "schedulingRules",
        "other",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_CONVERTERS: tuple[Callable[[list[dict[str, Any]]], Conversion], ...] = (
    kai.convert,
    lambda things: from_kueue(*things),
    runai.convert,
)
_KINDS = ("Queue", "Pod", "PodGroup", "ClusterQueue", "Cohort", "LocalQueue", "Project", "Department")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"kind": st.sampled_from(_KINDS), "spec": _VALUES},
            optional={"metadata": _VALUES, "name": _VALUES, "resources": _VALUES, "parent": _VALUES},
        ),
        max_size=4,
    ),
    st.sampled_from(_CONVERTERS),
)
def test_any_input_is_converted_or_left_out_with_a_sentence(
    things: list[dict[str, Any]], convert: Callable[[list[dict[str, Any]]], Conversion]
) -> None:
    conversion = convert(things)
    assert all(str(line).isprintable() for line in conversion.ledger.lines)
    yaml.safe_dump(conversion.objects)


@given(st.dictionaries(st.sampled_from(["a", "b", "resources", "priority"]), _VALUES, max_size=4))
def test_no_field_of_a_queue_is_lost(spec: dict[str, Any]) -> None:
    """Each key with a value is in the object or in the ledger."""
    conversion = kai.convert([queue("vision", **spec)])
    text = json.dumps(conversion.objects, default=str) + "".join(map(str, conversion.ledger.lines))
    for key, value in spec.items():
        if key in ("a", "b") and value not in (None, "", [], {}):
            assert f" {key}: " in text


def test_command_reads_lists_documents_and_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "queues.yaml"
    many.write_text(
        "---\n# comment\nkind: Queue\nmetadata: {name: one}\nspec: {resources: {gpu: {quota: 1}}}\n"
        "--- # next\n"
        + json.dumps({"kind": "List", "items": [queue("two", resources={"gpu": bounds(2)})]})
        + "\n"
    )
    assert main(["import", "kai", str(many)]) == 0
    printed = capsys.readouterr()
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(printed.out)]
    assert names == ["one", "two"]
    assert "Queue two" in printed.err
    answers = tmp_path / "projects.json"
    answers.write_text(json.dumps({"projects": [{"name": "vision", "resources": []}]}))
    assert main(["import", "runai", str(answers)]) == 0
    assert "name: vision" in capsys.readouterr().out


def test_command_names_the_line_of_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "queues.yaml"
    wrong.write_text("kind: Queue\n---\nkind: Queue\nkind: Queue\n")
    assert main(["import", "kai", str(wrong)]) == 2
    assert "queues.yaml:4" in capsys.readouterr().err
    assert main(["import", "kueue", "--devices", "gpu", str(wrong)]) == 2
    assert "--devices" in capsys.readouterr().err


def test_command_says_that_the_input_holds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    assert main(["import", "runai", str(empty)]) == 1
    assert "the input holds no objects" in capsys.readouterr().err
    empty.write_text("kind: List\n")
    assert main(["import", "kai", str(empty)]) == 1
    assert "left out  List: " in capsys.readouterr().err
