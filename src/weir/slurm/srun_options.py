"""Options of srun inside a job."""

from weir.slurm.options import OPTIONS, OptionTable, SlurmOption

_WHOLE_JOB = (
    *("account", "partition", "qos", "job-name", "time", "mem", "mem-per-cpu", "mem-per-gpu", "constraint"),
    *("nodelist", "exclude", "comment", "reservation", "dependency", "begin", "deadline", "licenses", "nice"),
    *("wckey", "mail-type", "mail-user", "tmp", "mincpus", "hint", "acctg-freq", "profile", "signal"),
    *("cpu-bind", "mem-bind", "gpu-bind", "distribution", "cpu-freq", "gpu-freq", "network", "core-spec"),
    *("threads-per-core", "cores-per-socket", "sockets-per-node", "ntasks-per-core", "ntasks-per-socket"),
    *("extra-node-info", "cpus-per-gpu", "ntasks-per-gpu", "gpus-per-socket", "switches", "delay-boot"),
    *("gres-flags", "epilog", "prolog", "task-epilog", "task-prolog", "slurmd-debug", "threads"),
    *("max-threads", "relative", "power", "propagate", "thread-spec", "bcast", "compress", "open-mode"),
    "msg-timeout",
)
_LETTERS = {option.name: option.short for option in OPTIONS} | {"threads": "T", "relative": "r"}
_FLAGS = {
    "unbuffered": "u",
    "overcommit": "O",
    "oversubscribe": "s",
    "contiguous": "",
    "disable-status": "X",
    "preserve-env": "E",
    "no-allocate": "Z",
    "quit-on-interrupt": "",
    "use-min-nodes": "",
    "spread-job": "",
    "whole": "",
    "send-libs": "",
    "verbose": "v",
    "quiet": "Q",
    "no-shell": "",
    "wait-for-switch": "",
}
_OPTIONAL = ("propagate", "nice", "bcast", "compress")

SRUN = OptionTable(
    "srun",
    (
        SlurmOption("ntasks", "n"),
        SlurmOption("nodes", "N"),
        SlurmOption("cpus-per-task", "c"),
        SlurmOption("ntasks-per-node"),
        SlurmOption("tasks-per-node"),
        SlurmOption("gpus-per-task"),
        SlurmOption("gpus", "G"),
        SlurmOption("gpus-per-node"),
        SlurmOption("gres"),
        SlurmOption("label", "l", takes="nothing"),
        SlurmOption("output", "o"),
        SlurmOption("error", "e"),
        SlurmOption("input", "i"),
        SlurmOption("chdir", "D"),
        SlurmOption("export", takes="optional"),
        SlurmOption("exact", takes="nothing"),
        SlurmOption("exclusive", takes="optional"),
        SlurmOption("overlap", takes="nothing"),
        SlurmOption("kill-on-bad-exit", "K", takes="optional"),
        SlurmOption("wait", "W"),
        SlurmOption("multi-prog", takes="nothing"),
        SlurmOption("mpi"),
        SlurmOption("pty", takes="optional", support="needed", why="write weir exec to get a terminal"),
        SlurmOption("jobid", support="needed", why="a step belongs to the job that starts it"),
        SlurmOption("het-group", support="needed", why="there are no heterogeneous jobs"),
        SlurmOption("container", support="needed", why="write weir submit --image instead"),
        SlurmOption("uid", support="needed", why="a task runs as the person of its job"),
        SlurmOption("gid", support="needed", why="a task runs as the person of its job"),
        SlurmOption("reboot", takes="nothing", support="needed", why="a job can't restart the machine"),
        *(SlurmOption(name, letter, takes="nothing", support="advice") for name, letter in _FLAGS.items()),
        *(
            SlurmOption(
                name,
                _LETTERS.get(name, ""),
                takes="optional" if name in _OPTIONAL else "value",
                support="advice",
                why="the whole job has it",
            )
            for name in _WHOLE_JOB
        ),
    ),
)
