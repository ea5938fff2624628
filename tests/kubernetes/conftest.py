"""A real control plane for tests: one for each process that uses it, emptied after every test.

It is up in about 7 s on two cores (where its programs have to be built first, once, in about 9
minutes); emptying it takes 0.1 to 2 s. Where there are neither programs nor Go the tests are left
out, saying so, except in CI (CI=true) or with WEIR_KUBERNETES=required, where they fail.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.kubernetes.policy_site import Site, install_policies
from tools.controlplane.api import Api
from tools.controlplane.binaries import Binaries, NoBinaries, at_hand, find, must_run
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.proxy import FaultProxy
from tools.controlplane.weir import install_kinds
from tools.node.machine import is_skipped, obstacle
from tools.node.machine import must_run as node_must_run
from tools.node.programs import Programs
from tools.node.programs import are_at_hand as programs_at_hand
from tools.node.programs import find as find_programs


def pytest_itemcollected(item: pytest.Item) -> None:
    if "plane" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    if os.environ.get("WEIR_KUBERNETES") == "skip":
        pytest.skip("LEFT OUT: THE TESTS AGAINST A REAL KUBERNETES. WEIR_KUBERNETES=skip says so.")
    captured = pytestconfig.pluginmanager.getplugin("capturemanager")
    aloud = nullcontext() if captured is None or at_hand() else captured.global_and_fixture_disabled()
    try:
        with aloud:
            return find()
    except NoBinaries as why:
        if must_run():
            pytest.fail(f"THE TESTS AGAINST KUBERNETES HAVE TO RUN HERE. {why}", pytrace=False)
        pytest.skip(f"LEFT OUT: THE TESTS AGAINST A REAL KUBERNETES. {why}")


@pytest.fixture(scope="package")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """The control plane of this process, until it goes on to other tests; most tests want `cluster`."""
    os.environ.setdefault("GOGC", "800")  # its programs may take more memory, to take less time
    os.environ.setdefault("GOMEMLIMIT", "1GiB")  # and collect as usual from here on
    with ControlPlane(binaries) as running:
        running.grant_all("weir")
        yield running


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    """The control plane, empty; emptied again afterwards."""
    here = Cluster(plane)
    yield here
    here.empty()


@pytest.fixture
def weir_kubeconfig(plane: ControlPlane) -> Path:
    """Return the kubeconfig of a user with all rights but no exemption from queueing, unlike the administrator."""
    return plane.kubeconfig_for("weir")


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[FaultProxy]:
    """A front of the API server for that user, without faults at first."""
    with FaultProxy(plane, user="weir") as running:
        yield running


@pytest.fixture
def act_as(plane: ControlPlane) -> Iterator[Callable[..., Api]]:
    """Return clients of other users."""
    clients: list[Api] = []

    def client(user: str, *groups: str) -> Api:
        pair = plane.authority.client(user, ["system:authenticated", *groups])
        clients.append(Api(plane.url, plane.authority.certificate, pair))
        return clients[-1]

    yield client
    for each in clients:
        each.close()


@pytest.fixture(scope="module")
def policy_home(plane: ControlPlane) -> Iterator[str]:
    """The namespace of an installation of the policies, without any Weir, for all tests of a file."""
    here = Cluster(plane)
    install_kinds(here.api)
    yield install_policies(here)
    here.empty()


@pytest.fixture
def site(plane: ControlPlane, policy_home: str, act_as: Callable[..., Api]) -> Iterator[Site]:
    """The installation of the policies, and a tenant."""
    here = Cluster(plane)
    yield Site(here, act_as, policy_home)
    here.empty(policies=False)


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Programs:
    if is_skipped():
        pytest.skip(
            "LEFT OUT: THE TESTS ON A REAL NODE. WEIR_REAL_NODE=skip or WEIR_KUBERNETES=skip says so."
        )
    why = obstacle()
    captured = pytestconfig.pluginmanager.getplugin("capturemanager")
    aloud = (
        nullcontext()
        if captured is None or why or programs_at_hand()
        else captured.global_and_fixture_disabled()
    )
    if not why:
        try:
            with aloud:
                return find_programs()
        except NoBinaries as lacks:
            why = str(lacks)
    if node_must_run():
        pytest.fail(f"THE TESTS ON A REAL NODE HAVE TO RUN HERE. {why}", pytrace=False)
    pytest.skip(f"LEFT OUT: THE TESTS ON A REAL NODE. {why}")
