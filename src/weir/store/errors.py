"""Refusals of the store, each with a sentence and the remedy."""

import errno

from weir.control import journal


class StoreFailed(journal.JournalFailed):
    """The store can't be written or read now. Nothing of the request is stored; a retry may help.

    `is_full`: the disk is full. The content of the store stays as it was, and can be read.
    """

    def __init__(self, sentence: str, *, is_full: bool = False) -> None:
        super().__init__(errno.ENOSPC if is_full else errno.EIO, sentence)
        self.sentence = sentence
        self.is_full = is_full

    def __str__(self) -> str:
        return self.sentence


class StoreRefusal(Exception):
    """The request contradicts the content of the store; nothing changed."""


class NameTaken(StoreRefusal):
    """A workload of this name isn't over yet."""


class NoSuchWorkload(StoreRefusal):
    """No workload of this name is in the store."""


class WorkloadOver(StoreRefusal):
    """The workload has ended already."""


class NotSuspended(StoreRefusal):
    """The workload isn't suspended, so it can't be resumed."""


class NoSuchQueue(StoreRefusal):
    """No department or project of this name is in the store."""


class QueueInUse(StoreRefusal):
    """The department or project holds others, or workloads that aren't over."""


class QueueUnsound(StoreRefusal):
    """The quota tree would not be one: no such parent, a project as a parent, or a circle."""


class NoSuchToken(StoreRefusal):
    """No token with this number is in the store."""


class NoSuchRule(StoreRefusal):
    """No rule of notifications with this number is in the store."""


class TooManyRules(StoreRefusal):
    """The pool or the person has as many rules of notifications as allowed."""
