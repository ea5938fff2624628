"""Address of the API server for requests with people's own tokens."""

import asyncio
from pathlib import Path

from weir.kubernetes.api.credentials import LOOK_AGAIN_S, NoCredentials, server_of_pod, strict_context

POD_AUTHORITY = Path("/etc/weir/cluster/ca.crt")
"""The authority of the API server, as the ConfigMap kube-root-ca.crt of each namespace has it."""


class ApiAddress:
    """URL and authority of an API server."""

    def __init__(self, server: str | None = None, authority: Path = POD_AUTHORITY) -> None:
        """Read the address of `server`, by default the API server of the pod that this process runs in.

        Raises:
            NoCredentials: the process runs in no pod, the address lacks HTTPS, or its CA can't be read.
        """
        address = server or server_of_pod()
        if not address:
            raise NoCredentials("This isn't a pod of a cluster: name the API server with --api-server.")
        if not address.startswith("https://"):
            raise NoCredentials(
                f"--api-server: {address} isn't an address with HTTPS; write https://HOST:PORT."
            )
        self.url = address.rstrip("/")
        self._authority = authority
        self._authorities = ""
        self.context = strict_context()
        try:
            self._read()
        except (OSError, ValueError) as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise NoCredentials(f"--api-authority: {authority} can't be used: {why}.") from None

    async def follow(self) -> None:
        """Trust authorities that are added to the file, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            try:
                self._read()
            except (OSError, ValueError):
                continue  # the file is being replaced

    def _read(self) -> None:
        text = self._authority.read_text("ascii", "replace")
        if text != self._authorities:
            self.context.load_verify_locations(cadata=text)
            self._authorities = text
