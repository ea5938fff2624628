"""Training in PyTorch that can be stopped at any moment and goes on at the very step, alone or as a gang.

    weir submit -p vision --gpus 1 -- python checkpoints_torch.py
    weir submit -p vision --gpus 1 --workers 4 -- python checkpoints_torch.py

The data are made up; put your own dataset, model and loss in the three places marked HERE.
"""

import argparse
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import weir

BATCH = 64


def main() -> None:
    """Train, save now and then, and go when told to."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--steps", type=int, default=2_000)
    asked.add_argument("--save-every", type=int, default=200)
    options = asked.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: None)  # notice: `weir.stopping()` says so from now on
    weir.stopping()  # on a cluster it listens to the signal from here on
    gang = int(os.environ.get("WORLD_SIZE", "1")) > 1
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # the pool shows only its own
    if gang:  # MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are set
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank = dist.get_rank() if gang else 0

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).to(device)  # HERE
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved = Path(os.environ.get("WEIR_CHECKPOINT_DIR", ".")) / "latest.pt"
    step = load(saved, model, optimizer, device)
    torch.manual_seed(
        1_000_003 * rank + step
    )  # dropout and the like: each rank its own, the same after a stop
    parallel = nn.parallel.DistributedDataParallel(model) if gang else model

    for inputs, targets in batches(step, options.steps, rank, device):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(parallel(inputs), targets)  # HERE
        loss.backward()
        optimizer.step()
        step += 1

        told = any_of(weir.stopping(), gang, device)  # all ranks stop after the same step, or none does
        if told or step % options.save_every == 0 or step == options.steps:
            if rank == 0:
                save(saved, model, optimizer, step)
                weir.checkpointed(step=step)
            if gang:
                dist.barrier()  # all ranks wait until it is saved
        if told:
            print(f"stops at step {step}", flush=True)
            break
        if step % 100 == 0 and rank == 0:
            weir.report(step=step, loss=loss.item())
    else:
        if rank == 0:
            print(f"done after {step} steps", flush=True)
    if gang:
        dist.destroy_process_group()


def batches(begin: int, end: int, rank: int, device: torch.device) -> Iterator[tuple[Any, Any]]:
    """Yield the batches from a step on. Each depends on its number alone, so a stop changes no order."""
    for step in range(begin, end):
        chance = torch.Generator().manual_seed(7_919 * step + rank)
        inputs = torch.randn(BATCH, 32, generator=chance)  # HERE: dataset[order_of_epoch[step]]
        yield inputs.to(device), inputs.sum(dim=1, keepdim=True).to(device)


def any_of(flag: bool, gang: bool, device: torch.device) -> bool:
    """Return True if the flag is set on any rank."""
    if not gang:
        return flag
    flags = torch.tensor([float(flag)], device=device)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return bool(flags.item())


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Whole or not at all: written beside it, on the disk, then put in its place."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Be what was saved, if anything was; the step to go on with."""
    if not path.exists():
        return 0
    state = torch.load(path, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"goes on at step {state['step']}", flush=True)
    return int(state["step"])


if __name__ == "__main__":
    main()
