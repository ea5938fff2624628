"""Address of a receiver: a secret, which no database, list or log holds."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReceiverAddress:
    """A URL, and the secret that signs requests to it."""

    url: str
    secret: str = ""

    def __repr__(self) -> str:
        """Return no secret."""
        return "ReceiverAddress(...)"


@dataclass(frozen=True, slots=True)
class NoAddress:
    """An address that can't be had; the sentence says why, and how to fix it."""

    sentence: str


class AddressBook(Protocol):
    """The addresses of receivers by the keys that their rules name."""

    def get(self, key: str) -> ReceiverAddress | NoAddress:
        """Return an address.

        Raises:
            OSError: it can't be read now.
        """
        ...
