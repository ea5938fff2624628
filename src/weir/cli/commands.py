"""Which commands there are, by topic. A new one is a line; its module is imported when asked for."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: its word, `module:attribute` of a function or a cyclopts app, and what it does.

    `names` says what the words after it name, for completion; `extra` is the extra of the package that
    the command needs.
    """

    name: str
    target: str
    does: str
    names: str = ""
    extra: str = ""


class Topic(NamedTuple):
    """Commands that belong together."""

    title: str
    commands: tuple[Command, ...]


TOPICS = (
    Topic(
        "Workloads",
        (
            Command("submit", "weir.cli.submit:submit", "Queue a command."),
            Command("list", "weir.cli.workloads:list_", "List workloads."),
            Command("describe", "weir.cli.workloads:describe", "Show all that is known of one.", "workloads"),
            Command(
                "why", "weir.cli.why:why", "Say why one waits, and what would let it start.", "workloads"
            ),
            Command("logs", "weir.cli.logs:logs", "Print the output of one, or follow it.", "workloads"),
            Command("exec", "weir.cli.exec:exec_", "Run a command beside one that runs.", "workloads"),
            Command("stop", "weir.cli.lifecycle:stop", "End workloads for good.", "workloads"),
            Command(
                "suspend", "weir.cli.lifecycle:suspend", "Stop workloads, to be resumed later.", "workloads"
            ),
            Command(
                "resume", "weir.cli.lifecycle:resume", "Let suspended workloads start again.", "workloads"
            ),
            Command("rerun", "weir.cli.lifecycle:rerun", "Submit ended workloads again.", "ended"),
        ),
    ),
    Topic(
        "The pool",
        (
            Command("up", "weir.cli.up:up", "Serve this machine's GPUs as a pool.", extra="server"),
            Command(
                "demo",
                "weir.cli.demo.command:demo",
                "Take the tour: a pool of its own, in a minute.",
                extra="demo",
            ),
            Command("status", "weir.cli.nodes:status", "Show the pool in one glance."),
            Command("dashboard", "weir.cli.dashboard:dashboard", "Open the pool in a browser."),
            Command("top", "weir.cli.nodes:top", "Show what projects hold and what GPUs do."),
            Command("nodes", "weir.cli.nodes:nodes", "List the machines."),
            Command(
                "checkpoints", "weir.cli.checkpoints:checkpoints", "List what workloads saved, and where."
            ),
            Command("events", "weir.cli.events:events", "Show what happened, and why.", "workloads"),
            Command("report", "weir.cli.report:app", "Report who used what."),
            Command(
                "backup", "weir.cli.backup:backup", "Write the pool's database to one file.", extra="server"
            ),
            Command("restore", "weir.cli.backup:restore", "Put a backup in its place again.", extra="server"),
        ),
    ),
    Topic(
        "Who may use it",
        (
            Command("project", "weir.cli.queues:project", "Make, set, list and delete projects.", "projects"),
            Command("department", "weir.cli.queues:department", "The same for departments.", "departments"),
            Command("token", "weir.cli.tokens:app", "Make, list, rotate and revoke tokens."),
            Command("secret", "weir.cli.secrets:app", "Set, list and delete secrets of a project."),
            Command("audit", "weir.cli.audit:audit", "Show who did what, and who was refused."),
        ),
    ),
    Topic(
        "What if",
        (
            Command(
                "scenario",
                "weir.cli.scenario:app",
                "Play scenario files, or hold them against what they expect.",
                extra="simulation",
            ),
            Command(
                "simulate",
                "weir.cli.simulate:simulate",
                "Replay a trace of jobs on a cluster, and compare policies.",
                extra="simulation",
            ),
            Command("snapshot", "weir.cli.snapshot:snapshot", "Print the pool as a scenario file."),
        ),
    ),
    Topic(
        "Kubernetes",
        (Command("kube", "weir.cli.kube:app", "Print what installs Weir in a cluster.", extra="kubernetes"),),
    ),
    Topic(
        "The shell",
        (Command("completion", "weir.cli.completion:completion", "Print what completes words in a shell."),),
    ),
)
COMMANDS = tuple(command for topic in TOPICS for command in topic.commands)
