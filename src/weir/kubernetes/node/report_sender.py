"""Calls of Weir's replicas, over TLS with the token of this pod: reports to all, and questions to one.

The files of the token and of the authority are read for each call, because the kubelet replaces them.
"""

import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec

from weir.kubernetes.usage.node_reports import NodeReport
from weir.kubernetes.usage.node_shares import BYTES_MAX, NodeShares

TIMEOUT_S, ASK_TIMEOUT_S = 10.0, 2.0
_PATH, _SHARES = "/node-report", "/node-shares"
_TEXT_MAX = 200


class NotDelivered(Exception):
    """A replica refused the report, or didn't answer; the sentence says why."""


class ReportSender:
    """Sends reports to every address of a host name. `name` is the one in the certificate."""

    def __init__(self, host: str, port: int, name: str, authority: Path, token: Path) -> None:
        self._host = host
        self._port = port
        self._name = name
        self._authority = authority
        self._token = token

    def send(self, report: NodeReport) -> list[str]:
        """Deliver a report to each replica; return why some refused it.

        Raises:
            NotDelivered: there is no replica, or a file can't be used.
        """
        body = msgspec.json.encode(report)
        with self._client() as client:
            replies = [self._post(client, address, body) for address in self._addresses()]
        return [reply for reply in replies if reply]

    def shares(self) -> NodeShares:
        """Return the shares of this node, as the first replica with an answer states them.

        Raises:
            NotDelivered: none answers, or a file can't be used.
        """
        why = ""
        with self._client() as client:
            addresses = self._addresses()
            # Random order balances the load on replicas
            for address in random.sample(addresses, len(addresses)):
                try:
                    url = self._url(address, _SHARES)
                    answer = client.get(url, extensions=self._tls_name, timeout=ASK_TIMEOUT_S)
                    if answer.status_code == httpx.codes.OK and len(answer.content) <= BYTES_MAX:
                        return msgspec.json.decode(answer.content, type=NodeShares)
                    why = _refusal(address, answer)
                except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                    why = _failure(address, error)
        raise NotDelivered(why)

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        try:
            tls = ssl.create_default_context(cafile=str(self._authority))
            token = self._token.read_text(encoding="ascii").strip()
        except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
            raise NotDelivered(f"the token or the CA certificate can't be read: {error}") from None
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Connection": "close",
            "Host": self._name,
        }
        with httpx.Client(verify=tls, timeout=TIMEOUT_S, trust_env=False, headers=headers) as client:
            yield client

    def _addresses(self) -> list[str]:
        try:
            addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise NotDelivered(f"{self._host} has no address: {error}") from None
        return sorted({str(address[0]) for *_, address in addresses})

    def _post(self, client: httpx.Client, address: str, body: bytes) -> str:
        """Return why a replica refuses a report; empty if it accepts it."""
        try:
            answer = client.post(self._url(address, _PATH), content=body, extensions=self._tls_name)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return _failure(address, error)
        return "" if answer.status_code == httpx.codes.NO_CONTENT else _refusal(address, answer)

    def _url(self, address: str, path: str) -> str:
        host = f"[{address}]" if ":" in address else address
        return f"https://{host}:{self._port}{path}"

    @property
    def _tls_name(self) -> dict[str, str]:
        return {"sni_hostname": self._name}


def _failure(address: str, error: Exception) -> str:
    return f"{address}: {str(error)[:_TEXT_MAX] or type(error).__name__}"


def _refusal(address: str, answer: httpx.Response) -> str:
    return f"{address} answers {answer.status_code}: {answer.text[:_TEXT_MAX].strip()}"
