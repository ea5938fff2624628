"""HTTP as it is spoken with an API server, against servers that say exactly what a test has them say."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from tools.controlplane.certificates import Authority

from weir.kubernetes.api import credentials
from weir.kubernetes.api.connection_pool import CertificateRefused, ConnectionPool, Endpoint, RequestNotSent
from weir.kubernetes.api.http_connection import HEAD_BYTES_MAX, ConnectionLost, NotHttp

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Server:
    """Answers request after request with what it was given, in the pieces it was given."""

    def __init__(self, *answers: list[bytes] | bytes, ends: bool = False) -> None:
        self.answers = list(answers)
        self.ends = ends  # each connection after one answer
        self.asked: list[str] = []
        self.connections = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while (head := await _head(reader)) and self.answers:
            self.asked.append(head)
            await self.goes_on.wait()
            answer = self.answers.pop(0)
            for piece in answer if isinstance(answer, list) else [answer]:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            if self.ends:
                break


async def _head(reader: asyncio.StreamReader) -> str:
    """A request, its body left out; nothing at the end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return ""
    for line in head.splitlines():
        if line.lower().startswith("content-length:"):
            await reader.readexactly(int(line.partition(":")[2]))
    return head


def without_key_identifiers(directory: Path) -> tuple[ssl.SSLContext, Path]:
    """Return the TLS of a server whose certificate lacks parts of the form, and its authority."""
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "server")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    crt, pem = [directory / "authority.crt", directory / "loose.crt"], directory / "loose.key"
    for at, (name, key) in enumerate(zip(names, keys, strict=True)):
        begun = x509.CertificateBuilder().subject_name(name).issuer_name(names[0]).serial_number(at + 1)
        begun = begun.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        begun = begun.public_key(key.public_key())
        begun = begun.add_extension(x509.BasicConstraints(ca=at == 0, path_length=None), critical=False)
        made = begun.add_extension(address, critical=False).sign(keys[0], hashes.SHA256())
        crt[at].write_bytes(made.public_bytes(Encoding.PEM))
    pem.write_bytes(keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(crt[1], pem)
    return tls, crt[0]


async def test_certificates_are_checked_strictly_where_the_server_can_stand_it(tmp_path: Path) -> None:
    """A form that authorities of old clusters have is let pass, a strange authority never."""
    strict, (loose, loose_authority) = Authority(tmp_path / "pki"), without_key_identifiers(tmp_path)
    good = strict.server()
    tight = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tight.load_cert_chain(good.certificate, good.key)
    for serves, authority, stays_strict in (
        (tight, strict.certificate, True),
        (loose, loose_authority, False),
    ):
        client = credentials.strict_context()
        client.load_verify_locations(authority)
        async with listening(Server(OK).serve, serves) as port:
            lines = ConnectionPool(Endpoint(f"https://127.0.0.1:{port}", client))
            assert (await lines.ask(lines.request("GET", "/", "", None), again=True)).status == 200
            await lines.close()
        assert bool(client.verify_flags & ssl.VERIFY_X509_STRICT) is stays_strict
        assert client.verify_mode == ssl.CERT_REQUIRED
    strange = credentials.strict_context()
    strange.load_verify_locations(strict.certificate)
    async with listening(Server(OK).serve, loose) as port:
        lines = ConnectionPool(Endpoint(f"https://127.0.0.1:{port}", strange))
        with pytest.raises(CertificateRefused) as refused:
            await lines.ask(lines.request("GET", "/", "", None), again=True)
        await lines.close()
    assert str(refused.value) == (
        f"The certificate of the API server 127.0.0.1:{port} isn't trusted. Its issuer is authority. If this is "
        "the right server, write the certificate of that authority as certificate-authority-data of the cluster "
        "in the kubeconfig."
    )


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def serves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serves, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def asking(server: Server, **to: object) -> AsyncIterator[ConnectionPool]:
    async with listening(server.serve) as port:
        lines = ConnectionPool(Endpoint(f"http://127.0.0.1:{port}", **to))  # type: ignore[arg-type]
        try:
            yield lines
        finally:
            await lines.close()


async def ask(lines: ConnectionPool, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    request = lines.request(method, "/x", "A: b\r\n", body)
    answer = await asyncio.wait_for(lines.ask(request, again=method == "GET"), 120)
    return answer.status, answer.body


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110 - the awaited state has no event
            await asyncio.sleep(0.01)


async def test_a_request_is_what_it_was_to_be() -> None:
    server = Server(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\nRetry-After: 3\r\n\r\nhi")
    async with asking(server) as lines:
        answer = await lines.ask(lines.request("POST", "/a b\r\nc", "A: b\r\n", b"{}"))
        assert (answer.status, answer.body, answer.header("retry-after")) == (201, b"hi", "3")
        assert answer.header("age") == ""
    line, *rest = server.asked[0].splitlines()
    assert line == "POST /a%20b%0D%0Ac HTTP/1.1"  # nothing in a path can end the line it stands in
    assert rest[1:] == ["A: b", "Content-Length: 2", ""]
    assert rest[0].startswith("Host: 127.0.0.1:")


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([OK], b"hi"),
        ([OK[:10], OK[10:30], OK[30:-1], OK[-1:]], b"hi"),
        (
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"3\r\nabc\r",
                b"\n2\r\nde\r\n0\r\n\r\n",
            ],
            b"abcde",
        ),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], b"hi"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
    ],
)
async def test_answers_are_read_however_they_come(pieces: list[bytes], body: bytes) -> None:
    server = Server(pieces, OK)
    async with asking(server) as lines:
        assert (await ask(lines))[1] == body
        assert await ask(lines) == (200, b"hi")  # on the same connection
    assert server.connections == 1


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"]
)
async def test_an_answer_without_a_length_goes_on_until_the_end(head: bytes) -> None:
    server = Server([head, b"a", b"b"], [head], ends=True)
    async with asking(server) as lines:
        assert await ask(lines) == (200, b"ab")
        assert await ask(lines) == (200, b"")
    assert server.connections == 2


