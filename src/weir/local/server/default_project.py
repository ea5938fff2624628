"""Project of a new pool, so that people can submit to it at once."""

from weir.control.clock import Clock
from weir.local.server.account_mode import AccountMode, PoolAccounts
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.store import MembershipRecord, Store

DEFAULT_PROJECT = "default"


def create_default_project(store: Store, node: Node, clock: Clock, accounts: PoolAccounts) -> None:
    """Create a project with all GPUs in a pool that has none. On a shared machine everyone is its member."""
    if store.queues():
        return
    everyone = MembershipRecord(DEFAULT_PROJECT, "everyone", "", "member")
    member = everyone if accounts.mode is AccountMode.UNIX_ACCOUNTS else None
    quota = {GPU: node.gpus * WHOLE_MILLI}
    store.set_queue(Queue(DEFAULT_PROJECT, quota=quota, created_s=clock()), member)
