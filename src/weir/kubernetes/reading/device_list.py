"""The resources that count as devices, as an administrator writes them: names with commas between them."""

import re

NAMES_MAX = 16
_RESOURCE = re.compile(
    r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?|[A-Za-z0-9][-\w.]{0,61}\*)",
    re.ASCII,
)


def device_names(text: str) -> tuple[str, ...]:
    """Return the names in a list such as `nvidia.com/gpu,example.com/card-*`.

    Raises:
        ValueError: an entry is no name of a resource, or there are none or too many.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if len(names) > NAMES_MAX:
        raise ValueError(f"{len(names)} resources are named: write at most {NAMES_MAX}")
    for name in names:
        if not _RESOURCE.fullmatch(name):
            raise ValueError(
                f"{name[:100]!r} is no resource of a device plugin: write names such as nvidia.com/gpu, "
                "with commas between them"
            )
    return names