async def test_a_server_that_wants_to_end_a_connection_gets_another() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
    server = Server(closing, OK)
    async with asking(server) as lines:
        assert [await ask(lines) for _ in range(2)] == [(200, b"hi")] * 2
    assert server.connections == 2


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([], ConnectionLost),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"], ConnectionLost),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"], ConnectionLost),
        ([b"HTTP/1.1 200 OK\r\nContent-"], ConnectionLost),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], NotHttp),
        ([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"], NotHttp),
        ([b"HTTP/1.1 200 OK\r\nA: " + b"x" * (HEAD_BYTES_MAX + 1) + b"\r\n\r\n"], NotHttp),
    ],
)
async def test_half_an_answer_is_none(pieces: list[bytes], error: type[Exception]) -> None:
    server = Server(pieces, OK, ends=True)
    async with asking(server) as lines:
        with pytest.raises(error):
            await ask(lines)
        assert await ask(lines) == (200, b"hi")


async def test_what_comes_unasked_is_never_taken_for_an_answer() -> None:
    server = Server([OK, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"], OK)
    async with asking(server) as lines:
        assert await ask(lines) == (200, b"hi")
        await until(lambda: not lines._idle)
        assert await ask(lines) == (200, b"hi")
    assert server.connections == 2


async def test_only_what_reads_is_sent_twice_when_a_kept_connection_ends() -> None:
    server = Server(OK, [], OK, OK, [], ends=False)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ends a connection where it has nothing to say."""
        server.connections += 1
        while head := await _head(reader):
            server.asked.append(head.split()[0])
            answer = server.answers.pop(0)
            if not answer:
                return
            writer.write(bytes(answer))  # type: ignore[arg-type]

    async with listening(serve) as port:
        lines = ConnectionPool(Endpoint(f"http://127.0.0.1:{port}"))
        assert await ask(lines) == (200, b"hi")
        assert await ask(lines) == (200, b"hi")  # the second time it was asked
        assert await ask(lines, "POST", b"{}") == (200, b"hi")
        with pytest.raises(ConnectionLost):
            await ask(lines, "POST", b"{}")
        await lines.close()
    assert server.asked == ["GET", "GET", "GET", "POST", "POST"]


async def test_more_requests_than_connections_wait() -> None:
    server = Server(*[OK] * 10)
    server.goes_on.clear()
    async with asking(server, most=2) as lines:
        asked = [asyncio.create_task(ask(lines)) for _ in range(10)]
        await until(lambda: len(server.asked) == 2)
        await asyncio.sleep(0.05)
        assert len(server.asked) == 2
        server.goes_on.set()
        assert await asyncio.gather(*asked) == [(200, b"hi")] * 10
    assert server.connections == 2


async def test_one_who_gives_up_leaves_nothing_behind() -> None:
    server = Server(OK, OK)
    server.goes_on.clear()
    async with asking(server, most=1) as lines:
        slow = asyncio.create_task(lines.ask(lines.request("GET", "/slow", "", None)))
        await until(lambda: len(server.asked) == 1)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        server.goes_on.set()
        assert await ask(lines) == (200, b"hi")
    assert server.connections == 2  # the late answer went nowhere


async def test_renewed_connections_are_new_ones() -> None:
    server = Server(OK, OK)
    async with asking(server) as lines:
        await ask(lines)
        lines.renew()
        await ask(lines)
    assert server.connections == 2


async def test_no_server_at_the_address() -> None:
    lines = ConnectionPool(Endpoint("http://127.0.0.1:9"))
    with pytest.raises(RequestNotSent, match=r"127\.0\.0\.1:9 can't be reached"):
        await ask(lines)
    await lines.close()


async def test_a_stream_comes_as_it_comes_and_says_when_it_is_silent() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = [chunked, b"2\r\na\n\r\n", b"2\r\nb\n\r\n", b"0\r\n\r\n"]
    async with asking(Server(whole)) as lines:
        request = lines.request("GET", "/watch", "", None)
        async with lines.stream(request, 30, 0.0) as (answer, pieces):
            assert answer.status == 200
            assert b"".join([piece async for piece in pieces]) == b"a\nb\n"
    for silent in ([chunked, b"2\r\na\n\r\n"], []):
        async with asking(Server(silent)) as lines:
            request = lines.request("GET", "/watch", "", None)
            with pytest.raises(TimeoutError):
                async with lines.stream(request, 0.2, 0.0) as (_, pieces):
                    assert [piece async for piece in pieces] == [b"a\n"]


async def test_a_cut_stream_yields_everything_before_the_cut() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n"
    async with asking(Server([chunked], ends=True)) as lines:
        reported = []

        async def hear() -> None:
            async with lines.stream(lines.request("GET", "/watch", "", None), 30, 0.0) as (_, pieces):
                async for piece in pieces:
                    reported.append(piece)

        with pytest.raises(ConnectionLost):
            await hear()
        assert reported == [b"a\n"]


@pytest.mark.parametrize("says", [b"HTTP/1.1 200 Connection established\r\n\r\n", b"HTTP/1.1 407 No\r\n\r\n"])
async def test_a_proxy_is_asked_for_a_tunnel(says: bytes, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server()
    known = ssl.create_default_context(cafile=str(authority.certificate))
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(pair.certificate, pair.key)
    server, asked = Server(OK, OK), []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await _head(reader))
        writer.write(says)
        await writer.drain()
        if b"200" in says:
            host, _, port = asked[0].split()[1].rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))

    async with listening(server.serve, own) as port, listening(proxy) as through:
        lines = ConnectionPool(
            Endpoint(f"https://127.0.0.1:{port}", known, proxy=f"http://me:s%3Acret@127.0.0.1:{through}")
        )
        if b"200" in says:
            assert [await ask(lines) for _ in range(2)] == [(200, b"hi")] * 2
        else:
            with pytest.raises(RequestNotSent, match="the proxy answered 407"):
                await ask(lines)
        await lines.close()
        assert len(asked) == 1
        assert asked[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n")
        assert "Proxy-Authorization: Basic bWU6czpjcmV0\r\n" in asked[0]


async def test_a_proxy_without_tls_is_asked_for_the_whole_address() -> None:
    server = Server(OK)
    async with listening(server.serve) as through:
        lines = ConnectionPool(Endpoint("http://api.test:8080/below/", proxy=f"http://127.0.0.1:{through}"))
        assert await ask(lines) == (200, b"hi")
        await lines.close()
    assert server.asked[0].startswith("GET http://api.test:8080/below/x HTTP/1.1\r\nHost: api.test:8080\r\n")


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()
