"""`weir kube`: what installs Weir in a cluster."""

import sys
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

app = App(name="kube", help="Install Weir in a Kubernetes cluster.")


@app.command(name="manifests")
def manifests(
    *,
    namespace: Annotated[str, Parameter(name=("--namespace", "-n"))] = "weir-system",
    image: str | None = None,
    replicas: Annotated[int, Parameter(validator=Number(gte=1, lte=9))] = 2,
    scheduler: str = "weir",
) -> int:
    """Print all objects of an installation, for kubectl.

    Parameters
    ----------
    namespace
        Where Weir runs.
    image
        The container image; weir:VERSION if none is named.
    replicas
        How many run; one leads, the others stand by.
    scheduler
        What pods write as schedulerName to be placed by it.
    """
    from weir import __version__
    from weir.backends.kubernetes.own.manifests import Installation, as_yaml
    from weir.backends.kubernetes.own.manifests import manifests as objects

    chosen = Installation(namespace, image or f"weir:{__version__}", replicas, scheduler)
    print(f"# Weir {__version__}, made by `weir kube manifests`.")
    sys.stdout.write(as_yaml(objects(chosen)))
    return 0
