"""Creators of schedules and sweeps: Weir's webhook writes them on the Jobs that they make."""

from collections.abc import Mapping
from typing import Any

from weir.kubernetes.translate.annotations import PREFIX

USER = f"{PREFIX}user"


def creator_of(job_template: Mapping[str, Any]) -> str:
    """Return the account that created the object with this template of Jobs; empty if it isn't known."""
    try:
        return str(job_template["metadata"]["annotations"][USER])
    except (KeyError, TypeError):
        return ""
