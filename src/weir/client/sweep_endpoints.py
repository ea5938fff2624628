"""Calls about hyper-parameter sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from weir.client.calls import Call, RowPage, endpoint, form, row_list
from weir.client.path_parts import params, path_part, stated

if TYPE_CHECKING:
    from weir.api.sweeps import SweepDeleted, SweepDetail, SweepRow
    from weir.client.address import Address


class SweepFields(TypedDict, total=False):
    """Fields of a sweep. `params` are ranges by name, `workload` is the submission of each trial."""

    name: str | None
    params: Mapping[str, str]
    trials: int | None
    rungs: Sequence[int]
    eta: int
    metric: str
    mode: Literal["min", "max"]
    sampler: Literal["tpe", "gp", "cmaes", "random", "grid"]
    seed: int
    parallel: int | None
    arguments: bool
    checkpoint_claim: str
    workload: Mapping[str, Any]


class SweepEndpoints:
    """Calls about sweeps."""

    address: Address

    @endpoint
    def begin_sweep(
        self, sweep: Mapping[str, Any] | None = None, /, **words: Unpack[SweepFields]
    ) -> Call[SweepDetail]:
        """Begin a sweep: `pool.begin_sweep(params={"lr": "log:1e-5..1e-1"}, trials=60, rungs=[1, 3], ...)`.

        Raises:
            Refused: the sweep is invalid.
        """
        from weir.api.sweeps import SweepDetail
        from weir.client.submissions import written

        body: dict[str, Any] = {**(sweep or {}), **words}
        workload = body.get("workload")
        if isinstance(workload, Mapping):
            body["workload"] = written(workload, {})
            if not body["workload"].get("directory") and self.address.is_loopback:
                body["workload"]["directory"] = str(Path.cwd())
        return Call("POST", "/sweeps", form(SweepDetail), body=stated(**body))

    @row_list
    def sweeps(self, *, project: str | None = None) -> Call[RowPage[SweepRow]]:
        """Return the sweeps that one may see, newest first."""
        from weir.api.sweeps import SweepPage

        return Call("GET", "/sweeps", form(SweepPage), params(project=project))

    @endpoint
    def sweep(self, name: str) -> Call[SweepDetail]:
        """Return a sweep with its trials."""
        from weir.api.sweeps import SweepDetail

        return Call("GET", f"/sweeps/{path_part(name)}", form(SweepDetail))

    @endpoint
    def stop_sweep(self, name: str) -> Call[SweepDetail]:
        """Stop a sweep and its trials for good."""
        from weir.api.sweeps import SweepDetail

        return Call("POST", f"/sweeps/{path_part(name)}/stop", form(SweepDetail))

    @endpoint
    def delete_sweep(self, name: str, *, checkpoints: bool = False) -> Call[SweepDeleted]:
        """Delete a sweep that is over, with its results; `checkpoints`: with those of its trials.

        Raises:
            Refused: it isn't over, or you may not.
        """
        from weir.api.sweeps import SweepDeleted

        chosen = params(checkpoints="true" if checkpoints else None)
        return Call("DELETE", f"/sweeps/{path_part(name)}", form(SweepDeleted), chosen)
