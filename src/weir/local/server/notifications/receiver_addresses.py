"""Addresses of webhooks and the secrets that sign them: in a file of the home, as the secrets of projects.

The database and the log never hold them. The key of an address is random, and is stored in the rule.
"""

import threading
from collections.abc import Collection
from pathlib import Path

from weir.local.files import secret_files
from weir.notifications.receiver_address import NoAddress, ReceiverAddress

FILE = "notifications/receivers.json"
_AGAIN = "remove this notification and add it again"
LOST = NoAddress(f"its address isn't stored on this machine any more: {_AGAIN}")
DAMAGED = NoAddress(f"the file with the addresses ({FILE} in the home of the pool) is damaged: {_AGAIN}")


class ReceiverAddresses:
    """Keeps the secret addresses of webhooks in a file of the home."""

    def __init__(self, home: Path) -> None:
        self._path = str(home / FILE)
        self._changing = threading.Lock()

    def get(self, key: str) -> ReceiverAddress | NoAddress:
        """Return an address; the reason if there is none, or the file can't be read now."""
        try:
            stored = secret_files.read(self._path).get(key)
        except secret_files.SecretFileDamaged:
            return DAMAGED
        except OSError as error:
            return NoAddress(f"its address can't be read: {error.strerror or error}")
        if stored is None:
            return LOST
        return ReceiverAddress(str(stored.get("url", "")), str(stored.get("secret", "")))

    def put(self, key: str, address: ReceiverAddress) -> None:
        """Store an address durably.

        Raises:
            OSError: the address can't be stored.
        """
        with self._changing:
            try:
                addresses = secret_files.read(self._path)
            except secret_files.SecretFileDamaged:
                addresses = {}  # a new address replaces the unusable file
            secret_files.write(self._path, {**addresses, key: {"url": address.url, "secret": address.secret}})

    def delete(self, key: str) -> None:
        """Delete an address.

        Raises:
            OSError: the address can't be deleted.
        """
        with self._changing:
            addresses = secret_files.read(self._path)
            if addresses.pop(key, None) is not None:
                secret_files.write(self._path, addresses)

    def keep_only(self, keys: Collection[str]) -> None:
        """Delete all other addresses.

        Raises:
            OSError: they can't be deleted.
        """
        with self._changing:
            addresses = secret_files.read(self._path)
            kept = {key: value for key, value in addresses.items() if key in keys}
            if kept != addresses:
                secret_files.write(self._path, kept)
