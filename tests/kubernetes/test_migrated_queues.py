"""The API server accepts converted queues, and those of the examples, and refuses no amount of them."""

from pathlib import Path

import pytest
import yaml
from tools.controlplane.cluster import Cluster
from tools.controlplane.weir import install_kinds

from weir.kubernetes.migrate import kai, kueue
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
    return kueue.convert(things, DeviceResources().names)


@pytest.mark.parametrize(("conversion", "objects"), [(from_kai(), 10), (from_kueue(), 6)])
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
