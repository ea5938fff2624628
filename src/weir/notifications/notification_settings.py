"""Settings of notifications in a file of the administrator: mail server, allowed webhooks and limits."""

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from weir.api.loopback import is_loopback
from weir.model.resources import seconds
from weir.notifications.ip_addresses import ip_address

HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
"""Mail addresses, as browsers check them, but without ?: an encoded word could hide another address."""
PASSWORD_LENGTH_MAX = 4096

Duration = Annotated[float, BeforeValidator(seconds)]


class MailSettings(BaseModel):
    """The mail server, and the domains of addresses that people may name.

    `security`: `starttls` or `tls`; `none` only for a server on this machine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    host: Annotated[str, Field(min_length=1, max_length=253)]
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: str | None = None
    user: str | None = None
    password_file: str | None = None
    sender: Annotated[str, Field(alias="from", max_length=320, pattern=rf"^{ADDRESS.pattern}$")]
    domains: Annotated[list[str], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _check(self) -> "MailSettings":
        if self.security == "none" and not is_loopback(self.host):
            raise ValueError("security: none is only for a server on this machine; write starttls or tls")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file go together; write both, or none")
        return self

    def allows(self, address: str) -> bool:
        """Return True if people may name this address."""
        domain = address.rpartition("@")[2].lower()
        return any(domain == allowed.lower() for allowed in self.domains)


class WebhookSettings(BaseModel):
    """Hosts that webhooks may be on.

    An entry is a name, such as hooks.slack.com or *.example.com, for HTTPS on its usual port; or an origin,
    such as https://chat.example.com:8443. Only an entry with an IP address may be on this machine, or use
    HTTP.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    hosts: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=1000)] = []
    ca_file: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "WebhookSettings":
        for entry in self.hosts:
            if not _is_entry(entry):
                raise ValueError(
                    f"hosts: {entry[:80]!r} can't be allowed; write a name such as hooks.slack.com, "
                    "or an origin such as https://chat.example.com:8443"
                )
        return self


class DeliveryLimits(BaseModel):
    """Limits of deliveries. Messages that a receiver may not get yet are put together into one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rules_per_person: Annotated[int, Field(ge=1, le=1000)] = 20
    messages_per_second: Annotated[float, Field(gt=0, le=100_000, strict=False)] = 20.0
    messages_per_minute: Annotated[float, Field(gt=0, le=100_000, strict=False)] = 30.0
    messages_burst: Annotated[int, Field(ge=1, le=100_000)] = 10
    mails_per_hour: Annotated[float, Field(gt=0, le=100_000, strict=False)] = 60.0
    mails_burst: Annotated[int, Field(ge=1, le=100_000)] = 10
    timeout: Annotated[Duration, Field(gt=0, le=300)] = 10.0
    retry_first: Annotated[Duration, Field(gt=0, le=86400)] = 5.0
    retry_max: Annotated[Duration, Field(gt=0, le=7 * 86400)] = 3600.0
    give_up_after: Annotated[Duration, Field(gt=0, le=30 * 86400)] = 3 * 86400.0


class NotificationSettings(BaseModel):
    """Settings of notifications. Without `mail` or `webhooks`, people can't choose them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    mail: MailSettings | None = None
    webhooks: WebhookSettings = WebhookSettings()
    limits: DeliveryLimits = DeliveryLimits()


def _is_entry(entry: str) -> bool:
    if "://" not in entry:
        return HOST.fullmatch(entry) is not None and ip_address(entry) is None
    try:
        parts = urlsplit(entry)
        _ = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    is_address = ip_address(host) is not None
    is_bare = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None)
    allowed = parts.scheme == "https" or (parts.scheme == "http" and is_address)
    return is_bare and allowed and (is_address or HOST.fullmatch(host) is not None)


def read_password(path: Path) -> str:
    """Return the password of the mail server; the file must not be open to everyone.

    Raises:
        ValueError: the file can't be used.
    """
    try:
        is_open = path.stat().st_mode & 0o007
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from None
    if is_open:
        raise ValueError(f"{path} is open to everyone: run chmod 640 {path}")
    return read_mounted_password(path)


def read_mounted_password(path: Path) -> str:
    """Return the password in a file of a container, in which there is one user.

    Raises:
        ValueError: the file can't be used.
    """
    try:
        text = path.read_text("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise ValueError(f"{path} can't be read: {reason}") from None
    if not text or len(text) > PASSWORD_LENGTH_MAX or "\n" in text:
        raise ValueError(f"{path} doesn't hold one password; write it on one line")
    return text
