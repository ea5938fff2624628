"""Options of `weir kube bundle`, checked."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from weir import __version__
from weir.cli.kube import option_checks as check
from weir.cli.kube.dashboard_options import DashboardServerOptions
from weir.cli.kube.manifest_options import NodeAgentOptions, WeirOptions
from weir.cli.options.option_types import Names

if TYPE_CHECKING:
    from weir.kubernetes.install.olm.bundle import BundleOptions

_VERSION = re.compile(r"weir\.v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", re.ASCII)
_CHANNEL = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", re.ASCII)
_MAINTAINER = re.compile(r"([^<>]{1,100}) <([^<>@\s]{1,64}@[^<>@\s]{1,253})>")
_URL = re.compile(r"https://[!-~]{1,500}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BundleDetails:
    """The bundle and its catalogue."""

    bundle_image: str = f"weir-bundle:{__version__}"
    """Image that the bundle is built as, preferably as NAME@sha256:DIGEST."""
    channel: str = "stable"
    """Channel of the catalogue."""
    replaces: str | None = None
    """Name of the version that this one replaces, such as weir.v0.1.0."""
    created: str = "1970-01-01T00:00:00Z"
    """Time of the release, as 2026-01-31T12:00:00Z."""
    provider: str = "Weir"
    """Name of the company that offers the bundle."""
    url: str | None = None
    """Page of the provider, which begins with https://."""
    maintainer: Names = ()
    """Maintainers, each as NAME <ADDRESS>. Certification needs one."""

    def options(
        self,
        weir: WeirOptions,
        agents: NodeAgentOptions,
        dashboard: DashboardServerOptions,
        *,
        monitoring: bool,
    ) -> "BundleOptions":
        """Return the options of the bundle.

        Raises:
            ValueError: an option has a mistake; the sentence names the flag.
        """
        from weir.kubernetes.install.olm.bundle import BundleOptions

        return BundleOptions(
            weir.installation(agents, dashboard, monitoring=monitoring),
            check.one("--bundle-image", check.image, self.bundle_image),
            check.like("--channel", _CHANNEL, self.channel, "stable"),
            None
            if self.replaces is None
            else check.like("--replaces", _VERSION, self.replaces, "weir.v0.1.0"),
            check.like("--created", _MOMENT, self.created, "2026-01-31T12:00:00Z"),
            self.provider,
            "" if self.url is None else check.like("--url", _URL, self.url, "https://example.com/weir"),
            tuple(check.one("--maintainer", _maintainer, text) for text in self.maintainer),
        )


def _maintainer(text: str) -> tuple[str, str]:
    match = _MAINTAINER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no maintainer: write NAME <ADDRESS>")
    return match[1], match[2]
