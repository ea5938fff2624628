"""Users of a cluster's stored work, as a migration names them."""

import json

import pytest
from sqlalchemy import Connection, CursorResult, create_engine, text

from weir.store.migrations.versions import v0018_namespaces as migration


def test_users_are_named_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "TOGETHER", 3)
    engine = create_engine("sqlite://")
    sizes: list[int] = []

    class Counting:
        """A connection that notes the sizes of the results that are read as a whole."""

        def __init__(self, connection: Connection) -> None:
            self._connection = connection

        def execute(self, *words: object) -> object:
            """Run a statement."""
            result: CursorResult[object] = self._connection.execute(*words)  # type: ignore[call-overload]
            if not result.returns_rows:
                return result
            frozen = result.freeze()
            sizes.append(len(frozen.data))
            return frozen()

    with engine.begin() as connection:
        connection.execute(text('CREATE TABLE workloads (uid INTEGER, "user" TEXT, namespace TEXT)'))
        connection.execute(text("CREATE TABLE cluster_workloads (uid INTEGER, namespace TEXT, stated TEXT)"))
        for uid in (9, 0, 4, 5, 1, 7, 8):
            stated = json.dumps({"row": {"user": f"person-{uid}"}})
            connection.execute(text("INSERT INTO workloads VALUES (:uid, 'ns', NULL)"), {"uid": uid})
            connection.execute(
                text("INSERT INTO cluster_workloads VALUES (:uid, 'ns', :stated)"),
                {"uid": uid, "stated": stated},
            )
        migration._name_users(Counting(connection))  # type: ignore[arg-type]
        found = connection.execute(text('SELECT uid, "user", namespace FROM workloads ORDER BY uid')).all()
    engine.dispose()
    assert [tuple(row) for row in found] == [(uid, f"person-{uid}", "ns") for uid in (0, 1, 4, 5, 7, 8, 9)]
    assert max(sizes) == 3
