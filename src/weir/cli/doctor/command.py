"""`weir doctor`: check a machine, and list problems with their fixes."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from weir.cli.doctor.checks import findings
from weir.cli.doctor.container_reader import container_facts
from weir.cli.doctor.facts import MachineFacts
from weir.cli.doctor.findings import Finding, Severity
from weir.cli.doctor.gpu_reader import gpu_facts
from weir.cli.doctor.host_reader import group_facts, home_facts, host_facts, people
from weir.cli.doctor.service_reader import node_pid, service_facts
from weir.cli.install.host import Host, InstallFailed
from weir.cli.install.settings import InstallSettings, recorded
from weir.cli.output.outputs import print_plain
from weir.cli.output.terminal import Tone, plain, screen, wrapped

_TONES: dict[Severity, Tone] = {"ok": "good", "warning": "busy", "failure": "bad"}


def doctor(
    *,
    home: Path | None = None,
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=("--output", "-o"))] = "table",
) -> int:
    """Check this machine, and list problems with their fixes. The exit code is 1 if a check fails.

    It changes nothing. Root sees more than others: limits of the service, and homes of users.

    Parameters
    ----------
    home
        Directory of the pool's state; by default that of the installed pool, else your own.
    output
        table, json or yaml.
    """
    results = findings(read_facts(home))
    if output == "table":
        _print(results)
    else:
        print_plain([asdict(finding) for finding in results], output)
    sys.stdout.flush()
    return 1 if any(finding.severity == "failure" for finding in results) else 0


def read_facts(home: Path | None) -> MachineFacts:
    """Return the facts of this machine."""
    from weir.client.address import home as own_home

    host = Host()
    settings: InstallSettings | None = None
    try:
        settings = recorded(host)
    except InstallFailed as error:
        print(f"weir: {plain(str(error))}.", file=sys.stderr)
    place = home or (own_home() if settings is None else settings.home)
    facts = host_facts(host, node_pid())
    return MachineFacts(
        gpus=gpu_facts(),
        groups=group_facts(),
        host=facts,
        home=home_facts(place.absolute()),
        service=service_facts(host, settings, facts.systemd),
        people=people() if os.geteuid() == 0 else (),
        containers=container_facts(),
    )


def _print(results: list[Finding]) -> None:
    display = screen()
    width = max(len(finding.check) for finding in results)
    for finding in results:
        head = f"{finding.severity:<7}  {finding.check:<{width}}  "
        text = wrapped(plain(finding.text), display.width, " " * len(head)).lstrip()
        print(f"{display.paint(head, _TONES[finding.severity])}{text}")
    failures = sum(finding.severity == "failure" for finding in results)
    warnings = sum(finding.severity == "warning" for finding in results)
    print(f"\n{len(results)} checks: {failures} failed, {warnings} with warnings.")
