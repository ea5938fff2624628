"""The API server accepts converted queues, and those of the examples, and refuses no amount of them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.controlplane.cluster import Cluster
from tools.controlplane.weir import install_kinds

from weir.kubernetes.migrate import kai, kueue, runai
from weir.kubernetes.migrate.queue_objects import Conversion
from weir.kubernetes.translate.device_resources import DeviceResources

AMOUNTS = (
    {"quota": 0.001, "limit": -1},
    {"quota": -1},
    {"quota": 12345.678, "limit": 1e6, "overQuotaWeight": 0},
)


def from_kai() -> Conversion:
    """Return a parent, and a leaf for each combination of amounts."""
    things = [{"kind": "Queue", "metadata": {"name": "all"}, "spec": {"resources": {"gpu": {"quota": -1}}}}]
    for index, gpu in enumerate(AMOUNTS):
        for other, rest in enumerate(AMOUNTS):
            resources = {"gpu": gpu, "cpu": rest, "memory": rest}
            spec = {"parentQueue": "all", "priority": index, "resources": resources}
            things.append({"kind": "Queue", "metadata": {"name": f"leaf-{index}-{other}"}, "spec": spec})
            labels = {"namespace": f"team-{index}", "name": f"pod-{other}"}
            things.append(
                {"kind": "PodGroup", "metadata": labels, "spec": {"queue": f"leaf-{index}-{other}"}}
            )
    return kai.convert(things)


def from_kueue() -> Conversion:
    """Return a cohort in another, and a queue for each form of a quantity."""
    things = [{"kind": "Cohort", "metadata": {"name": "inner"}, "spec": {"parentName": "outer"}}]
    things.append({"kind": "Cohort", "metadata": {"name": "outer"}, "spec": {}})
    for index, amount in enumerate((1, "500m", "1k", "0.1", "3Gi")):
        resources = [{"name": name, "nominalQuota": amount} for name in ("nvidia.com/gpu", "cpu", "memory")]
        groups = [{"flavors": [{"name": "default", "resources": resources}]}]
        spec = {"cohortName": "inner", "resourceGroups": groups, "fairSharing": {"weight": amount}}
        things.append({"kind": "ClusterQueue", "metadata": {"name": f"queue-{index}"}, "spec": spec})
    return kueue.convert(things, DeviceResources())


def from_runai() -> Conversion:
    """Return a department, and a project of two node pools for each combination of amounts."""
    things: list[dict[str, Any]] = [{"kind": "Department", "id": 7, "name": "labs", "resources": []}]
    for index, gpu in enumerate(AMOUNTS):
        for other, rest in enumerate(AMOUNTS):
            words = {"gpu": gpu, "cpu": rest, "memory": {**rest, "units": ("GB", "MB", "Mib")[other]}}
            amounts = {name: _in_words_of_runai(each) for name, each in words.items()}
            pools = [{"nodePool": {"name": name}, **amounts} for name in ("default", "h100")]
            rules = {f"{kind}JobTimeLimitSeconds": 3600 * other for kind in ("interactive", "training")}
            unit = {"name": f"vision-{index}-{other}", "parentId": 7, "schedulingRules": rules}
            things.append({"kind": "Project", "resources": pools, **unit})
    return runai.convert(things)


def _in_words_of_runai(amounts: dict[str, Any]) -> dict[str, Any]:
    """Return the amounts of a queue of KAI, which calls the quota by another name."""
    return {"deserved" if key == "quota" else key: each for key, each in amounts.items()}


@pytest.mark.parametrize(
    ("conversion", "objects"),
    [(from_kai(), 10), (from_kueue(), 6), (from_runai(), 10)],
    ids=["kai", "kueue", "runai"],
)
def test_converted_queues_are_accepted(cluster: Cluster, conversion: Conversion, objects: int) -> None:
    install_kinds(cluster.api)
    assert len(conversion.objects) == objects
    cluster.api.apply(*conversion.objects)


@pytest.mark.parametrize("name", ["kubernetes/teams.yaml", "gitops/projects/*.yaml"])
def test_queues_and_settings_of_the_examples_are_accepted(cluster: Cluster, name: str) -> None:
    install_kinds(cluster.api)
    texts = [path.read_text() for path in (Path(__file__).parents[2] / "examples").glob(name)]
    found = [each for text in texts for each in yaml.safe_load_all(text) if each["kind"] != "Kustomization"]
    assert len(found) > 1
    cluster.plane.kubectl(
        "apply", "--server-side", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(found)
    )
