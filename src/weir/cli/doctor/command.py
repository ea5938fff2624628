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
    found = findings(read_facts(home))
    if output == "table":
        _print(found)
    else:
        print_plain([asdict(each) for each in found], output)
    sys.stdout.flush()
    return 1 if any(each.severity == "failure" for each in found) else 0


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


def _print(found: list[Finding]) -> None:
    here = screen()
    width = max(len(each.check) for each in found)
    for each in found:
        head = f"{each.severity:<7}  {each.check:<{width}}  "
        text = wrapped(plain(each.text), here.width, " " * len(head)).lstrip()
        print(f"{here.paint(head, _TONES[each.severity])}{text}")
    failures = sum(each.severity == "failure" for each in found)
    warnings = sum(each.severity == "warning" for each in found)
    print(f"\n{len(found)} checks: {failures} failed, {warnings} with warnings.")
