"""What single pods come to, and what is read again when something changes."""

from tests.unit.kubernetes.written import claim, storage_class, volume

from weir.kubernetes.api.objects import (
    ClaimVolume,
    CsiCount,
    CsiDriver,
    CsiNode,
    CsiNodeSpec,
    Metadata,
    Pod,
    Volume,
)
from weir.kubernetes.picture.gathering import SPARE, Gathering
from weir.kubernetes.picture.owners import not_served
from weir.kubernetes.reading.requests import CLUSTER_LABEL, Devices
from weir.model.workloads import PodRule

from .small_world import KINDS, job, pod


def gathered(*pods: Pod) -> Gathering:
    found = Gathering(KINDS, Devices())
    for each in pods:
        found.see(f"team/{each.metadata.name}", each)
    return found


def test_a_pod_of_a_job_is_part_of_the_job() -> None:
    gathering = gathered(pod("train-0", owner=("train", "j1")))
    gathering.see_owner(job("train", "j1", 4, project="vision"))
    reading = gathering.read("team/train-0", bound=False)
    assert (reading.gang.kind, reading.gang.name, reading.gang.uid) == ("Job", "train", "j1")
    assert reading.derived.needed().min_pods == 4
    assert reading.said.project == "vision"
    assert reading.request.devices == 1
    assert reading.wait == ""


def test_a_claim_that_one_pod_at_a_time_may_use_keeps_its_users_apart_whoever_places_them() -> None:
    gathering = gathered(using(pod("ours"), "data"), using(pod("free"), "shared"))
    theirs = using(pod("theirs", scheduler="another"), "data")
    assert gathering.see_foreign("team/theirs", theirs) == ((), ())
    gathering.stale.clear()
    gathering.see_claim("team", "data", claim("data", accessModes=["ReadWriteOncePod"]))
    gathering.see_claim("team", "shared", claim("shared"))
    assert gathering.stale == {"team/ours", "team/free"}
    assert gathering.remarked == {"team/theirs"}
    ((mark,), _) = gathering.of_others("team/theirs")
    request = gathering.read("team/ours", bound=False).request
    assert request.marks == (mark,)
    assert request.pod_rules == (PodRule("anti_affinity", mark, CLUSTER_LABEL),)
    assert gathering.read("team/free", bound=False).request.marks == ()
    gathering.forget_marks("team/theirs")
    gathering.see_claim("team", "data", None)
    assert gathering.remarked == set()


def test_volumes_take_of_a_node_where_their_driver_takes_only_so_many() -> None:
    gathering = gathered(using(pod("ours"), "data"), using(pod("free"), "other"))
    gathering.see_foreign("team/theirs", using(pod("theirs", scheduler="another"), "data"))
    gathering.see_claim("team", "data", claim("data", volume="pv", phase="Bound"))
    gathering.see_claim("team", "other", claim("other", cls="made"))
    gathering.see_volume("pv", volume("pv", csi={"driver": "disk"}))
    gathering.see_storage_class("made", storage_class("made", provisioner="net"))
    assert gathering.read("team/ours", bound=False).request.further == ()
    gathering.stale.clear()
    gathering.remarked.clear()
    assert gathering.see_drivers("n1", drivers(disk=2, net=None)) == {"attached-volumes/disk": 2}
    assert gathering.stale == {"team/ours", "team/free"}
    assert gathering.remarked == {"team/theirs"}
    assert gathering.read("team/ours", bound=False).request.further == (("attached-volumes/disk", 1),)
    assert gathering.read("team/free", bound=False).request.further == ()
    assert gathering.of_others("team/theirs") == ((), (("attached-volumes/disk", 1),))
    gathering.see_drivers("n2", drivers(net=3))
    assert gathering.read("team/free", bound=False).request.further == (("attached-volumes/net", 1),)
    gathering.see_drivers("n1", None)
    assert gathering.read("team/ours", bound=False).request.further == ()


def drivers(**counts: int | None) -> CsiNode:
    each = [CsiDriver(name, CsiCount(count)) for name, count in counts.items()]
    return CsiNode(Metadata("n1"), CsiNodeSpec(each))


def using(it: Pod, name: str) -> Pod:
    it.spec.volumes = [Volume(name, ClaimVolume(name))]
    return it


def test_an_owner_that_is_not_there_is_waited_for_also_where_its_kind_cannot_be_read() -> None:
    gathering = gathered(pod("train-0", owner=("train", "j1")))
    assert gathering.read("team/train-0", bound=False).wait == "Its Job train isn't there."
    assert gathering.read("team/train-0", bound=True).wait == ""
    gathering.stale.clear()
    gathering.set_unreadable({("batch/v1", "Job"): not_served("batch/v1", "Job")})
    assert gathering.stale == {"team/train-0"}
    reading = gathering.read("team/train-0", bound=False)
    why = "the API server doesn't have the kind Job of batch/v1"
    assert reading.wait == f"Its Job train can't be read: {why}."
    assert gathering.owners.awaited() == {("batch/v1", "Job")}
    gathering.see_owner(job("train", "j1", 4))
    assert gathering.read("team/train-0", bound=False).wait == ""
    assert gathering.owners.awaited() == set()


def test_what_changes_above_is_read_again_below() -> None:
    gathering = gathered(*(pod(f"train-{at}", owner=("train", "j1")) for at in range(3)), pod("alone"))
    for key in sorted(gathering.stale):
        gathering.read(key, bound=False)
    gathering.stale.clear()
    gathering.see_owner(job("train", "j1", 3))
    assert gathering.stale == {"team/train-0", "team/train-1", "team/train-2"}
    for key in sorted(gathering.stale):
        gathering.read(key, bound=False)
    gathering.stale.clear()
    gathering.see_owner(job("other", "j2", 3))
    assert not gathering.stale
    gathering.forget("team/train-0")
    gathering.forget_owner("j1")
    assert gathering.stale == {"team/train-1", "team/train-2"}


def test_pods_of_one_template_share_what_they_ask_for() -> None:
    gathering = gathered(*(pod(f"train-{at}", owner=("train", "j1")) for at in range(2)))
    gathering.see_owner(job("train", "j1", 2))
    one, two = (gathering.read(f"team/train-{at}", bound=False) for at in range(2))
    assert one.request is two.request
    assert one.said is two.said
    assert one.derived is two.derived


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    gathering = gathered()
    for at in range(3 * SPARE // 2):
        made = pod(f"p-{at}", labels={"number": f"n{at}"})
        gathering.see(f"team/p-{at}", made)
        gathering.forget(f"team/p-{at}")
    assert len(gathering._words) <= SPARE + 10
    assert not gathering._pods
    assert not gathering.stale


def test_mistakes_are_sentences() -> None:
    wrong = pod("train-0")
    wrong.metadata.annotations["weir.dev/gpu-fraction"] = "2.5"
    wait = gathered(wrong).read("team/train-0", bound=False).wait
    assert wait.endswith(".")
    assert "nvidia.com/gpu: 2" in wait
