"""Command lines of Slurm, kubectl, Run:ai and Kueue, each with the command of Weir in its place."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile


def _by_word(meanings: dict[str, str]) -> dict[str, str]:
    """Return the meaning of each word."""
    return {word: meaning for meaning, words in meanings.items() for word in words.split()}


_TOOLS = ("kubectl", "kueuectl", "kueue", "runai", "scontrol", "sacctmgr")
_ACTIONS = _by_word(
    {
        "list": "list ls get",
        "show": "show describe info inspect",
        "create": "create add new submit start launch apply",
        "set": "set update edit patch modify change",
        "delete": "delete del rm remove cancel kill stop terminate",
        "suspend": "suspend pause hold uhold",
        "resume": "resume release unsuspend unpause",
        "rerun": "rerun requeue requeuehold restart retry clone",
        "logs": "logs log tail output",
        "exec": "exec",
        "shell": "shell bash attach connect",
        "forward": "port-forward",
        "drain": "drain cordon",
        "undrain": "undrain uncordon",
        "top": "top",
    }
)
_KINDS = _by_word(
    {
        "workload": "workload wl job pod po step training train workspace interactive inference pytorch mpi "
        "tensorflow jax xgboost distributed",
        "node": "node no nodepool node-pool machine resourceflavor rf nodename",
        "project": "project queue clusterqueue cq localqueue lq account namespace ns quota resourcequota "
        "association assoc qos partition",
        "department": "department cohort",
        "member": "user member role access-rule rolebinding coordinator",
        "token": "token application serviceaccount sa",
        "secret": "secret credential",
        "template": "template",
        "schedule": "schedule cronjob cron crontab",
        "sweep": "sweep experiment",
        "event": "event",
        "window": "reservation maintenance",
        "class": "priorityclass pc workloadpriorityclass",
        "cluster": "cluster pool config",
    }
)
_KEYS = {
    **dict.fromkeys(("jobid", "job"), "workload"),
    **dict.fromkeys(("nodename", "node"), "node"),
    **dict.fromkeys(("reservationname", "reservation"), "window"),
    "partitionname": "project",
}
"""Kinds of the names in words such as JobId=7."""
_COMMANDS = {
    "workload": {
        "list": "weir list",
        "show": "weir describe NAME",
        "create": "weir submit -p PROJECT --gpus 1 -- COMMAND",
        "set": "weir priority NAME PRIORITY",
        "delete": "weir stop NAME",
        "suspend": "weir suspend NAME",
        "resume": "weir resume NAME",
        "rerun": "weir rerun NAME",
        "logs": "weir logs NAME",
        "exec": "weir exec NAME -- COMMAND",
        "shell": "weir shell NAME",
        "forward": "ssh -L 8888:localhost:8888 weir-NAME",
        "top": "weir top",
    },
    "node": {
        "list": "weir nodes",
        "show": "weir nodes show NAME",
        "set": "weir drain NAME",
        "drain": "weir drain NAME",
        "undrain": "weir undrain NAME",
        "top": "weir top",
    },
    "project": {
        "list": "weir project list",
        "show": "weir project show NAME",
        "create": "weir project create NAME --gpus 4",
        "set": "weir project set NAME --gpus 4",
        "delete": "weir project delete NAME",
        "top": "weir top",
    },
    "department": {
        "list": "weir department list",
        "show": "weir department show NAME",
        "create": "weir department create NAME --gpus 4",
        "set": "weir department set NAME --gpus 4",
        "delete": "weir department delete NAME",
    },
    "member": {
        "list": "weir project members PROJECT",
        "show": "weir project members PROJECT",
        "create": "weir project members add PROJECT NAME",
        "set": "weir project members add PROJECT NAME --role lead",
        "delete": "weir project members remove PROJECT NAME",
    },
    "token": {
        "list": "weir token list",
        "create": "weir token create NAME -p PROJECT",
        "delete": "weir token revoke NAME",
    },
    "secret": {
        "list": "weir secret list -p PROJECT",
        "create": "weir secret set NAME -p PROJECT",
        "set": "weir secret set NAME -p PROJECT",
        "delete": "weir secret delete NAME -p PROJECT",
    },
    "template": {
        "list": "weir template list -p PROJECT",
        "show": "weir template show NAME -p PROJECT",
        "create": "weir template save NAME -p PROJECT -f FILE",
        "set": "weir template save NAME -p PROJECT -f FILE",
        "delete": "weir template delete NAME -p PROJECT",
    },
    "schedule": {
        "list": "weir schedule list",
        "show": "weir schedule show NAME",
        "create": 'weir schedule add --name NAME --cron "0 2 * * *" -p PROJECT -- COMMAND',
        "set": 'weir schedule add --name NAME --cron "0 2 * * *" -p PROJECT -- COMMAND',
        "delete": "weir schedule delete NAME",
        "suspend": "weir schedule suspend NAME",
        "resume": "weir schedule resume NAME",
    },
    "sweep": {
        "list": "weir sweep list",
        "show": "weir sweep show NAME",
        "create": "weir sweep -p PROJECT --param lr=log:1e-5..1 --trials 9 --rungs 1,3,9 -- COMMAND",
        "delete": "weir sweep delete NAME",
    },
    "event": {"list": "weir events", "show": "weir events"},
    "window": {
        "list": "weir maintenance",
        "show": "weir maintenance",
        "create": "weir maintenance add --from TIME --until TIME",
        "delete": "weir maintenance delete NAME",
    },
    "class": {"list": "weir priorities", "show": "weir priorities"},
    "cluster": {"list": "weir status", "show": "weir status", "top": "weir top"},
}
"""Commands of Weir by kind and action; words in capitals stand for names on the command line."""
_LINES = {
    **dict.fromkeys(("run", "srun", "queue-job"), "weir submit -p PROJECT --gpus 1 -- COMMAND"),
    "salloc": "weir shell -p PROJECT --gpus 1",
    **dict.fromkeys(("sattach", "wait"), "weir logs NAME -f"),
    **dict.fromkeys(("sstat", "seff"), "weir describe NAME"),
    **dict.fromkeys(("sprio", "explain", "pending", "reason"), "weir why NAME"),
    **dict.fromkeys(("renice", "nice"), "weir priority NAME PRIORITY"),
    **dict.fromkeys(("nvidia-smi", "gpus", "gpu"), "weir top"),
    **dict.fromkeys(("sshare", "projects", "quotas"), "weir project list"),
    **dict.fromkeys(("sreport", "usage"), "weir report usage"),
    **dict.fromkeys(("sdiag", "ping", "info"), "weir status"),
    **dict.fromkeys(("sview", "smap", "ui", "web"), "weir dashboard"),
    **dict.fromkeys(("strigger", "notifications"), "weir notify list"),
    **dict.fromkeys(("diagnostics", "check"), "weir doctor"),
    **dict.fromkeys(("cp", "sbcast", "scp", "rsync"), "scp FILE weir-NAME:"),
    **dict.fromkeys(("notebook", "lab"), "weir jupyter NAME"),
    "scrontab": "weir schedule list",
    "config": "export WEIR_PROJECT=NAME",
    "vscode": "weir code NAME",
    "watch": "weir list --watch",
    "serve": "weir up",
}
"""Commands of Weir by a first word that says it all."""
_PROJECT_OPTIONS = ("-p", "--project", "-A", "--account")
_OTHER_OPTIONS = (
    *("-n", "--namespace", "-i", "--image", "-g", "--gpu", "--gpus"),
    *("-o", "--output", "-u", "-l", "-c"),
)
_WITH_VALUE = frozenset((*_PROJECT_OPTIONS, *_OTHER_OPTIONS))
"""Options whose values are no names of objects."""
_PLACE = re.compile(r"\b(?:NAME|PROJECT|PRIORITY|COMMAND)\b")


@dataclass(slots=True)
class _Meaning:
    """Meaning of a command line."""

    action: str | None = None
    kind: str | None = None
    name: str | None = None
    project: str | None = None
    priority: str | None = None
    command: Sequence[str] = ()
    read: list[str] = field(default_factory=list)  # the words that have the meaning


def right_command(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the part of a command line that another tool has, and the command of Weir; None for others."""
    spoken = list(takewhile(lambda word: word != "--", words))
    pairs = zip(["", *spoken], spoken, strict=False)
    plain = [word for before, word in pairs if not word.startswith("-") and before not in _WITH_VALUE]
    command = words[len(spoken) + 1 :]
    tools = list(takewhile(lambda word: word in _TOOLS, plain))
    rest = plain[len(tools) :]
    if tools and not rest:
        return " ".join(tools), "weir --help"
    first = rest[0] if rest else ""
    if first in _LINES:
        line = _LINES["salloc" if "--pty" in spoken else first]
        is_bare = spoken[:1] == [first] and not command and len(plain) == len(spoken)
        found = _Meaning(read=[first], project=_project(spoken), command=rest[1:] if is_bare else command)
        found.name = next((word for word in rest[1:] if word not in _KINDS and "=" not in word), None)
        return _written(tools, found), _filled(line, found)
    found = _read(rest)
    found.project, found.command = found.project or _project(spoken), command
    if found.kind is None and found.action is None:
        return None
    if found.action in (None, "list", "show"):
        found.action = "list" if found.name is None else "show"
    if found.action == "delete" and found.read[:1] == ["stop"] and tools:
        found.action = "suspend"  # Kueue resumes what it stops
    if found.action == "create" and found.kind in (None, "workload") and (file := _file(spoken)):
        return _written(tools, found), f"weir submit -f {shlex.quote(file)}"
    usual = "node" if found.action in ("drain", "undrain") else "workload"
    line = _COMMANDS[found.kind or usual].get(found.action, "")
    return (_written(tools, found), _filled(line, found)) if line else None


