"""Plans: the steps of an installation and of its removal, from settings and the host."""

from dataclasses import replace
from pathlib import Path

from weir.cli.help.completion import BASH, FISH, ZSH
from weir.cli.install.host import Host
from weir.cli.install.settings import CONFIGURATION, RECORD, InstallSettings
from weir.cli.install.steps import (
    Step,
    add_member,
    enable_unit,
    make_directory,
    make_group,
    make_link,
    make_server_user,
    remove_file,
    remove_group,
    remove_tree,
    remove_user,
    stop_unit,
    write_file,
)
from weir.cli.install.unit import UNIT, remove_unit, run_unit, write_unit

ADMIN_GROUP = "weir-admin"
SOCKET_DIRECTORY = Path("/run/weir")
PROGRAM = Path("/usr/local/bin/weir")
COMPLETIONS = {
    Path("/usr/local/share/bash-completion/completions/weir"): BASH,
    # zsh runs this file as the function `_weir` when a word is first completed.
    Path("/usr/local/share/zsh/site-functions/_weir"): ZSH + '[[ $funcstack[1] == _weir ]] && _weir "$@"\n',
    Path("/etc/fish/completions/weir.fish"): FISH,
}


def with_made_accounts(settings: InstallSettings, host: Host) -> InstallSettings:
    """Return the settings with the accounts that this installation makes: only those are removed again."""
    users = settings.made_users
    if settings.user not in users and host.user_id(settings.user) is None:
        users = (*users, settings.user)
    groups = settings.made_groups
    if ADMIN_GROUP not in groups and not host.has_group(ADMIN_GROUP):
        groups = (*groups, ADMIN_GROUP)
    return replace(settings, made_users=users, made_groups=groups)


def install_steps(
    settings: InstallSettings,
    *,
    administrator: str | None,
    link: Path | None,
    unit: str | None,
    running: bool,
) -> list[Step]:
    """Return the steps of an installation.

    Args:
        settings: with the accounts that it makes.
        administrator: the user who called sudo.
        link: the program that everyone's shell should find; None if it does.
        unit: the text of the unit; None where systemd doesn't run the machine.
        running: True if the service runs already.
    """
    steps: list[Step] = [
        make_directory(CONFIGURATION),
        write_file(RECORD, settings.record(), "the settings, for updates and the removal"),
        make_group(ADMIN_GROUP),
        make_server_user(settings.user, settings.home),
    ]
    if administrator is not None:
        steps.append(add_member(administrator, ADMIN_GROUP))
    if link is not None:
        steps.append(make_link(PROGRAM, link))
    steps += [write_file(path, text, "completion") for path, text in COMPLETIONS.items()]
    if unit is not None:
        steps += [write_unit(unit), enable_unit(UNIT), run_unit(unit, running=running)]
    return steps


def stop_steps(*, systemd: bool) -> list[Step]:
    """Return the steps that end the server and the node process; jobs run on."""
    return [stop_unit(UNIT)] if systemd else []


def remove_steps(settings: InstallSettings, *, systemd: bool, link: Path | None, purge: bool) -> list[Step]:
    """Return the steps that remove a stopped installation; with `purge` also its state and accounts."""
    steps: list[Step] = [remove_unit()] if systemd else []
    steps += [remove_file(path) for path in COMPLETIONS]
    if link is not None:
        steps.append(remove_file(PROGRAM))
    steps.append(remove_tree(SOCKET_DIRECTORY, "the socket"))
    if purge:
        steps.append(remove_tree(settings.home, "all state, output and checkpoints"))
        steps += [remove_user(name) for name in settings.made_users]
        steps += [remove_group(name) for name in (*settings.made_users, *settings.made_groups)]
        steps.append(remove_file(RECORD))
    return steps
