"""Tables of the database. `weir.store.records` explains their rows, `migrations` their history.

Times are seconds of the server's timeline (`weir.control.clock`): since the epoch, unless the wall clock
was set. Values that are only read back whole are JSON. The columns of a list are apart from the launch
specs. So rows that change often stay small, and a page of a list never reads an environment.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    and_,
    false,
    text,
)

LIVE = "live"
"""State of a workload that isn't over; the others are the words of `weir.state.events.End`."""
ARRAY = "array"
"""State of an array that isn't over. Its indices are workloads of their own."""
NOT_OVER = (LIVE, ARRAY)
SAMPLED = "sampled"
"""Name of the mark for the time up to which usage is stored."""
BEGAN = "began"
"""Name of the mark for the time from which a cluster's usage is stored."""
ENDED = "ended"
"""Kind of the event that is the end of a workload."""

MINUTE, HOUR, DAY = 60, 3600, 86400
MONTH = 30 * DAY
SPANS = (MINUTE, HOUR, DAY)
LONG_SPANS = (*SPANS, MONTH)
"""Spans of sums that reports of a year add up."""

metadata = MetaData()
NUMBER = BigInteger().with_variant(Integer, "sqlite")  # INTEGER of SQLite has 64 bits

pool = Table(
    "pool",
    metadata,
    Column("id", String, primary_key=True),
    Column("created_s", Double, nullable=False),
    Column("opened", NUMBER, nullable=False),
    Column("has_leftovers", Boolean, nullable=False),
)

queues = Table(
    "queues",
    metadata,
    Column("name", String, primary_key=True),
    Column("parent", String),
    Column("is_project", Boolean, nullable=False),
    Column("spec", Text, nullable=False),
)

