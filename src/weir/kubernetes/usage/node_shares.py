"""Shares of the GPUs of a node as Weir states them to the node's agent, which has the driver limit them."""

from typing import Annotated

from msgspec import Meta, Struct

BYTES_MAX = 1 << 20
"""Size of an answer."""


class PodShare(Struct, frozen=True):
    """A pod with a share of each of these GPUs, which have the driver's numbers. `memory`: bytes of each."""

    uid: Annotated[str, Meta(max_length=64)]
    gpus: Annotated[tuple[Annotated[int, Meta(ge=0, le=4096)], ...], Meta(max_length=256)]
    memory: Annotated[int, Meta(ge=1, le=1 << 50)]


class NodeShares(Struct, frozen=True):
    """Complete list of the shares of a node, which replaces the list of the answer before."""

    shares: Annotated[tuple[PodShare, ...], Meta(max_length=4096)] = ()
