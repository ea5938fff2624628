"""A changed project of a cluster: two people who change it at once lose nothing."""

import copy

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster, Object

from weir.cli.pool.connect import connect
from weir.client.errors import Refused

PROJECT = "/apis/weir.dev/v1alpha1/projects/vision"


@pytest.fixture
def project(fake_cluster: FakeCluster) -> Object:
    metadata = {"name": "vision", "uid": "p1", "generation": 3, "resourceVersion": "70"}
    found: Object = {"metadata": metadata, "spec": {"quota": {"gpu": 4}}}
    fake_cluster.add(PROJECT, found)
    return found


def change_meanwhile(project: Object, quota: int) -> None:
    project["spec"]["quota"] = {"gpu": quota}
    project["metadata"] |= {"generation": project["metadata"]["generation"] + 1, "resourceVersion": "71"}


def test_a_change_of_another_version_is_refused_and_changes_nothing(
    fake_cluster: FakeCluster, project: Object
) -> None:
    with connect() as pool:
        read = pool.project("vision")
        change_meanwhile(project, 6)
        with pytest.raises(Refused, match="was changed meanwhile") as refused:
            pool.set_project("vision", version=read.version, quota={"gpu": 2})
        assert refused.value.status == 409
        newer = pool.project("vision")
        assert (newer.quota, fake_cluster.written) == ({"gpu": 6.0}, [])
        assert pool.set_project("vision", version=newer.version, quota={"gpu": 2}).quota == {"gpu": 2.0}


def test_a_fraction_is_sent_as_it_is_meant(fake_cluster: FakeCluster, project: Object) -> None:
    with connect() as pool:
        pool.set_project("vision", quota={"gpu": 0.1 + 0.2, "cpu": 12345.678, "memory": 1 << 40})
    assert project["spec"]["quota"] == {"gpu": "0.3", "cpu": "12345.678", "memory": 1 << 40}


def test_a_new_status_meanwhile_is_no_other_version(fake_cluster: FakeCluster, project: Object) -> None:
    sent: list[str] = []

    def refuse_stale(method: str, _: str, body: Object) -> tuple[int, str] | None:
        sent.append(body["metadata"]["resourceVersion"])
        if method == "PATCH" and len(sent) == 1:  # the scheduler writes its status between read and change
            project["metadata"]["resourceVersion"] = "71"
            return 409, "the object has been modified"
        return None

    with connect() as pool:
        read = pool.project("vision")
        fake_cluster.refused = refuse_stale
        done = pool.set_project("vision", version=read.version, quota={"gpu": 2})
    assert (sent, done.quota) == (["70", "71"], {"gpu": 2.0})


def test_a_change_between_check_and_write_is_refused(fake_cluster: FakeCluster, project: Object) -> None:
    def change_first(_method: str, _path: str, _body: Object) -> tuple[int, str] | None:
        change_meanwhile(project, 6)
        return 409, "the object has been modified"

    with connect() as pool:
        read = pool.project("vision")
        fake_cluster.refused = change_first
        with pytest.raises(Refused, match="was changed meanwhile"):
            pool.set_project("vision", version=read.version, quota={"gpu": 2})
    assert fake_cluster.written == []


def test_a_project_that_is_there_is_not_made_again(fake_cluster: FakeCluster, project: Object) -> None:
    before = copy.deepcopy(project)
    with connect() as pool:
        with pytest.raises(Refused, match="There is a project vision already"):
            pool.set_project("vision", version="new", quota={"gpu": 2})
        read = pool.project("vision")
        del fake_cluster.objects[PROJECT]
        with pytest.raises(Refused, match="was deleted meanwhile"):
            pool.set_project("vision", version=read.version, quota={"gpu": 2})
    assert (project, fake_cluster.written) == (before, [])
