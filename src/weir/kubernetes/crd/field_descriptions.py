"""Descriptions of the fields of Weir's kinds, for `kubectl explain`: `field_descriptions.yaml`."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import yaml


@cache
def field_descriptions() -> Mapping[str, Mapping[str, str]]:
    """Return the descriptions by kind and path. A path has `[]` after a list: `status.trials[].state`."""
    texts_by_kind = yaml.safe_load(files(__package__).joinpath("field_descriptions.yaml").read_text("utf-8"))
    return {kind: texts for kind, texts in texts_by_kind.items() if kind != "shared"}