workloads = Table(
    "workloads",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=True),
    Column("name", String, nullable=False),
    Column("project", String, nullable=False),
    Column("department", String),
    Column("user", String, nullable=False),
    Column("namespace", String),  # namespace of a cluster's workload
    Column("type", String, nullable=False),
    Column("state", String, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("preemptible", Boolean, nullable=False),
    Column("devices", Double, nullable=False),
    Column("pods", Integer, nullable=False),
    Column("submitted_s", Double, nullable=False),
    Column("started_s", Double),
    Column("ended_s", Double),
    Column("ran_s", Double, nullable=False),
    Column("wall_s", Double, nullable=False),
    Column("first_started_s", Double),
    Column("exit_code", Integer),
    Column("sentence", Text, nullable=False),
    Column("starts", Integer, nullable=False),
    Column("settled", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("retry_at_s", Double),
    Column("nomination", Text),
    Column("saved_s", Double),
    Column("held", Text),
    Column("idle", Text, nullable=False, server_default="{}"),
    Column("withdrawn_s", Double),
    Column("sweep", String),
    Column("array_uid", NUMBER),  # number of the array, on the array itself and its indices
    Column("array_index", Integer),
    Column("replaced", Boolean, nullable=False, server_default=false()),  # True: the index runs once more
    sqlite_autoincrement=True,  # numbers of deleted rows aren't reused
)
IS_ARRAY = and_(workloads.c.array_uid.is_not(None), workloads.c.array_index.is_(None))
"""Condition for arrays, which use nothing themselves."""
IS_INDEX = workloads.c.array_index.is_not(None)
Index(
    "workloads_live_name",
    workloads.c.name,
    unique=True,
    sqlite_where=text("state = 'live'"),
    postgresql_where=text("state = 'live'"),
)
Index("workloads_name", workloads.c.name, workloads.c.uid)
Index("workloads_state", workloads.c.state, workloads.c.uid)
Index("workloads_project", workloads.c.project, workloads.c.uid)
Index("workloads_ended", workloads.c.ended_s)
Index("workloads_started", workloads.c.first_started_s)
Index("workloads_submitted", workloads.c.submitted_s)
Index("workloads_user", workloads.c.user, workloads.c.uid)
IN_NAMESPACE = workloads.c.namespace.is_not(None)
"""Condition of the index below: a machine's workloads have no namespace."""
Index(
    "workloads_namespace",
    *(workloads.c.namespace, workloads.c.uid),
    sqlite_where=IN_NAMESPACE,
    postgresql_where=IN_NAMESPACE,
)
IN_ARRAY = text("array_uid IS NOT NULL")
"""Condition of the index below."""
Index(
    "workloads_array",
    *(workloads.c.array_uid, workloads.c.replaced, workloads.c.array_index, workloads.c.state),
    sqlite_where=IN_ARRAY,
    postgresql_where=IN_ARRAY,
)

submissions = Table(
    "submissions",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    Column("spec", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("directory", Text, nullable=False),
    Column("grace_s", Double, nullable=False),
    Column("asked", Text, nullable=False),
    Column("secrets", Text, nullable=False, server_default="{}"),
    Column("container", Text, nullable=False, server_default="{}"),
    Column("conditions", Text, nullable=False, server_default="{}"),
)

arrays = Table(
    "arrays",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    Column("written", Text, nullable=False),
    Column("only", Text, nullable=False),  # JSON of the indices that run, if not all
    Column("position", Integer, nullable=False),  # next index to queue
    Column("again", Text, nullable=False),  # JSON of the indices to queue once more before that
    Column("counts", Text, nullable=False),  # JSON of the numbers of indices by state, after its end
)

array_skips = Table(
    "array_skips",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    Column("array_index", Integer, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
"""Indices of arrays that were stopped before they were queued, while the array isn't over."""

schedules = Table(
    "schedules",
    metadata,
    Column("name", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("user", String, nullable=False),
    Column("owner", Text, nullable=False),  # JSON that identifies the person
    Column("cron", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("concurrency", String, nullable=False),
    Column("asked", Text, nullable=False),  # JSON of the submission
    Column("suspended", Boolean, nullable=False),
    Column("next_wall_s", Double),
    Column("last_wall_s", Double),
    Column("last", String),
    Column("said", Text, nullable=False),
    Column("runs", Text, nullable=False),  # JSON of the numbers of its last workloads
)

templates = Table(
    "templates",
    metadata,
    Column("project", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("user", String, nullable=False),
    Column("saved_wall_s", Double, nullable=False),
    Column("parameters", Text, nullable=False),  # JSON
    Column("workload", Text, nullable=False),  # JSON of the submission
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("user", String, nullable=False),
    Column("role", String, nullable=False),
    Column("projects", Text, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("label", String, nullable=False, server_default=""),
    Column("expires_s", Double),
    Column("used_s", Double),
    sqlite_autoincrement=True,
)

memberships = Table(
    "memberships",
    metadata,
    Column("scope", String, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("role", String, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("at_s", Double, nullable=False),
    Column("kind", String, nullable=False),
    Column("uid", NUMBER),
    Column("workload", String),
    Column("project", String),
    Column("pod", String),
    Column("sentence", Text, nullable=False),
    Column("numbers", Text, nullable=False),
)
Index(
    "events_one_end",
    events.c.uid,
    unique=True,
    sqlite_where=text("kind = 'ended'"),
    postgresql_where=text("kind = 'ended'"),
)
Index("events_uid", events.c.uid, events.c.id)
Index("events_project", events.c.project, events.c.id)
Index("events_kind", events.c.kind, events.c.id)
COUNTED_EVENTS = text("kind IN ('stopped', 'quota_met')")
"""Condition of the index below: SQLite uses the index for queries with these very words."""
Index(
    "events_counted",
    events.c.kind,
    events.c.at_s,
    sqlite_where=COUNTED_EVENTS,
    postgresql_where=COUNTED_EVENTS,
)


def _sums() -> list[Column[float]]:
    names = ("allocated_gpu_s", "seen_gpu_s", "used_gpu_s")
    return [Column(name, Double, nullable=False) for name in names]


STATE_SUMS = ("working_gpu_s", "starved_gpu_s", "parked_gpu_s", "left_gpu_s")
"""Sums of GPU time by the state of the workload that held the GPU, where it is known."""

uses = Table(
    "uses",
    metadata,
    Column("span_s", Integer, primary_key=True),
    Column("at_s", NUMBER, primary_key=True),
    Column("project", String, primary_key=True),
    Column("department", String, primary_key=True),
    Column("user", String, primary_key=True),
    Column("namespace", String, primary_key=True, server_default=""),
    Column("type", String, primary_key=True),
    Column("node", String, primary_key=True),
    *_sums(),
    Column("over_quota_gpu_s", Double, nullable=False),
    Column("waiting_s", Double, nullable=False),
    Column("preempted", Integer, nullable=False),
    *(Column(name, Double, nullable=False, server_default="0") for name in STATE_SUMS),
    sqlite_with_rowid=False,
)

pool_uses = Table(
    "pool_uses",
    metadata,
    Column("span_s", Integer, primary_key=True, autoincrement=False),
    Column("at_s", NUMBER, primary_key=True, autoincrement=False),
    *_sums(),
    Column("over_quota_gpu_s", Double, nullable=False),
    Column("waiting_s", Double, nullable=False),
    sqlite_with_rowid=False,
)

workload_uses = Table(
    "workload_uses",
    metadata,
    Column("uid", NUMBER, primary_key=True, autoincrement=False),
    Column("span_s", Integer, primary_key=True),
    Column("at_s", NUMBER, primary_key=True),
    Column("node", String, primary_key=True),
    *_sums(),
    Column("over_quota_gpu_s", Double, nullable=False),
    sqlite_with_rowid=False,
)
Index("workload_uses_at", workload_uses.c.span_s, workload_uses.c.at_s)

device_uses = Table(
    "device_uses",
    metadata,
    Column("node", String, primary_key=True),
    Column("device", Integer, primary_key=True),
    Column("span_s", Integer, primary_key=True),
    Column("at_s", NUMBER, primary_key=True),
    *_sums(),
    Column("memory_max", NUMBER, nullable=False),
    sqlite_with_rowid=False,
)
Index("device_uses_at", device_uses.c.span_s, device_uses.c.at_s)

workload_sums = Table(
    "workload_sums",
    metadata,
    Column("kind", String, primary_key=True),
    Column("span_s", Integer, primary_key=True),
    Column("at_s", NUMBER, primary_key=True),
    Column("key", String, primary_key=True),
    Column("ended", Integer, nullable=False),
    Column("submitted", Integer, nullable=False),
    Column("evicted", Integer, nullable=False),
    Column("lost_gpu_s", Double, nullable=False),
    Column("waits", LargeBinary, nullable=False),
    Column("reclaims", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

marks = Table(
    "marks",
    metadata,
    Column("name", String, primary_key=True),
    Column("at_s", Double, nullable=False),
)
