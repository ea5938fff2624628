"""Sentences about certificates that a client refused: why, whose authority issued them, and the remedy.

A refused handshake keeps no certificate, so a second one without checks reads it. It carries no secret.
"""

import ssl

_UNTRUSTED = (2, 18, 19, 20, 21)
"""OpenSSL's codes of chains that end at no trusted authority. Others are dates and names."""
_COMMON_NAME, _ORGANIZATION = bytes.fromhex("550403"), bytes.fromhex("55040a")
_VERSION = 0xA0
_NAME_MAX = 100


class UntrustedCertificate(ConnectionError):
    """A server's certificate was refused. The text is whole sentences."""


def unchecked_context() -> ssl.SSLContext:
    """Return a TLS context that reads any certificate. Nothing secret may go through its connections."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def verification_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return the refusal of a certificate among an error and its causes; None if there is none."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def refused_certificate(
    error: ssl.SSLCertVerificationError, owner: str, certificate: bytes | None, remedy: str
) -> str:
    """Return the sentences about a refused certificate.

    `owner` is the server in words. `certificate` is its certificate in DER, if it is known. `remedy` is a
    clause: how to trust an authority.
    """
    if error.verify_code not in _UNTRUSTED:
        return f"The certificate of {owner} isn't valid: {error.verify_message.rstrip('.')}."
    issuer = issuer_of(certificate or b"")
    by = f" Its issuer is {issuer}." if issuer else ""
    return f"The certificate of {owner} isn't trusted.{by} If this is the right server, {remedy}."


def issuer_of(certificate: bytes) -> str:
    """Return the name of the authority that issued a certificate in DER; empty if it can't be read."""
    try:
        _, signed = _element(certificate, 0)[:2]
        fields = _elements(_elements(signed)[0][1])
        start = 1 if fields[0][0] == _VERSION else 0  # then serial number, algorithm and issuer
        names = dict(
            _name(part) for _, several in _elements(fields[start + 2][1]) for _, part in _elements(several)
        )
    except (IndexError, ValueError):
        return ""
    parts = [names[kind] for kind in (_COMMON_NAME, _ORGANIZATION) if kind in names]
    shown = ", ".join(dict.fromkeys(parts))
    return "".join(character if character.isprintable() else "?" for character in shown)[:_NAME_MAX]


def _name(part: bytes) -> tuple[bytes, str]:
    """Return the kind and the text of one part of a name."""
    (_, kind), (_, text) = _elements(part)[:2]
    return kind, text.decode("utf-8", "replace")


def _elements(content: bytes) -> list[tuple[int, bytes]]:
    """Return the elements of DER that follow one another, as tags and contents."""
    elements, offset = [], 0
    while offset < len(content):
        tag, inner, offset = _element(content, offset)
        elements.append((tag, inner))
    return elements


def _element(content: bytes, offset: int) -> tuple[int, bytes, int]:
    """Return the tag and the content of the element at a position, and the end of the element.

    Raises:
        IndexError, ValueError: there is none.
    """
    tag, length, offset = content[offset], content[offset + 1], offset + 2
    if length & 0x80:
        size = length & 0x7F
        length, offset = int.from_bytes(content[offset : offset + size]), offset + size
    if offset + length > len(content):
        raise ValueError("the element is longer than its content")
    return tag, content[offset : offset + length], offset + length
