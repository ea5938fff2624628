"""Queries to a Prometheus server, each bounded in time and size. Nothing that it answers is trusted."""

import math
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from weir.api.loopback import is_loopback
from weir.kubernetes.crd.usage_settings import SECRETS
from weir.kubernetes.usage.series import PrometheusFailed, Series

CONNECT_S, READ_S, ANSWER_S = 5.0, 10.0, 30.0
"""Time for a connection, between two parts of an answer, and for all of one."""
ANSWER_BYTES_MAX = 32 << 20
SERIES_MAX = 100_000
LABELS_MAX = 100
TOKEN_BYTES_MAX = 64 << 10
_TEXT_MAX = 200


class _Result(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Found(msgspec.Struct):
    result: list[_Result]


class _Answer(msgspec.Struct):
    status: str
    data: _Found | None = None
    error: str = ""


_DECODER = msgspec.json.Decoder(_Answer)


class PrometheusApi:
    """A connection to one server. Use it in one thread, and close it."""

    def __init__(self, url: str, secrets: Path = SECRETS) -> None:
        """Prepare the connection.

        Raises:
            PrometheusFailed: a file of the Secret can't be used.
        """
        self._url = f"{url}/api/v1/query"
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        token = _token(secrets / "token")
        if token and _is_private(url):
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(
            verify=_tls(secrets / "ca.crt"),
            headers=headers,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            trust_env=False,
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def query(self, expression: str) -> list[Series]:
        """Return the series of an expression as they are now.

        Raises:
            PrometheusFailed: the server doesn't answer in time, or not with series.
        """
        until_s = time.monotonic() + ANSWER_S
        words = {"query": expression, "timeout": f"{READ_S:g}s"}
        body = bytearray()
        try:
            with self._client.stream("POST", self._url, data=words) as answer:
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise PrometheusFailed("it answers with compressed text, which wasn't asked for")
                for part in answer.iter_raw(1 << 16):
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise PrometheusFailed(
                            f"an answer is larger than {ANSWER_BYTES_MAX >> 20} MiB: fewer labels make it "
                            "smaller"
                        )
                    if time.monotonic() > until_s:
                        raise PrometheusFailed(f"an answer takes longer than {ANSWER_S:g} s")
                status = answer.status_code
        except httpx.TimeoutException:
            raise PrometheusFailed("it doesn't answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise PrometheusFailed(f"it can't be reached: {_plain(str(error))}") from None
        return _series(bytes(body), status)


def _series(body: bytes, status: int) -> list[Series]:
    """Return the series of an answer.

    Raises:
        PrometheusFailed: it has none.
    """
    try:
        answer = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise PrometheusFailed(f"it answers {status} with something else than series") from None
    if answer.status != "success" or answer.data is None or status != httpx.codes.OK:
        why = f": {_plain(answer.error)}" if answer.error else ""
        raise PrometheusFailed(f"it answers {status}{why}")
    if len(answer.data.result) > SERIES_MAX:
        raise PrometheusFailed(f"it answers with more than {SERIES_MAX} series")
    series = []
    for result in answer.data.result:
        values = result.values if result.value is None else [result.value]
        samples = [sample for at_s, text in values if (sample := _sample(at_s, text)) is not None]
        if samples and len(result.metric) <= LABELS_MAX:
            series.append(Series(result.metric, samples))
    return series


def _sample(at_s: float, text: str) -> tuple[float, float] | None:
    """Return a sample; None if its value is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return (at_s, value) if math.isfinite(value) else None


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(TOKEN_BYTES_MAX + 1).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise PrometheusFailed(f"{path} can't be read") from None
    if len(text) > TOKEN_BYTES_MAX or not text.isprintable() or " " in text:
        raise PrometheusFailed(f"{path} holds no token: write one line of printable characters")
    return text


def _tls(authorities: Path) -> ssl.SSLContext:
    try:
        if authorities.exists():
            return ssl.create_default_context(cafile=str(authorities))
        return ssl.create_default_context()
    except (OSError, ssl.SSLError):
        raise PrometheusFailed(f"{authorities} holds no certificates") from None


def _is_private(url: str) -> bool:
    """Return True if a token may be sent: over TLS, or within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _plain(text: str) -> str:
    """Return a text of the server as a short line for people."""
    shown = "".join(char if char.isprintable() else " " for char in text[:_TEXT_MAX])
    return " ".join(shown.split()).rstrip(".")
