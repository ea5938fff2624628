"""Tables of hyper-parameter sweeps."""

from sqlalchemy import Boolean, Column, Double, Index, Integer, String, Table, Text

from weir.store.tables import NUMBER, metadata

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("name", String, nullable=False, unique=True),
    Column("project", String, nullable=False),
    Column("user", String, nullable=False),
    Column("state", String, nullable=False),
    Column("spec", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created_s", Double, nullable=False),
    Column("ended_s", Double),
    Column("sentence", Text, nullable=False),
    sqlite_autoincrement=True,
)

sweep_trials = Table(
    "sweep_trials",
    metadata,
    Column("sweep", NUMBER, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("uid", NUMBER, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("params", Text, nullable=False),
    Column("state_of_sampler", Text, nullable=False),
    Column("target", Integer, nullable=False),
    Column("parked", Boolean, nullable=False),
)

sweep_results = Table(
    "sweep_results",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("sweep", NUMBER, nullable=False),
    Column("number", Integer, nullable=False),
    Column("rung", Integer, nullable=False),
    Column("step", NUMBER, nullable=False),
    Column("value", Double),
    Column("at_s", Double, nullable=False),
    Column("promoted_among", Integer),
    sqlite_autoincrement=True,
)
Index(
    "sweep_results_of_trial",
    *(sweep_results.c[name] for name in ("sweep", "number", "rung")),
    unique=True,
)
