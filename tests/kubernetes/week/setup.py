"""Weir as installed, with its webhooks, policies and the stock kube-scheduler, for a week on a control plane."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.kubernetes.week.replicas import Replicas
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed

from weir.kubernetes.install.pods.deployment import PodOptions

HOME = "weir-system"


@contextmanager
def installed(cluster: Cluster) -> Iterator[Replicas]:
    """Install Weir, start one instance, and wait until it is ready."""
    plane = cluster.plane
    plane.start_scheduler()
    try:
        options = PodOptions(overcommit_grace="3s")
        with Installed(plane, namespace=HOME, name="week", pods=options) as weir:
            weir.wait_ready()
            replicas = Replicas(plane, weir)
            try:
                yield replicas
            finally:
                replicas.stop()
    finally:
        plane.kill("kube-scheduler")