def job_of(words: Sequence[str]) -> str | None:
    """Return the job of an option of squeue and sacct; None without one."""
    return _option(words, ("-j", "--job", "--jobs"))


def is_kind(word: str) -> bool:
    """Return True if a word is a kind of object of Weir or of another tool, such as `jobs`."""
    return _kind(word) is not None


def _read(words: Iterable[str]) -> _Meaning:
    """Return the meaning of words such as `describe job x` or `update NodeName=x State=drain`."""
    found = _Meaning()
    for word in words:
        key, parted, value = word.partition("=")
        key = key.lower()
        if parted:
            found.kind = found.kind or _KEYS.get(key)
            if key == "state" and found.kind == "node":
                found.action = "undrain" if value.lower() in ("resume", "idle", "undrain") else "drain"
            elif key in ("account", "accounts", "project"):
                found.project = value
            elif key == "priority":
                found.priority = value
            elif key in _KEYS or key == "name":
                found.name = found.name or value
        elif found.name is not None or (found.action is not None and key in ("where", "set")):
            continue
        elif found.action is None and key in _ACTIONS:
            found.action = _ACTIONS[key]
            found.read.append(word)
        elif (kind := _kind(key)) is not None:
            found.kind = kind
            found.read.append(word)
        else:
            found.name = word
    return found


def _kind(word: str) -> str | None:
    for ending in ("", "s", "es"):
        if word.endswith(ending) and (kind := _KINDS.get(word.removesuffix(ending))) is not None:
            return kind
    return None


def _project(words: Sequence[str]) -> str | None:
    return _option(words, _PROJECT_OPTIONS)


def _file(words: Sequence[str]) -> str | None:
    return _option(words, ("-f", "--filename"))


def _option(words: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the value of the first of these options; None without a value."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, _, value = word.partition("=")
        if option in names:
            return value or following or None
    return None


def _written(tools: Sequence[str], found: _Meaning) -> str:
    return " ".join((*tools, *found.read))


def _filled(line: str, found: _Meaning) -> str:
    """Return a command with the names that are known."""
    known = {"NAME": found.name, "PROJECT": found.project, "PRIORITY": found.priority}
    named = {word: shlex.quote(name) for word, name in known.items() if name is not None}
    if found.command:
        named["COMMAND"] = shlex.join(found.command)
    return _PLACE.sub(lambda place: named.get(place[0], place[0]), line)
