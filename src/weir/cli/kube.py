"""`weir kube`: what installs Weir in a cluster."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from cyclopts import App, Parameter
from cyclopts.validators import Number

app = App(name="kube", help="Install Weir in a Kubernetes cluster.")
T = TypeVar("T")
_NAMES = Parameter(consume_multiple=True, negative=())
_SWITCH = Parameter(negative=())
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_IMAGE = re.compile(
    r"[A-Za-z0-9][\w.:/-]*?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?", re.ASCII
)  # as strict as needed to find typing errors in a digest


@app.command(name="manifests")
def manifests(
    *,
    namespace: Annotated[str, Parameter(name=("--namespace", "-n"))] = "weir-system",
    image: str | None = None,
    replicas: Annotated[int, Parameter(validator=Number(gte=1, lte=9))] = 2,
    scheduler: str = "weir",
    devices: str | None = None,
    reachable_from: Annotated[Sequence[str], _NAMES] = (),
    refuse_node_name: Annotated[bool, _SWITCH] = False,
    require_scheduler: Annotated[bool, _SWITCH] = False,
    daemonsets_in: Annotated[Sequence[str], _NAMES] = (),
    exempt: Annotated[Sequence[str], _NAMES] = (),
) -> int:
    """Print all objects of an installation, for kubectl.

    Parameters
    ----------
    namespace
        Where Weir runs.
    image
        The container image, best as NAME@sha256:DIGEST; weir:VERSION if none is named.
    replicas
        How many run; one leads, the others stand by.
    scheduler
        What pods write as schedulerName to be placed by it.
    devices
        The resources that are devices, separated by commas; a name may end in *. Those of NVIDIA, AMD and
        Intel by default.
    reachable_from
        Ranges of addresses and namespaces that reach Weir's port, for its NetworkPolicy; any by default.
    refuse_node_name
        Refuse pods that ask for GPUs and name their node.
    require_scheduler
        Refuse pods that ask for GPUs and name another scheduler.
    daemonsets_in
        Refuse GPU pods of DaemonSets in all namespaces but these.
    exempt
        Namespaces that the three options before don't cover, beside kube-system.
    """
    from weir import __version__
    from weir.backends.kubernetes.own.manifests import Installation, as_yaml
    from weir.backends.kubernetes.own.manifests import manifests as objects
    from weir.backends.kubernetes.own.network import source
    from weir.backends.kubernetes.own.policies import OptionalPolicies
    from weir.backends.kubernetes.reading.device_list import device_names
    from weir.backends.kubernetes.reading.requests import Devices

    try:
        named = image or f"weir:{__version__}"
        _checked("--image", _image, named)
        optional = OptionalPolicies(
            refuse_node_name=refuse_node_name,
            require_scheduler=require_scheduler,
            daemonset_namespaces=_all_checked("--daemonsets-in", _namespace, daemonsets_in),
            exempt_namespaces=_all_checked("--exempt", _namespace, exempt),
        )
        chosen = Installation(
            _checked("--namespace", _namespace, namespace),
            named,
            replicas,
            _checked("--scheduler", _scheduler, scheduler),
            Devices().resources if devices is None else _checked("--devices", device_names, devices),
            _all_checked("--reachable-from", source, reachable_from),
            optional,
        )
    except ValueError as error:
        print(f"weir: {error}.", file=sys.stderr)
        return 2
    print(f"# Weir {__version__}, made by `weir kube manifests`.")
    if "@" not in chosen.image:
        print("# The image is named by a tag, which can be moved: --image NAME@sha256:DIGEST pins it.")
    sys.stdout.write(as_yaml(objects(chosen)))
    return 0


def _checked(flag: str, check: Callable[[str], T], text: str) -> T:
    try:
        return check(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None


def _all_checked(flag: str, check: Callable[[str], str], texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_checked(flag, check, text) for text in texts))


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise ValueError(f"{text!r} is no namespace: write small letters, digits and dashes, at most 63")
    return text


def _scheduler(text: str) -> str:
    if len(text) > 253 or not all(_NAMESPACE.fullmatch(part) for part in text.split(".")):
        raise ValueError(f"{text!r} is no name of a scheduler: write small letters, digits, dashes and dots")
    return text


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError(f"{text!r} is no image: write NAME:TAG or NAME@sha256: and 64 digits of hexadecimal")
    return text
