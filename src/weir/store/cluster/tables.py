"""Tables of facts that a cluster's API server forgets: stated workloads, their curves, and events for people.

The workloads are also rows of `workloads`, with their namespace. So reports are made of the same tables as
those of a machine.
"""

from sqlalchemy import Column, Double, Index, String, Table, Text

from weir.store.tables import NUMBER, metadata

cluster_workloads = Table(
    "cluster_workloads",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),  # number of the workload
    Column("namespace", String, nullable=False),
    Column("name", String, nullable=False),  # without the namespace
    Column("owner", String, nullable=False),  # name of the object that created its pods
    Column("why", String),  # code of its last reason while pending
    Column("evicted_s", Double),  # time of its last eviction
    Column("stated", Text, nullable=False),  # JSON of its details
)
Index("cluster_workloads_name", cluster_workloads.c.namespace, cluster_workloads.c.name)
Index("cluster_workloads_owner", cluster_workloads.c.owner)

cluster_series = Table(
    "cluster_series",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),  # number of the workload
    Column("series", Text, nullable=False),  # JSON of the curves of its reported values
)

cluster_events = Table(
    "cluster_events",
    metadata,
    Column("source", String, primary_key=True),  # uid of the Event, so that each is stored once
    Column("id", NUMBER, nullable=False),  # id in answers
    Column("at_s", Double, nullable=False),
    Column("kind", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("workload", String),
    Column("project", String),
    Column("pod", String),
    Column("sentence", Text, nullable=False),
    Column("numbers", Text, nullable=False),  # JSON
)
EVENT_COLUMNS = ("id", "at_s", "kind", "workload", "project", "pod", "sentence")
"""Columns with the unchanged fields of an event's row."""
Index("cluster_events_at", cluster_events.c.at_s, cluster_events.c.id)
Index("cluster_events_namespace", cluster_events.c.namespace, cluster_events.c.at_s)
Index("cluster_events_workload", cluster_events.c.workload, cluster_events.c.at_s)
