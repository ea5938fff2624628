"""`weir import`: queues of other schedulers as departments and projects, and job scripts as submissions."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from weir.cli.kube.option_checks import one
from weir.cli.options.mistakes import option_mistakes

if TYPE_CHECKING:
    from weir.kubernetes.migrate.queue_objects import Conversion

    Converter = Callable[[Iterable[Mapping[str, Any]]], Conversion]

app = App(name="import", help="Convert queues and job scripts of other schedulers.")
app.command(
    "weir.cli.slurm.import_script:app",
    name="sbatch",
    help="Convert a job script of Slurm to a file for `weir submit -f`.",
)
_FILES = Parameter(consume_multiple=True, negative=())


@app.command(name="kai")
def kai(*files: Annotated[Path, _FILES]) -> int:
    """Convert the queues of KAI Scheduler; print the objects, and a ledger on standard error.

    Parameters
    ----------
    files
        Output of `kubectl get queues.scheduling.run.ai,podgroups.scheduling.run.ai -A -o yaml`; - is standard
        input. Pod groups tell the namespaces of queues.
    """
    from weir.kubernetes.migrate.kai import convert

    return _print(files, convert)


@app.command(name="kueue")
def kueue(
    *files: Annotated[Path, _FILES],
    devices: str | None = None,
) -> int:
    """Convert the queues of Kueue; print the objects, and a ledger on standard error.

    Parameters
    ----------
    files
        Output of `kubectl get clusterqueues,cohorts,localqueues -A -o yaml`; - is standard input.
    devices
        Resources that are GPUs, separated by commas, each with =WEIGHT if it is a part of one; those of
        NVIDIA, AMD and Intel by default.
    """
    from weir.kubernetes.migrate.kueue import convert
    from weir.kubernetes.translate.device_list import read_devices
    from weir.kubernetes.translate.device_resources import DeviceResources

    with option_mistakes():
        resources = DeviceResources() if devices is None else one("--devices", read_devices, devices)
    return _print(files, lambda manifests: convert(manifests, resources))


@app.command(name="runai")
def runai(*files: Annotated[Path, _FILES]) -> int:
    """Convert the projects of Run:ai; print the objects, and a ledger on standard error.

    Parameters
    ----------
    files
        Answers of the REST: /api/v1/org-unit/projects and /api/v1/org-unit/departments; - is standard input.
    """
    from weir.kubernetes.migrate.runai import convert

    return _print(files, convert)


def _print(files: Iterable[Path], convert: "Converter") -> int:
    """Print the conversion of files; return the exit code."""
    from weir.kubernetes.install.manifests import as_yaml
    from weir.kubernetes.migrate.documents import read_objects
    from weir.model.scenario import InvalidFile

    names = tuple(files) or (Path("-"),)
    try:
        conversion = convert(manifest for name in names for manifest in read_objects(name))
    except InvalidFile as error:
        print(f"weir: {error}", file=sys.stderr)
        return 2
    for line in conversion.ledger.lines:
        print(line, file=sys.stderr)
    if not conversion.objects and not conversion.ledger.lines:
        print(
            "weir: the input holds no objects; `weir import --help` lists the accepted objects.",
            file=sys.stderr,
        )
    sys.stdout.write(as_yaml(conversion.objects))
    return 0 if conversion.objects else 1
