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


class AddressBook(Protocol):
    """The addresses of receivers by the keys that their rules name."""

    def get(self, key: str) -> ReceiverAddress | None:
        """Return an address; None if it is gone.

        Raises:
            OSError: it can't be read now.
        """
        ...
