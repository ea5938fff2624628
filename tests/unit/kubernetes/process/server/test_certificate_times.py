"""Certificates of the port begin at the API server's time: the clock of the machine may be ahead."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

import pytest

from weir.kubernetes.process.server import webhook_server
from weir.kubernetes.process.server.webhook_server import ServingOptions, WebhookServer

AT_S = time.time() - 2 * 3600.0


async def test_certificates_are_made_at_the_time_of_the_given_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made(Exception):
        """The certificates would be made now."""

    def rotation(*_: Any, now: Callable[[], datetime], **_more: Any) -> None:
        assert now().timestamp() == pytest.approx(AT_S)
        raise Made

    monkeypatch.setattr(webhook_server, "CertificateRotation", rotation)
    server = WebhookServer(cast(Any, None), ServingOptions("weir", "weir-system"), clock=lambda: AT_S)
    with pytest.raises(Made):
        await server.run()
