"""Sentences about certificates of pools and identity providers that httpx refused."""

import ssl
from contextlib import suppress
from urllib.parse import urlsplit

import httpx

from weir.certificate_failures import refused_certificate, unchecked_context

_READ_S = 5.0
"""Time that the reading of a certificate may take."""


def certificate_sentences(error: ssl.SSLCertVerificationError, url: str) -> str:
    """Return the sentences about a server's refused certificate, with its issuer if that can be read."""
    parts, certificate = urlsplit(url), None
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # a password isn't for this server
    with suppress(httpx.HTTPError, OSError):
        http = httpx.Client(verify=unchecked_context(), timeout=_READ_S, follow_redirects=False)
        with http, http.stream("HEAD", url) as answer:
            tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
            certificate = None if tls is None else tls.getpeercert(True)
    remedy = "name the PEM file of that authority in SSL_CERT_FILE"
    return refused_certificate(error, url, certificate, remedy)
