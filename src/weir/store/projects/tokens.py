"""Tokens. The store keeps only their hashes: a reader of the database can't use any.

A token holds for existing projects: deleting one removes it from every token in the same transaction. So a
new project of that name begins without the rights of the old one.
"""

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from weir.store.database.codec import record_of
from weir.store.database.database import Database
from weir.store.errors import NoSuchQueue, NoSuchToken
from weir.store.records import TokenRecord, TokenRole
from weir.store.tables import queues, tokens

PREFIX = "weir_"
"""Prefix by which people and scanners recognise a leaked token."""
USED_EVERY_S = 60.0
"""Accuracy of a token's last use: further requests within this time change nothing."""
_SET_USED = update(tokens).where(tokens.c.id == bindparam("of_id")).values(used_s=bindparam("at_s"))


class TokenTable:
    """Tokens in a database, all kept in memory, since every request looks one up."""

    def __init__(self, database: Database) -> None:
        self._database = database
        rows = database.rows(select(tokens))
        self._by_hash = {row.sha256: _token_record(row) for row in rows}
        self._used: dict[int, float] = {}
        self.changing = Lock()
        """Lock of creating tokens and deleting projects: memory follows the order of the commits."""

    def make(
        self,
        user: str,
        role: TokenRole,
        projects: Sequence[str] = (),
        *,
        label: str = "",
        expires_s: float | None = None,
        now_s: float | None = None,
    ) -> tuple[TokenRecord, str]:
        """Make a token and return it with its text. The text is shown only now: the store keeps its SHA-256.

        Raises:
            NoSuchQueue: a project doesn't exist.
        """
        text, hashed = _new_text()
        values = {
            "user": user,
            "role": role,
            "projects": json.dumps(list(projects)),
            "created_s": time.time() if now_s is None else now_s,
            "label": label,
            "expires_s": expires_s,
        }

        def work(connection: Connection) -> Row[Any]:
            _check_projects(connection, projects)
            connection.execute(insert(tokens), {"sha256": hashed, **values})
            return connection.execute(select(tokens).where(tokens.c.sha256 == hashed)).one()

        with self.changing:
            token = _token_record(self._database.write(work).result())
            self._by_hash[hashed] = token
        return token, text

    def rotate(self, id_: int, expires_s: float | None, now_s: float) -> tuple[TokenRecord, str]:
        """Replace the secret text and the expiry of a token; the old text stops working at once.

        Raises NoSuchToken.
        """
        text, hashed = _new_text()
        values = {"sha256": hashed, "created_s": now_s, "expires_s": expires_s, "used_s": None}

        def work(connection: Connection) -> Row[Any]:
            which = tokens.c.id == id_
            if not connection.execute(update(tokens).where(which).values(values)).rowcount:
                raise NoSuchToken(f"There is no token {id_}; `weir token list` shows which there are.")
            return connection.execute(select(tokens).where(which)).one()

        with self.changing:
            token = _token_record(self._database.write(work).result())
            self._forget(id_)
            self._by_hash[hashed] = token
        self._used.pop(id_, None)
        return token, text

    def with_hash(self, hashed: str) -> TokenRecord | None:
        """Return the token whose text has this hash, expired or not, from memory; None if there is none."""
        return self._by_hash.get(hashed)

    def used(self, id_: int, at_s: float) -> None:
        """Record that a token is used; `write_uses` stores that, at most once a minute for each token.

        The time may be long before the last use: a clock that was ahead was set back.
        """
        if abs(at_s - self._used.get(id_, 0.0)) >= USED_EVERY_S:
            self._used[id_] = at_s

    def write_uses(self) -> None:
        """Write down soon when tokens were last used."""
        rows = self._by_hash.copy()
        changed = {}
        for hashed, token in rows.items():
            at_s = self._used.get(token.id)
            if at_s is not None and at_s != token.used_s:
                changed[token.id] = at_s
                if self._by_hash.get(hashed) is token:
                    self._by_hash[hashed] = replace(token, used_s=at_s)
        if changed:
            values = [{"of_id": id_, "at_s": at_s} for id_, at_s in changed.items()]
            self._database.write(lambda connection: _set_used(connection, values), durable=False)

    def all(self) -> tuple[TokenRecord, ...]:
        """Return all tokens, by number, with their last use."""
        rows = sorted(self._by_hash.copy().values(), key=lambda token: token.id)
        return tuple(replace(row, used_s=self._used.get(row.id, row.used_s)) for row in rows)

    def delete(self, id_: int) -> None:
        """Revoke a token. Raises NoSuchToken."""

        def work(connection: Connection) -> None:
            if connection.execute(select(tokens.c.id).where(tokens.c.id == id_)).first() is None:
                raise NoSuchToken(f"There is no token {id_}; `weir token list` shows which there are.")
            connection.execute(delete(tokens).where(tokens.c.id == id_))

        with self.changing:
            self._database.write(work).result()
            self._forget(id_)

    def project_deleted(self, project: str) -> tuple[TokenRecord, ...]:
        """Remove a deleted project from the tokens in memory; return the affected tokens."""
        changed = []
        for hashed, token in self._by_hash.copy().items():
            if project in token.projects:
                rest = tuple(other for other in token.projects if other != project)
                self._by_hash[hashed] = replace(token, projects=rest)
                changed.append(token)
        return tuple(sorted(changed, key=lambda token: token.id))

    def _forget(self, id_: int) -> None:
        for hashed, token in self._by_hash.copy().items():
            if token.id == id_:
                del self._by_hash[hashed]


def without_project(connection: Connection, project: str) -> None:
    """Remove a project from every token, in the transaction that deletes the project."""
    for id_, written in connection.execute(select(tokens.c.id, tokens.c.projects)).all():
        projects = json.loads(written)
        if project in projects:
            rest = json.dumps([other for other in projects if other != project])
            connection.execute(update(tokens).where(tokens.c.id == id_).values(projects=rest))


def _check_projects(connection: Connection, projects: Sequence[str]) -> None:
    """Refuse a project that was deleted meanwhile: a later project of its name would get the token."""
    existing = set(connection.execute(select(queues.c.name).where(queues.c.is_project)).scalars())
    for project in projects:
        if project not in existing:
            raise NoSuchQueue(f"There is no project {project}: make it, or name another.")


def _set_used(connection: Connection, values: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(_SET_USED, list(values))


def _new_text() -> tuple[str, str]:
    """Return the text of a new token, and its hash."""
    text = PREFIX + secrets.token_urlsafe(32)
    return text, token_hash(text)


def token_hash(text: str) -> str:
    """Return the hash by which the store knows a token."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _token_record(row: Row[Any]) -> TokenRecord:
    return record_of(TokenRecord, row, projects=tuple(json.loads(row.projects)))
