"""The owner of a pod's workload as the pod itself states it, from its binding on.

Owners on several levels are deleted one by one, the topmost first, and their pods may outlive them all. The
pods' references name only the lowest owner, and the Workload object may be deleted with the topmost.
"""

import msgspec

from weir.kubernetes.api.objects import Metadata, OwnerReference
from weir.kubernetes.translate.bound_pods import OWNER_KEY
from weir.kubernetes.translate.kinds import GangKey

_CHARACTERS_MAX = 4096


class StatedOwner(msgspec.Struct, frozen=True, rename="camel"):
    """Topmost owner of a pod, its gang, and the role of the pod."""

    api_version: str
    kind: str
    name: str
    uid: str
    gang: str = ""
    role: str = ""

    @property
    def reference(self) -> OwnerReference:
        """Owner reference that the object below the owner has."""
        return OwnerReference(self.api_version, self.kind, self.name, self.uid, controller=True)


def stated_by(pod: Metadata) -> str:
    """Return the text in which a pod states the owner of its workload; empty if it doesn't."""
    return pod.annotations.get(OWNER_KEY, "")


def read_stated(text: str) -> StatedOwner | None:
    """Return the stated owner; None without one, or if it can't be read."""
    if not text or len(text) > _CHARACTERS_MAX:
        return None
    try:
        return msgspec.json.decode(text, type=StatedOwner)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def statement(owner: GangKey, role: str, controller: OwnerReference | None, *, pod: str) -> dict[str, str]:
    """Return the annotation that states the owner of a pod, if its controller isn't the owner.

    Without the annotation a gang that is only this pod is recognised, too. A text of its own for each pod
    would have to be parsed for each.
    """
    if controller is None or (controller.uid == owner.uid and owner.gang in ("", pod)):
        return {}
    stated = StatedOwner(owner.api_version, owner.kind, owner.name, owner.uid, owner.gang, role)
    return {OWNER_KEY: msgspec.json.encode(stated).decode()}
