"""Policies for the person who made an object: they hold without the webhook, and while Weir is down."""

from tests.kubernetes.policy_site import Site, annotations, answer, binding
from tools.controlplane.api import Object
from tools.controlplane.work import job, pod

from weir.kubernetes.translate.annotations import USER

FREE = {"schedulerName": "none"}
OTHER = {USER: "mia"}


def _refusal(site: Site, end: str) -> str:
    return f"{USER} names the creator, and you are system:serviceaccount:{site.within}:default: {end}"


def test_no_tenant_makes_an_object_of_another_person(site: Site) -> None:
    refused = _refusal(site, "leave it out")
    (owner,) = site.cluster.api.create(_empty_map(site.within))
    of_map = {"apiVersion": "v1", "kind": "ConfigMap", "name": "own", "uid": owner["metadata"]["uid"]}
    for made in (
        pod(site.within, "a", 0, annotations=OTHER, **FREE),
        pod(site.within, "a", 0, labels=OTHER, **FREE),
        job(site.within, "a", 0, annotations=OTHER),
    ):
        assert site.refusal(made) == refused
        made["metadata"]["ownerReferences"] = [{**of_map, "controller": True}]
        assert site.refusal(made) == refused, "a controller may have made it, but didn't"
    assert answer(lambda: site.tenant.create(_schedule(site.within, "mia"))) == refused
    assert site.refusal(job(site.within, "own", 0, annotations={USER: _own(site)})) == ""


def test_no_tenant_changes_who_made_an_object(site: Site) -> None:
    refused = _refusal(site, "leave it as it is")
    site.cluster.add_nodes(1)
    site.tenant.create(pod(site.within, "a", 0, annotations={USER: _own(site)}))
    site.tenant.create(job(site.within, "j", 0, annotations={USER: _own(site)}))
    site.tenant.create(_schedule(site.within, _own(site)))
    jobs, schedules = (f"/apis/batch/v1/namespaces/{site.within}/{each}" for each in ("jobs", "cronjobs"))
    for path in (site.path("a"), site.path("a", "status"), f"{jobs}/j", f"{jobs}/j/status"):
        for person in ("mia", None):
            assert answer(lambda p=path, w=person: site.tenant.patch(p, annotations(user=w))) == refused
        assert answer(lambda p=path: site.tenant.patch(p, annotations(note="x"))) == ""
    template = {"spec": {"jobTemplate": annotations(user="mia")}}
    assert answer(lambda: site.tenant.patch(f"{schedules}/s", template)) == refused
    assert answer(lambda: site.tenant.patch(f"{schedules}/s", {"spec": {"suspend": True}})) == ""
    bound = binding("a", "n", annotations=OTHER)
    assert answer(lambda: site.tenant.post(site.path("a", "binding"), bound)) == _refusal(
        site, "leave it out"
    )


def test_what_a_controller_makes_of_a_template_passes(site: Site) -> None:
    made = _schedule(site.within, _own(site))
    made["spec"]["schedule"] = "* * * * *"
    site.tenant.create(made)
    controller = site.act_as("system:serviceaccount:kube-system:cronjob-controller", "system:masters")
    controller.create(job(site.within, "s-1", 0, annotations={USER: _own(site)}))
    controller.create(job(site.within, "s-2", 0, annotations=OTHER))
    path = f"/apis/batch/v1/namespaces/{site.within}/jobs/s-2"
    assert site.cluster.api.get(path)["metadata"]["annotations"][USER] == "mia"


def _own(site: Site) -> str:
    return f"system:serviceaccount:{site.within}:default"


def _empty_map(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "namespace": namespace}}


def _schedule(namespace: str, person: str) -> Object:
    template = job(namespace, "s", 0)
    template["metadata"] = {"annotations": {USER: person}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "s", "namespace": namespace},
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }
