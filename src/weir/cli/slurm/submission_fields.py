"""Fields of a submission for a job script, and the outcome of each directive."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.cli.output.formatting import counted
from weir.cli.slurm.site_table import SiteNames
from weir.slurm.array_option import array_text
from weir.slurm.batch_request import BatchRequest
from weir.slurm.directives import Word
from weir.slurm.errors import SlurmError
from weir.slurm.ledger import DirectiveOutcome, OutcomeKind
from weir.slurm.node_resources import NodeResources, node_resources
from weir.slurm.pod_resources import pod_resources

_DEPENDENCIES = {
    "after": "after",
    "afterok": "after_ok",
    "afternotok": "after_not_ok",
    "afterany": "after_any",
}
_OF_SCRIPT = {
    "job-name": "name of the job and of the workload",
    "output": "file beside the log of the pod",
    "error": "file beside the log of the pod",
    "input": "input of the script",
    "open-mode": "how the files are opened",
    "export": "variables of the job",
    "chdir": "directory",
    "wrap": "the script",
    "requeue": "Weir starts a preempted job again",
    "no-requeue": "a stopped job isn't started again",
    "wait": "waits for the end",
    "parsable": "prints the number alone",
    "quiet": "prints no hints",
    "verbose": "prints the whole ledger",
    "test-only": "submits nothing",
}
_GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres")
_CPUS = ("cpus-per-task", "cpus-per-gpu", "mincpus")
_TASKS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu")
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")


@dataclass(slots=True)
class MappedScript:
    """A submission without command and environment, its resources, and its ledger."""

    fields: dict[str, Any]
    resources: NodeResources
    ledger: list[DirectiveOutcome] = field(default_factory=list)


class _Mapper:
    """Build the submission of a request, with the outcome of each option."""

    def __init__(
        self, request: BatchRequest, names: SiteNames, models: Collection[str], *, best_effort: bool
    ) -> None:
        self.request = request
        self.names = names
        self.models = models
        self.best_effort = best_effort
        self.fields: dict[str, Any] = {}
        self.ledger: list[DirectiveOutcome] = []
        self.refusals: list[str] = []

    def is_mapped(self, name: str) -> bool:
        """Return True if an option is given and has an effect."""
        return self.request.has(name) and self.request.options[name].option.support == "mapped"

    def note(self, name: str, outcome: OutcomeKind, sentence: str) -> None:
        """Record the outcome of an option."""
        given = self.request.options[name]
        self.ledger.append(DirectiveOutcome(outcome, given.written, sentence, given.where))

    def need(self, name: str, sentence: str) -> None:
        """Record an option without a counterpart: refused, or ignored with --best-effort."""
        given = self.request.options[name]
        if self.best_effort:
            self.note(name, "ignored", sentence)
        else:
            place = f"{given.where}: " if given.where else ""
            self.refusals.append(f"{place}{given.written}: {sentence}")


def map_job(
    request: BatchRequest,
    names: SiteNames,
    *,
    foreign: Sequence[Word] = (),
    models: Collection[str] = (),
    best_effort: bool = False,
    on_cluster: bool = False,
) -> MappedScript:
    """Return the submission of a request. `models` are the GPU models of the pool or cluster.

    Raises:
        SlurmError: an option has no counterpart, and `best_effort` is off.
    """
    mapper = _Mapper(request, names, models, best_effort=best_effort)
    if on_cluster:
        resources = pod_resources(request, best_effort=best_effort)
    else:
        resources = node_resources(request, fold=best_effort)
    _map_site(mapper)
    _map_resources(mapper, resources, limits_memory=not on_cluster)
    _map_times(mapper)
    _map_rest(mapper)
    for word in foreign:
        if not best_effort:
            mapper.refusals.append(
                f"line {word.line}: {word.text!r} is for another scheduler: write it as #SBATCH"
            )
        mapper.ledger.append(
            DirectiveOutcome("ignored", word.text, "is for another scheduler", f"line {word.line}")
        )
    if mapper.refusals:
        raise SlurmError("; ".join(mapper.refusals) + "; --best-effort goes on without")
    return MappedScript(mapper.fields, resources, mapper.ledger)


def _map_site(mapper: _Mapper) -> None:
    """Map the names of the site: account, partition, QOS and constraint."""
    request, names = mapper.request, mapper.names
    if request.has("account"):
        account = request.text("account")
        project = names.name("accounts", account)
        mapper.fields["project"] = project or account
        outcome: OutcomeKind = "kept" if mapper.fields["project"] == account else "changed"
        mapper.note("account", outcome, f"project {mapper.fields['project']}")
    elif names.project is not None:
        mapper.fields["project"] = names.project
    for option, kind in (("partition", "partitions"), ("qos", "qos")):
        if request.has(option):
            _apply(mapper, option, kind, request.text(option).split(","))
    if request.has("constraint"):
        _apply(mapper, "constraint", "constraints", request.text("constraint").split("&"))
    if request.has("nodelist"):
        from weir.slurm.hostlists import expand_hosts

        mapper.fields["nodes"] = expand_hosts(request.text("nodelist"))
        mapper.note("nodelist", "kept", f"nodes {', '.join(mapper.fields['nodes'])}")


def _apply(mapper: _Mapper, option: str, kind: str, words: Sequence[str]) -> None:
    """Apply the rules of the site table for names; note names without a rule."""
    rules = [mapper.names.rule(kind, word.strip()) for word in words]
    mapped = [rule for rule in rules if rule is not None]
    if len(mapped) < len(rules) or (option == "partition" and len(rules) > 1 and len(mapped) > 1):
        listed = ", ".join(
            word for word, rule in zip(words, rules, strict=True) if rule is None
        ) or ", ".join(words)
        mapper.note(
            option,
            "ignored",
            f"unknown {kind[:-1] if kind != 'qos' else kind} {listed}: not in the site table",
        )
        return
    merged: dict[str, Any] = {}
    for rule in mapped:
        merged |= rule
    for key, value in merged.items():
        mapper.fields[key] = value
    meaning = ", ".join(f"{key} {_shown(value)}" for key, value in merged.items()) or "nothing more"
    mapper.note(option, "changed", meaning)


def _map_resources(mapper: _Mapper, resources: NodeResources, *, limits_memory: bool) -> None:
    request, fields = mapper.request, mapper.fields
    whole = "for the whole job" if resources.pods == 1 else f"in each of {resources.pods} pods"
    if resources.gpus:
        fields["gpus"] = resources.gpus
        if resources.models:
            fields["gpu_models"] = [_model(mapper, model) for model in resources.models]
    if resources.cpus is not None:
        fields["cpu"] = resources.cpus
    if resources.memory is not None:
        fields["memory"] = f"{resources.memory}Mi"
    model = f" of model {fields['gpu_models'][0]}" if resources.models else ""
    gpus = f"{counted(resources.gpus, 'GPU')}{model} {whole}"
    for name in _GPUS:
        summed = name in ("gpus-per-task", "gpus-per-socket") or resources.folded > 1
        summed = summed or (name == "gpus" and resources.pods > 1)
        _note_all(mapper, (name,), gpus, summed=summed or bool(model))
    cpus = f"{counted(resources.cpus, 'CPU')} {whole}" if resources.cpus is not None else "no CPUs stated"
    _note_all(mapper, _TASKS, f"{counted(resources.tasks, 'task')}, which srun starts; {cpus}", summed=False)
    _note_all(mapper, _CPUS, cpus, summed=resources.tasks > 1)
    memory = "no limit of memory" if resources.memory is None else f"{resources.memory} MiB {whole}"
    if not limits_memory and resources.memory is not None:
        memory += ", requested and not limited"
    _note_all(mapper, _MEMORY, memory, summed=not request.has("mem") or not limits_memory)
    _note_nodes(mapper, resources)
    for other in request.other_resources:
        mapper.need("gres", f"{other.written} isn't counted: leave it out")


def _note_nodes(mapper: _Mapper, resources: NodeResources) -> None:
    request, pods = mapper.request, resources.pods
    if request.has("sockets-per-node"):
        mapper.note("sockets-per-node", "ignored", "tasks aren't bound to sockets")
    if pods > 1:
        mapper.fields["workers"] = pods
        sentence = f"{pods} pods, and each runs the script, in which srun starts the tasks of its own pod"
        if request.has("nodes"):
            mapper.note("nodes", "changed", sentence)
        else:
            mapper.ledger.append(DirectiveOutcome("changed", f"--nodes={pods}", sentence, "implied"))
    elif request.has("nodes"):
        if resources.folded > 1:
            mapper.note("nodes", "changed", f"all tasks of {resources.folded} nodes run on the one node")
        elif request.nodes and request.nodes[0] > 1:
            mapper.note("nodes", "changed", "one node, as there is one task")
        else:
            mapper.note("nodes", "kept", "one node")
    if request.has("exclusive"):
        mapper.note("exclusive", "ignored", "other jobs may use GPUs and CPUs that this one leaves free")


def _note_all(mapper: _Mapper, options: Sequence[str], sentence: str, *, summed: bool) -> None:
    for name in options:
        if mapper.request.has(name):
            mapper.note(name, "changed" if summed else "kept", sentence)


def _model(mapper: _Mapper, written: str) -> str:
    """Return the pool's model of a GPU type: of the table, or one that is spelled like it."""
    named = mapper.names.name("gpus", written)
    if named is not None:
        return named
    alike = [model for model in mapper.models if model.lower() == written.lower()]
    within = [model for model in mapper.models if written.lower() in model.lower()]
    matches = alike or within
    return matches[0] if len(matches) == 1 or alike else written.upper() if written.islower() else written


def _map_times(mapper: _Mapper) -> None:
    request, fields = mapper.request, mapper.fields
    if request.has("time"):
        if request.limit_minutes is None:
            mapper.note("time", "ignored", "no limit is the default")
        else:
            fields["max_runtime"] = f"{request.limit_minutes}m"
            mapper.note("time", "kept", f"ends after {request.limit_minutes} minutes of run time")
    if request.has("begin"):
        if request.begin is not None:
            fields["begin"] = request.begin.isoformat(timespec="seconds")
        mapper.note("begin", "kept", f"starts at {fields.get('begin', 'once')} or later")
    if mapper.is_mapped("signal"):
        fields["grace"] = f"{request.grace_s:g}s"
        mapper.note("signal", "kept", "comes before the time limit, and as notice before a preemption")
    fields["retries"] = 0


def _map_rest(mapper: _Mapper) -> None:
    _map_dependencies(mapper)
    request = mapper.request
    if request.array is not None:
        mapper.fields["array"] = array_text(request.text("array"))
        mapper.note("array", "kept", f"{len(request.array)} tasks of an array")
    for name in ("mail-type", "mail-user"):
        if mapper.is_mapped(name):
            mapper.note(
                name,
                "ignored",
                "a rule for mail covers all your jobs: add one with `weir notify add mail ADDRESS --on end`",
            )
    for name, sentence in _OF_SCRIPT.items():
        if mapper.is_mapped(name):
            mapper.note(name, "kept", sentence)
    for name, given in request.options.items():
        if given.option.support == "advice":
            mapper.note(name, "ignored", given.option.why)
        elif given.option.support == "needed":
            mapper.need(name, given.option.why)


def _map_dependencies(mapper: _Mapper) -> None:
    request = mapper.request
    for dependency in request.dependencies:
        mapper.fields.setdefault(_DEPENDENCIES[dependency.kind], []).append(dependency.job)
    for unmet in request.unmet:
        mapper.need("dependency", unmet.why)
    if request.dependencies and not request.unmet:
        mapper.note("dependency", "kept", "starts once the other jobs are as far")
    if request.has("kill-on-invalid-dep"):
        right = request.text("kill-on-invalid-dep").lower() in ("yes", "y")
        sentence = "a job whose condition can't be met any more is stopped"
        mapper.note("kill-on-invalid-dep", "kept" if right else "changed", sentence)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
