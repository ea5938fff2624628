"""Who may ask. Only the hash of a token is kept: whoever reads the database can't ask in its name."""

import json
import secrets
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, update

from weir.store.database import Database
from weir.store.failures import NoSuchToken
from weir.store.rows import TokenRow
from weir.store.tables import tokens

PREFIX = "weir_"
"""So that people and scanners recognise one that was left lying about."""
LENGTH_LEAST = 20

Role = Literal["admin", "member"]


class Tokens:
    """Tokens over a database, all of them in memory: every request asks for one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        rows = database.read(lambda connection: connection.execute(select(tokens)).all())
        self._by_hash = {row.sha256: _of(row) for row in rows}

    def make(self, user: str, role: Role, projects: Sequence[str], text: str | None) -> tuple[TokenRow, str]:
        """A new token and its text."""
        text = PREFIX + secrets.token_urlsafe(32) if text is None else text
        if len(text) < LENGTH_LEAST:
            raise ValueError(f"A token has at least {LENGTH_LEAST} characters.")
        hashed = _hash(text)
        values = {
            "user": user,
            "role": role,
            "projects": json.dumps(list(projects)),
            "created_s": time.time(),
        }

        def work(connection: Connection) -> Row[Any]:
            of_hash = tokens.c.sha256 == hashed
            changed = connection.execute(update(tokens).where(of_hash).values(values))
            if not changed.rowcount:
                connection.execute(insert(tokens), {"sha256": hashed, **values})
            return connection.execute(select(tokens).where(of_hash)).one()

        token = _of(self._database.write(work).result())
        self._by_hash[hashed] = token
        return token, text

    def of(self, text: str) -> TokenRow | None:
        """Who asks with this text."""
        return self._by_hash.get(_hash(text))

    def all(self) -> tuple[TokenRow, ...]:
        """All tokens, by number."""
        return tuple(sorted(self._by_hash.copy().values(), key=lambda token: token.id))

    def delete(self, id_: int) -> None:
        """A token is no longer good."""

        def work(connection: Connection) -> None:
            if connection.execute(select(tokens.c.id).where(tokens.c.id == id_)).first() is None:
                raise NoSuchToken(f"There is no token {id_}.")
            connection.execute(delete(tokens).where(tokens.c.id == id_))

        self._database.write(work).result()
        for hashed, token in self._by_hash.copy().items():
            if token.id == id_:
                del self._by_hash[hashed]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _of(row: Row[Any]) -> TokenRow:
    return TokenRow(row.id, row.user, row.role, tuple(json.loads(row.projects)), row.created_s)
