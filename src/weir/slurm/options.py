"""Options of sbatch: names, arguments, variables, and how far a pool follows each.

An option is `mapped` if a pool follows it. It is `advice` if a job is right without it, and `needed` if a job
could be wrong without it. Then only `--best-effort` goes on.
"""

from collections.abc import Iterable
from functools import partial
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


_advice = partial(SlurmOption, support="advice")
_needed = partial(SlurmOption, support="needed")
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
    _advice("comment", why="a workload has no comment"),
    SlurmOption("constraint", "C", variable="SBATCH_CONSTRAINT"),
    SlurmOption("cpus-per-gpu", variable="SBATCH_CPUS_PER_GPU"),
    SlurmOption("cpus-per-task", "c"),
    SlurmOption("dependency", "d"),
    SlurmOption("error", "e", variable="SBATCH_ERROR"),
    _needed("exclude", "x", why="a pool of one machine has one node: leave it out"),
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
    _advice("acctg-freq", variable="SBATCH_ACCTG_FREQ", why=_ACCOUNTING),
    _advice("contiguous", takes="nothing", why=_ONE_MACHINE),
    _advice("core-spec", "S", variable="SBATCH_CORE_SPEC", why=_MACHINE),
    _advice("cores-per-socket", why=_BINDING),
    _advice("cpu-freq", variable="SBATCH_CPU_FREQ_REQ", why=_MACHINE),
    _advice("deadline", why=_NO_BACKFILL),
    _advice("delay-boot", variable="SBATCH_DELAY_BOOT", why=_MACHINE),
    _advice("distribution", "m", variable="SBATCH_DISTRIBUTION", why=_BINDING),
    _advice("extra-node-info", "B", why=_BINDING),
    _advice(
        "get-user-env",
        takes="optional",
        variable="SBATCH_GET_USER_ENV",
        why="a job has the variables of the shell that submits it",
    ),
    _advice("gpu-bind", variable="SBATCH_GPU_BIND", why=_BINDING),
    _advice("gpu-freq", variable="SBATCH_GPU_FREQ", why=_MACHINE),
    _advice("gres-flags", variable="SBATCH_GRES_FLAGS", why=_BINDING),
    _advice("hint", variable="SBATCH_HINT", why=_BINDING),
    _advice("ignore-pbs", takes="nothing", why="lines of other schedulers are comments"),
    _advice("mcs-label", why="projects hold jobs apart"),
    _advice("mem-bind", variable="SBATCH_MEM_BIND", why=_BINDING),
    _advice("network", variable="SBATCH_NETWORK", why=_ONE_MACHINE),
    _advice("nice", takes="optional", why="write --qos with a priority in the table"),
    _advice(
        "no-kill", "k", takes="optional", variable="SBATCH_NO_KILL", why="a job of one machine ends with it"
    ),
    _advice("ntasks-per-core", why=_BINDING),
    _advice("ntasks-per-socket", why=_BINDING),
    _advice(
        "overcommit", "O", takes="nothing", variable="SBATCH_OVERCOMMIT", why="CPU cores aren't reserved"
    ),
    _advice("oversubscribe", "s", takes="nothing", why="CPU cores are shared in any case"),
    _advice("power", variable="SBATCH_POWER", why=_MACHINE),
    _advice("prefer", why="a preference of nodes needs several nodes"),
    _advice("priority", why="write --qos with a priority in the table"),
    _advice("profile", variable="SBATCH_PROFILE", why=_ACCOUNTING),
    _advice("propagate", takes="optional", why="the limits of the pool's jobs hold"),
    _advice("spread-job", takes="nothing", variable="SBATCH_SPREAD_JOB", why=_ONE_MACHINE),
    _advice("switches", variable="SBATCH_REQ_SWITCH", why=_ONE_MACHINE),
    _advice("thread-spec", variable="SBATCH_THREAD_SPEC", why=_MACHINE),
    _advice("threads-per-core", variable="SBATCH_THREADS_PER_CORE", why=_BINDING),
    _advice("time-min", why=_NO_BACKFILL),
    _advice("tmp", why="disk space isn't counted"),
    _advice("use-min-nodes", takes="nothing", variable="SBATCH_USE_MIN_NODES", why=_ONE_MACHINE),
    _advice("wait-all-nodes", variable="SBATCH_WAIT_ALL_NODES", why=_ONE_MACHINE),
    _advice("wckey", variable="SBATCH_WCKEY", why=_ACCOUNTING),
    _needed("batch", variable="SBATCH_BATCH", why=_ONE_MACHINE),
    _needed("bb", variable="SBATCH_BURST_BUFFER", why="there are no burst buffers"),
    _needed("bbf", why="there are no burst buffers"),
    _needed("cluster-constraint", variable="SBATCH_CLUSTER_CONSTRAINT", why="a pool is one cluster"),
    _needed("clusters", "M", variable="SBATCH_CLUSTERS", why="a pool is one cluster"),
    _needed("container", variable="SBATCH_CONTAINER", why="write weir submit --image instead"),
    _needed("export-file", why="write the variables as --export=NAME=VALUE"),
    _needed("gid", why="a job runs as its submitter"),
    _needed("hold", "H", takes="nothing", why="submit it, and write weir suspend with its number"),
    _needed("licenses", "L", why="licences aren't counted"),
    _needed("nodefile", "F", why="write the nodes as --nodelist"),
    _needed("ntasks-per-tres", why="write the number of tasks as --ntasks or --ntasks-per-gpu"),
    _needed("reboot", takes="nothing", why="a job can't restart the machine"),
    _needed("reservation", variable="SBATCH_RESERVATION", why="there are no reservations"),
    _needed("uid", why="a job runs as its submitter"),
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
