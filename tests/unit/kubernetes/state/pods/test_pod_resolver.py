"""Resolution of single pods, and of pods again when something changes."""

import msgspec
from tests.unit.kubernetes.small_world import KINDS, job, pod
from tests.unit.kubernetes.written import claim, storage_class, volume

from weir.kubernetes.api.decoding import read_object
from weir.kubernetes.api.objects import ClaimVolume, KubePod, Metadata, Volume
from weir.kubernetes.api.volume_objects import CsiCount, CsiDriver, CsiNode, CsiNodeSpec
from weir.kubernetes.state.owners.index import not_served
from weir.kubernetes.state.pods.resolver import SPARE, PodResolver
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.requests import CLUSTER_LABEL
from weir.model.workloads import PodAffinityRule


def gathered(*pods: KubePod) -> PodResolver:
    found = PodResolver(KINDS, DeviceResources())
    for each in pods:
        found.see(f"team/{each.metadata.name}", each)
    return found


def test_a_pod_of_a_job_is_part_of_the_job() -> None:
    resolver = gathered(pod("train-0", owner=("train", "j1")))
    resolver.see_owner(job("train", "j1", 4, project="vision"))
    reading = resolver.read("team/train-0", bound=False)
    assert (reading.gang.kind, reading.gang.name, reading.gang.uid) == ("Job", "train", "j1")
    assert reading.derived.needed().min_pods == 4
    assert reading.annotations.project == "vision"
    assert reading.request.devices == 1
    assert reading.wait == ""


def test_a_claim_for_one_pod_at_a_time_keeps_pods_of_all_schedulers_apart() -> None:
    resolver = gathered(using(pod("ours"), "data"), using(pod("free"), "shared"))
    theirs = using(pod("theirs", scheduler="another"), "data")
    assert resolver.see_foreign("team/theirs", theirs) == ((), ())
    resolver.stale.clear()
    resolver.see_claim("team/data", claim("data", accessModes=["ReadWriteOncePod"]))
    resolver.see_claim("team/shared", claim("shared"))
    assert resolver.stale == {"team/ours", "team/free"}
    assert resolver.remarked == {"team/theirs"}
    ((mark,), _) = resolver.of_others("team/theirs")
    request = resolver.read("team/ours", bound=False).request
    assert request.marks == (mark,)
    assert request.pod_rules == (PodAffinityRule("anti_affinity", mark, CLUSTER_LABEL),)
    assert resolver.read("team/free", bound=False).request.marks == ()
    resolver.forget_marks("team/theirs")
    resolver.see_claim("team/data", None)
    assert resolver.remarked == set()


def test_a_node_without_volume_drivers_limits_no_volumes() -> None:
    """A kubelet writes null for an empty list here."""
    node = read_object(msgspec.Raw(b'{"metadata": {"name": "n1"}, "spec": {"drivers": null}}'), CsiNode)
    assert gathered(pod("ours")).see_drivers("n1", node) == {}


def test_volumes_count_on_a_node_whose_driver_limits_them() -> None:
    resolver = gathered(using(pod("ours"), "data"), using(pod("free"), "other"))
    resolver.see_foreign("team/theirs", using(pod("theirs", scheduler="another"), "data"))
    resolver.see_claim("team/data", claim("data", volume="pv", phase="Bound"))
    resolver.see_claim("team/other", claim("other", cls="made"))
    resolver.see_volume("pv", volume("pv", csi={"driver": "disk"}))
    resolver.see_storage_class("made", storage_class("made", provisioner="net"))
    assert resolver.read("team/ours", bound=False).request.further == ()
    resolver.stale.clear()
    resolver.remarked.clear()
    assert resolver.see_drivers("n1", drivers(disk=2, net=None)) == {"attached-volumes/disk": 2}
    assert resolver.stale == {"team/ours", "team/free"}
    assert resolver.remarked == {"team/theirs"}
    assert resolver.read("team/ours", bound=False).request.further == (("attached-volumes/disk", 1),)
    assert resolver.read("team/free", bound=False).request.further == ()
    assert resolver.of_others("team/theirs") == ((), (("attached-volumes/disk", 1),))
    resolver.see_drivers("n2", drivers(net=3))
    assert resolver.read("team/free", bound=False).request.further == (("attached-volumes/net", 1),)
    resolver.see_drivers("n1", None)
    assert resolver.read("team/ours", bound=False).request.further == ()


def drivers(**counts: int | None) -> CsiNode:
    each = [CsiDriver(name, CsiCount(count)) for name, count in counts.items()]
    return CsiNode(Metadata("n1"), CsiNodeSpec(each))


def using(it: KubePod, name: str) -> KubePod:
    it.spec.volumes = [Volume(name, ClaimVolume(name))]
    return it


def test_an_owner_that_is_not_there_is_waited_for_also_where_its_kind_cannot_be_read() -> None:
    resolver = gathered(pod("train-0", owner=("train", "j1")))
    assert resolver.read("team/train-0", bound=False).wait == "Its Job train isn't there."
    assert resolver.read("team/train-0", bound=True).wait == ""
    resolver.stale.clear()
    resolver.set_unreadable({("batch", "Job"): not_served(["batch/v1"], "Job")})
    assert resolver.stale == {"team/train-0"}
    reading = resolver.read("team/train-0", bound=False)
    why = "the API server doesn't have the kind Job of batch/v1"
    assert reading.wait == f"Its Job train can't be read: {why}."
    assert resolver.owners.awaited() == {("batch/v1", "Job")}
    resolver.see_owner(job("train", "j1", 4))
    assert resolver.read("team/train-0", bound=False).wait == ""
    assert resolver.owners.awaited() == set()


def test_what_changes_above_is_read_again_below() -> None:
    resolver = gathered(*(pod(f"train-{at}", owner=("train", "j1")) for at in range(3)), pod("alone"))
    for key in sorted(resolver.stale):
        resolver.read(key, bound=False)
    resolver.stale.clear()
    resolver.see_owner(job("train", "j1", 3))
    assert resolver.stale == {"team/train-0", "team/train-1", "team/train-2"}
    for key in sorted(resolver.stale):
        resolver.read(key, bound=False)
    resolver.stale.clear()
    resolver.see_owner(job("other", "j2", 3))
    assert not resolver.stale
    resolver.forget("team/train-0")
    resolver.forget_owner("j1")
    assert resolver.stale == {"team/train-1", "team/train-2"}


def test_pods_of_one_template_share_what_they_ask_for() -> None:
    resolver = gathered(*(pod(f"train-{at}", owner=("train", "j1")) for at in range(2)))
    resolver.see_owner(job("train", "j1", 2))
    one, two = (resolver.read(f"team/train-{at}", bound=False) for at in range(2))
    assert one.request is two.request
    assert one.annotations is two.annotations
    assert one.derived is two.derived


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    resolver = gathered()
    for at in range(3 * SPARE // 2):
        made = pod(f"p-{at}", labels={"number": f"n{at}"})
        resolver.see(f"team/p-{at}", made)
        resolver.forget(f"team/p-{at}")
    assert len(resolver._interned._texts) <= SPARE + 10
    assert not resolver._pods
    assert not resolver.stale


def test_mistakes_are_sentences() -> None:
    wrong = pod("train-0")
    wrong.metadata.annotations["weir.dev/gpu-fraction"] = "2.5"
    wait = gathered(wrong).read("team/train-0", bound=False).wait
    assert wait.endswith(".")
    assert "nvidia.com/gpu: 2" in wait
