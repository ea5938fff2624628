"""Calls about hyper-parameter sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from weir.client.calls import Call, LazyModule, RowPage, endpoint, form, row_list
from weir.client.path_parts import params, path_part, stated

if TYPE_CHECKING:
    from weir.api import sweeps as model
    from weir.client.address import Address
else:
    model = LazyModule("weir.api.sweeps")


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
    ) -> Call[model.SweepDetail]:
        """Begin a sweep: `pool.begin_sweep(params={"lr": "log:1e-5..1e-1"}, trials=60, rungs=[1, 3], ...)`.

        Raises:
            Refused: the sweep is invalid.
        """
        from weir.client.submissions import written

        body: dict[str, Any] = {**(sweep or {}), **words}
        workload = body.get("workload")
        if isinstance(workload, Mapping):
            body["workload"] = written(workload, {})
            if not body["workload"].get("directory") and self.address.is_loopback:
                body["workload"]["directory"] = str(Path.cwd())
        return Call("POST", "/sweeps", form(model.SweepDetail), body=stated(**body))

    @row_list
    def sweeps(self, *, project: str | None = None) -> Call[RowPage[model.SweepRow]]:
        """Return the sweeps that one may see, newest first."""
        return Call("GET", "/sweeps", form(model.SweepPage), params(project=project))

    @endpoint
    def sweep(self, name: str) -> Call[model.SweepDetail]:
        """Return a sweep with its trials."""
        return Call("GET", f"/sweeps/{path_part(name)}", form(model.SweepDetail))

    @endpoint
    def stop_sweep(self, name: str) -> Call[model.SweepDetail]:
        """Stop a sweep and its trials for good."""
        return Call("POST", f"/sweeps/{path_part(name)}/stop", form(model.SweepDetail))

    @endpoint
    def delete_sweep(self, name: str, *, checkpoints: bool = False) -> Call[model.SweepDeleted]:
        """Delete a sweep that is over, with its results; `checkpoints`: with those of its trials.

        Raises:
            Refused: it isn't over, or you may not.
        """
        chosen = params(checkpoints="true" if checkpoints else None)
        return Call("DELETE", f"/sweeps/{path_part(name)}", form(model.SweepDeleted), chosen)
