"""Options of sbatch: names, arguments, variables, and how far a pool follows each.

An option is `mapped` if a pool follows it, `advice` if a job is right without it, and `needed` if a job
could be wrong without it. Then only `--best-effort` goes on.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Takes = Literal["nothing", "value", "optional"]
Support = Literal["mapped", "advice", "needed"]


class SlurmOption(NamedTuple):
    """An option of sbatch. `why` is the reason for `advice` and `needed`."""

    name: str
    short: str = ""
    takes: Takes = "value"
    variable: str = ""
    support: Support = "mapped"
    why: str = ""


_ONE_MACHINE = "a pool of one machine has no network between nodes"
_BINDING = "tasks aren't bound to cores"
_MACHINE = "the machine's own settings hold"
_ACCOUNTING = "Weir measures every job in the same way"
_NO_BACKFILL = "Weir plans without run times"

OPTIONS: tuple[SlurmOption, ...] = (
    SlurmOption("account", "A", variable="SBATCH_ACCOUNT"),
    SlurmOption("array", "a", variable="SBATCH_ARRAY_INX"),
    SlurmOption("begin", "b"),
    SlurmOption("chdir", "D"),
    SlurmOption("comment", support="advice", why="a workload has no comment"),
    SlurmOption("constraint", "C", variable="SBATCH_CONSTRAINT"),
    SlurmOption("cpus-per-gpu", variable="SBATCH_CPUS_PER_GPU"),
    SlurmOption("cpus-per-task", "c"),
    SlurmOption("dependency", "d"),
    SlurmOption("error", "e", variable="SBATCH_ERROR"),
    SlurmOption("exclude", "x", support="needed", why="a pool of one machine has one node: leave it out"),
    SlurmOption("exclusive", takes="optional", variable="SBATCH_EXCLUSIVE"),
    SlurmOption("export", takes="optional", variable="SBATCH_EXPORT"),
    SlurmOption("gpus", "G", variable="SBATCH_GPUS"),
    SlurmOption("gpus-per-node", variable="SBATCH_GPUS_PER_NODE"),
    SlurmOption("gpus-per-socket", variable="SBATCH_GPUS_PER_SOCKET"),
    SlurmOption("gpus-per-task", variable="SBATCH_GPUS_PER_TASK"),
    SlurmOption("gres", variable="SBATCH_GRES"),
    SlurmOption("input", "i", variable="SBATCH_INPUT"),
    SlurmOption("job-name", "J", variable="SBATCH_JOB_NAME"),
    SlurmOption("kill-on-invalid-dep"),
    SlurmOption("mail-type"),
    SlurmOption("mail-user"),
    SlurmOption("mem", variable="SBATCH_MEM_PER_NODE"),
    SlurmOption("mem-per-cpu", variable="SBATCH_MEM_PER_CPU"),
    SlurmOption("mem-per-gpu", variable="SBATCH_MEM_PER_GPU"),
    SlurmOption("mincpus"),
    SlurmOption("no-requeue", takes="nothing", variable="SBATCH_NO_REQUEUE"),
    SlurmOption("nodelist", "w"),
    SlurmOption("nodes", "N"),
    SlurmOption("ntasks", "n"),
    SlurmOption("ntasks-per-gpu"),
    SlurmOption("ntasks-per-node"),
    SlurmOption("open-mode", variable="SBATCH_OPEN_MODE"),
    SlurmOption("output", "o", variable="SBATCH_OUTPUT"),
    SlurmOption("parsable", takes="nothing"),
    SlurmOption("partition", "p", variable="SBATCH_PARTITION"),
    SlurmOption("qos", "q", variable="SBATCH_QOS"),
    SlurmOption("quiet", "Q", takes="nothing"),
    SlurmOption("requeue", takes="nothing", variable="SBATCH_REQUEUE"),
    SlurmOption("signal", variable="SBATCH_SIGNAL"),
    SlurmOption("sockets-per-node"),
    SlurmOption("tasks-per-node"),
    SlurmOption("test-only", takes="nothing"),
    SlurmOption("time", "t", variable="SBATCH_TIMELIMIT"),
    SlurmOption("verbose", "v", takes="nothing", variable="SBATCH_DEBUG"),
    SlurmOption("wait", "W", takes="nothing", variable="SBATCH_WAIT"),
    SlurmOption("wrap"),
    SlurmOption("acctg-freq", variable="SBATCH_ACCTG_FREQ", support="advice", why=_ACCOUNTING),
    SlurmOption("contiguous", takes="nothing", support="advice", why=_ONE_MACHINE),
    SlurmOption("core-spec", "S", variable="SBATCH_CORE_SPEC", support="advice", why=_MACHINE),
    SlurmOption("cores-per-socket", support="advice", why=_BINDING),
    SlurmOption("cpu-freq", variable="SBATCH_CPU_FREQ_REQ", support="advice", why=_MACHINE),
    SlurmOption("deadline", support="advice", why=_NO_BACKFILL),
    SlurmOption("delay-boot", variable="SBATCH_DELAY_BOOT", support="advice", why=_MACHINE),
    SlurmOption("distribution", "m", variable="SBATCH_DISTRIBUTION", support="advice", why=_BINDING),
    SlurmOption("extra-node-info", "B", support="advice", why=_BINDING),
    SlurmOption(
        "get-user-env",
        takes="optional",
        variable="SBATCH_GET_USER_ENV",
        support="advice",
        why="a job has the variables of the shell that submits it",
    ),
    SlurmOption("gpu-bind", variable="SBATCH_GPU_BIND", support="advice", why=_BINDING),
    SlurmOption("gpu-freq", variable="SBATCH_GPU_FREQ", support="advice", why=_MACHINE),
    SlurmOption("gres-flags", variable="SBATCH_GRES_FLAGS", support="advice", why=_BINDING),
    SlurmOption("hint", variable="SBATCH_HINT", support="advice", why=_BINDING),
    SlurmOption(
        "ignore-pbs", takes="nothing", support="advice", why="lines of other schedulers are comments"
    ),
    SlurmOption("mcs-label", support="advice", why="projects hold jobs apart"),
    SlurmOption("mem-bind", variable="SBATCH_MEM_BIND", support="advice", why=_BINDING),
    SlurmOption("network", variable="SBATCH_NETWORK", support="advice", why=_ONE_MACHINE),
    SlurmOption("nice", takes="optional", support="advice", why="write --qos with a priority in the table"),
    SlurmOption(
        "no-kill",
        "k",
        takes="optional",
        variable="SBATCH_NO_KILL",
        support="advice",
        why="a job of one machine ends with it",
    ),
    SlurmOption("ntasks-per-core", support="advice", why=_BINDING),
    SlurmOption("ntasks-per-socket", support="advice", why=_BINDING),
    SlurmOption(
        "overcommit",
        "O",
        takes="nothing",
        variable="SBATCH_OVERCOMMIT",
        support="advice",
        why="CPU cores aren't reserved",
    ),
    SlurmOption(
        "oversubscribe", "s", takes="nothing", support="advice", why="CPU cores are shared in any case"
    ),
    SlurmOption("power", variable="SBATCH_POWER", support="advice", why=_MACHINE),
    SlurmOption("prefer", support="advice", why="a preference of nodes needs several nodes"),
    SlurmOption("priority", support="advice", why="write --qos with a priority in the table"),
    SlurmOption("profile", variable="SBATCH_PROFILE", support="advice", why=_ACCOUNTING),
    SlurmOption("propagate", takes="optional", support="advice", why="the limits of the pool's jobs hold"),
    SlurmOption(
        "spread-job", takes="nothing", variable="SBATCH_SPREAD_JOB", support="advice", why=_ONE_MACHINE
    ),
    SlurmOption("switches", variable="SBATCH_REQ_SWITCH", support="advice", why=_ONE_MACHINE),
    SlurmOption("thread-spec", variable="SBATCH_THREAD_SPEC", support="advice", why=_MACHINE),
    SlurmOption("threads-per-core", variable="SBATCH_THREADS_PER_CORE", support="advice", why=_BINDING),
    SlurmOption("time-min", support="advice", why=_NO_BACKFILL),
    SlurmOption("tmp", support="advice", why="disk space isn't counted"),
    SlurmOption(
        "use-min-nodes", takes="nothing", variable="SBATCH_USE_MIN_NODES", support="advice", why=_ONE_MACHINE
    ),
    SlurmOption("wait-all-nodes", variable="SBATCH_WAIT_ALL_NODES", support="advice", why=_ONE_MACHINE),
    SlurmOption("wckey", variable="SBATCH_WCKEY", support="advice", why=_ACCOUNTING),
    SlurmOption("batch", variable="SBATCH_BATCH", support="needed", why=_ONE_MACHINE),
    SlurmOption("bb", variable="SBATCH_BURST_BUFFER", support="needed", why="there are no burst buffers"),
    SlurmOption("bbf", support="needed", why="there are no burst buffers"),
    SlurmOption(
        "cluster-constraint",
        variable="SBATCH_CLUSTER_CONSTRAINT",
        support="needed",
        why="a pool is one cluster",
    ),
    SlurmOption("clusters", "M", variable="SBATCH_CLUSTERS", support="needed", why="a pool is one cluster"),
    SlurmOption(
        "container", variable="SBATCH_CONTAINER", support="needed", why="write weir submit --image instead"
    ),
    SlurmOption("export-file", support="needed", why="write the variables as --export=NAME=VALUE"),
    SlurmOption("gid", support="needed", why="a job runs as its submitter"),
    SlurmOption(
        "hold",
        "H",
        takes="nothing",
        support="needed",
        why="submit it, and write weir suspend with its number",
    ),
    SlurmOption("licenses", "L", support="needed", why="licences aren't counted"),
    SlurmOption("nodefile", "F", support="needed", why="write the nodes as --nodelist"),
    SlurmOption(
        "ntasks-per-tres", support="needed", why="write the number of tasks as --ntasks or --ntasks-per-gpu"
    ),
    SlurmOption("reboot", takes="nothing", support="needed", why="a job can't restart the machine"),
    SlurmOption(
        "reservation", variable="SBATCH_RESERVATION", support="needed", why="there are no reservations"
    ),
    SlurmOption("uid", support="needed", why="a job runs as its submitter"),
)
WAIT_FOR_SWITCH = "SBATCH_WAIT4SWITCH"
"""Variable without an option of its own."""


class OptionTable:
    """Options of a program, by name and by letter."""

    def __init__(self, program: str, options: Iterable[SlurmOption]) -> None:
        self.program = program
        self.by_name = {option.name: option for option in options}
        self.by_letter = {option.short: option for option in self.by_name.values() if option.short}


SBATCH = OptionTable("sbatch", OPTIONS)
