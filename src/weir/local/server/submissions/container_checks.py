"""Checks of a submission's container: the image as text, the rules of the pool, and the machine's runtime."""

import re
import shutil
from collections.abc import Sequence

from weir.api.submissions import Submission
from weir.control.journal import ContainerLaunch
from weir.local.containers.images import ARCHIVES
from weir.local.containers.launch import PATH, is_reserved
from weir.local.machine.cdi import HOW, DeviceSpecifications
from weir.local.server.http.problem_details import FieldErrors
from weir.local.server.http.server_limits import ContainerRules

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
    rf"{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?",
    re.ASCII,
)
_ARCHIVE = re.compile(r"(?:/[A-Za-z0-9_+~@=][A-Za-z0-9_.+~@=-]*)+", re.ASCII)
_OTHER_PLACES = ("containers-storage", "docker-daemon", "ostree", "sif", "tarball", "atomic", "openshift")
"""Prefixes before a colon that name a place to get an image from, instead of an image."""
_RIGHT = "write one such as docker.io/library/python:3.13, or docker-archive:/path/of/an/image.tar"
_BYTES_MAX = 96 << 10
"""Limit of the size of a container's variables, which its runtime gets as one; the kernel's limit is 128 KiB.
"""


class ContainerChecks:
    """Checks by the rules of a pool. `needs_devices`: its GPUs are real, and must be in a specification."""

    def __init__(
        self,
        rules: ContainerRules | None = None,
        specifications: DeviceSpecifications | None = None,
        *,
        needs_devices: bool = False,
    ) -> None:
        self._rules = rules or ContainerRules()
        self._specifications = specifications or DeviceSpecifications()
        self._needs_devices = needs_devices

    def container_of(self, submission: Submission, fields: FieldErrors) -> ContainerLaunch | None:
        """Return the container of a submission; report all mistakes in it.

        The answer is None for a process, or after an error.
        """
        image = submission.image
        if image is None:
            for name in ("pull", "container_runtime"):
                if getattr(submission, name) is not None:
                    fields.add(
                        (name,), f"{name}: is for containers alone; write an image too, or leave it out"
                    )
            return None
        runtime = submission.container_runtime or "podman"
        self._check_runtime(runtime, fields)
        self._check_image(image, submission.project, fields)
        self._check_devices(submission, fields)
        _check_variables(submission, fields)
        return ContainerLaunch(image, submission.pull or "missing", runtime)

    def _check_runtime(self, runtime: str, fields: FieldErrors) -> None:
        if runtime == "docker":
            text = (
                "its daemon would run the container outside of the job's limits; podman runs the same images"
            )
            fields.add(("container_runtime",), f"container_runtime: docker can't be used: {text}")
        elif runtime not in self._rules.runtimes:
            fields.add(("image",), "image: containers aren't allowed in this pool; leave it out")
        elif missing := [
            program for program in ("podman", "crun") if shutil.which(program, path=PATH) is None
        ]:
            names = " and ".join(missing)
            fields.add(
                ("image",), f"image: {names} isn't installed on this machine; ask its administrator for it"
            )

    def _check_image(self, image: str, project: str, fields: FieldErrors) -> None:
        if not is_image(image):
            fields.add(("image",), f"image: {image[:100]!r} is no image; {_RIGHT}")
            return
        allowed = self._rules.projects.get(project, self._rules.images)
        if allowed and not any(has_prefix(image, prefix) for prefix in allowed):
            begins = ", ".join(allowed[:5]) + (", ..." if len(allowed) > 5 else "")
            text = f"image: {image} isn't allowed in {project}; write one that begins with {begins}"
            fields.add(("image",), text)

    def _check_devices(self, submission: Submission, fields: FieldErrors) -> None:
        asked = any(group.gpus or group.gpu_memory for group in submission.pods)
        if asked and self._needs_devices and not self._specifications.names():
            text = (
                "image: no CDI specification of this machine names its GPUs; an administrator makes one with"
            )
            fields.add(("image",), f"{text} {HOW}")


def is_image(text: str) -> bool:
    """Return True if a text names an image of a registry, or an image archive on this machine."""
    archive = next((prefix for prefix in ARCHIVES if text.startswith(prefix)), None)
    if archive is not None:
        return _ARCHIVE.fullmatch(text.removeprefix(archive)) is not None
    return _IMAGE.fullmatch(text) is not None and text.partition(":")[0] not in _OTHER_PLACES


def has_prefix(image: str, prefix: str) -> bool:
    """Return True if an image begins with whole parts of a prefix."""
    if not image.startswith(prefix):
        return False
    return len(image) == len(prefix) or prefix[-1] in "/:@" or image[len(prefix)] in "/:@"


def _check_variables(submission: Submission, fields: FieldErrors) -> None:
    """Check that the runtime can pass the variables on."""
    reserved: Sequence[str] = [name for name in submission.secrets if is_reserved(name)]
    for name in reserved:
        text = f"secrets: {name} means something to the container's runtime; write another variable"
        fields.add(("secrets", name), text)
    size = sum(len(name) + 8 for name in submission.env)
    size += sum(len(value.encode()) for name, value in submission.env.items() if is_reserved(name))
    if size > _BYTES_MAX:
        fields.add(("env",), "env: is larger than a container can be started with; put it into a file")
