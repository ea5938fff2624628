"""Commands by topic. The module of a command is imported when the command runs."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: its name, its function or cyclopts app in `weir.cli` as `module:attribute`, and its help.

    `names` is the kind of names that completion offers after it; `extra` is the extra of the package that
    the command needs.
    """

    name: str
    function: str
    does: str
    names: str = ""
    extra: str = ""

    @property
    def target(self) -> str:
        """Return the whole name of the function or app."""
        return f"weir.cli.{self.function}"


class Topic(NamedTuple):
    """Commands that belong together."""

    title: str
    commands: tuple[Command, ...]


_WORKLOADS = (
    Command("submit", "submissions.submit:submit", "Queue a command."),
    Command("sbatch", "slurm.sbatch:app", "Submit a job script of Slurm as it is."),
    Command("sweep", "sweeps.commands:app", "Search hyper-parameters by many short trials."),
    Command("list", "workloads.listing:list_", "List workloads."),
    Command("describe", "workloads.listing:describe", "Show all details of a workload.", "workloads"),
    Command(
        "why", "workloads.why:why", "Explain why a workload is pending, and how it could start.", "workloads"
    ),
    Command("logs", "workloads.logs:logs", "Print or follow the output of a workload.", "workloads"),
    Command("exec", "sessions.exec:exec_", "Run a command next to a running workload.", "workloads"),
    Command("shell", "sessions.commands:shell", "Open a shell in a workload.", "workloads"),
    Command("ssh", "sessions.commands:ssh", "Log in to a workload with OpenSSH.", "workloads"),
    Command("jupyter", "sessions.browser:jupyter", "Open Jupyter in a workload.", "workloads"),
    Command("code", "sessions.browser:code", "Open VS Code in a browser in a workload.", "workloads"),
    Command("session", "sessions.commands:app", "Forward connections to running workloads."),
    Command("stop", "workloads.lifecycle:stop", "End workloads for good.", "workloads"),
    Command("suspend", "workloads.lifecycle:suspend", "Stop workloads until they are resumed.", "workloads"),
    Command("resume", "workloads.lifecycle:resume", "Let suspended workloads start again.", "workloads"),
    Command("priority", "workloads.lifecycle:priority", "Change the priority of a workload.", "workloads"),
    Command(
        "extend",
        "workloads.lifecycle:extend",
        "Pause the idle rules for a workload.",
        "workloads",
    ),
    Command("rerun", "workloads.lifecycle:rerun", "Submit ended workloads again.", "ended"),
    Command("schedule", "submissions.schedules:app", "Queue a command at the times of a cron expression."),
    Command("template", "submissions.templates:app", "Keep submissions with parameters.", "templates"),
)
_POOL = (
    Command("up", "server.up:up", "Serve this machine's GPUs as a pool.", extra="server"),
    Command("node", "server.node:node", "Serve a pool for several users of this machine.", extra="server"),
    Command(
        "install", "install.command:install", "Install a pool for everyone on this machine.", extra="server"
    ),
    Command("uninstall", "install.removal:uninstall", "Remove an installed pool."),
    Command("doctor", "doctor.command:doctor", "Check this machine, and list problems with their fixes."),
    Command("demo", "demo.command:demo", "Take a tour in a temporary pool, in a minute.", extra="demo"),
    Command("status", "nodes.commands:status", "Show a summary of the pool."),
    Command("dashboard", "dashboard.command:dashboard", "Open the pool in a browser."),
    Command("top", "nodes.commands:top", "Show the usage of projects and GPUs."),
    Command("nodes", "nodes.commands:app", "List the nodes, and show, drain and undrain one."),
    Command("drain", "nodes.drain:drain", "Take a node or a GPU out of service, now or at a time."),
    Command("undrain", "nodes.drain:undrain", "Let workloads start on a node or GPU again."),
    Command("maintenance", "nodes.drain:app", "Announce and list maintenance windows."),
    Command("priorities", "queues.priorities:priorities", "List the priority classes."),
    Command("checkpoints", "workloads.checkpoints:checkpoints", "List checkpoint directories."),
    Command("events", "workloads.events:events", "Show events and their causes.", "workloads"),
    Command("report", "reports.commands:app", "Report the usage by project, person or node."),
    Command("backup", "server.backup:backup", "Write the pool's database to one file.", extra="server"),
    Command("restore", "server.backup:restore", "Restore the database from a backup.", extra="server"),
)
_ACCESS = (
    Command("project", "queues.commands:project", "Create, change, show and delete projects.", "projects"),
    Command(
        "department",
        "queues.commands:department",
        "Create, change, show and delete departments.",
        "departments",
    ),
    Command("login", "access.login:login", "Log in at a pool with OpenID Connect."),
    Command("logout", "access.login:logout", "Forget a login."),
    Command("whoami", "access.login:whoami", "Show your user and your roles in the pool."),
    Command("token", "access.tokens:app", "Create, list, rotate and revoke tokens."),
    Command("secret", "access.secrets:app", "Set, list and delete secrets of a project."),
    Command("notify", "access.notify:app", "Choose notifications by mail, webhook or desktop."),
    Command("audit", "access.audit:audit", "Show changes and refused requests."),
)
_WHAT_IF = (
    Command(
        "scenario",
        "simulation.scenario:app",
        "Run scenario files, or check their expectations.",
        extra="simulation",
    ),
    Command(
        "simulate",
        "simulation.simulate:simulate",
        "Replay a trace of jobs on a cluster, and compare policies.",
        extra="simulation",
    ),
    Command("snapshot", "simulation.snapshot:snapshot", "Print the pool as a scenario file."),
)
_KUBERNETES = (
    Command(
        "kube",
        "kube.command:app",
        "Print the manifests that install Weir in a cluster, or write its Helm charts.",
        extra="kubernetes",
    ),
    Command(
        "import",
        "kube.import_queues:app",
        "Convert the queues of KAI, Kueue or Run:ai, or a job script of Slurm.",
        extra="kubernetes",
    ),
)
TOPICS = (
    Topic("Workloads", _WORKLOADS),
    Topic("The pool", _POOL),
    Topic("Access", _ACCESS),
    Topic("What if", _WHAT_IF),
    Topic("Kubernetes", _KUBERNETES),
    Topic(
        "The shell",
        (Command("completion", "help.completion:completion", "Print the completion script of a shell."),),
    ),
)
COMMANDS = tuple(command for topic in TOPICS for command in topic.commands)
ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ps", "ls", "jobs", "queue", "squeue"), ("list",)),
    **dict.fromkeys(("history", "sacct"), ("list", "--all")),
    **dict.fromkeys(("cancel", "scancel", "kill"), ("stop",)),
    "hold": ("suspend",),
    "release": ("resume",),
    "sinfo": ("nodes",),
    "show": ("describe",),
    "version": ("--version",),
}
"""Names of commands of other tools with the same meaning, each with the words of Weir."""
SAME_ACTIONS = (
    ("stop", "cancel", "kill", "abort"),
    ("delete", "remove", "rm", "revoke", "unset", "cancel"),
    ("add", "create", "new", "set", "save", "announce"),
    ("begin", "start", "run", "submit"),
    ("list", "ls"),
    ("show", "describe", "get", "status"),
    ("suspend", "pause", "hold"),
    ("resume", "release", "unsuspend"),
    ("set", "update", "edit", "change"),
    ("drain", "cordon"),
    ("undrain", "uncordon"),
)
"""Words with one meaning: a group of commands has one of them, other tools have others."""
OTHER_OPTIONS = {
    **dict.fromkeys(("--pods", "--nodes", "--replicas", "--ntasks", "--tasks", "--parallelism"), "--workers"),
    **dict.fromkeys(("--time", "--time-limit", "--timeout", "--walltime"), "--max-runtime"),
    **dict.fromkeys(("--depend", "--depends", "--depends-on", "--dependency"), "--after-ok"),
    **dict.fromkeys(("--account", "--partition", "--queue"), "--project"),
    **dict.fromkeys(("--chdir", "--cwd", "--workdir"), "--directory"),
    **dict.fromkeys(("--gres", "--gpus-per-node"), "--gpus"),
    **dict.fromkeys(("--starttime", "--start-time", "--newer-than"), "--since"),
    **dict.fromkeys(("--state", "--states", "--running", "--pending", "--failed"), "--status"),
    "--lines": "--tail",
}
"""Options of other tools with a similar meaning, each with the option of Weir to try."""
