"""PyTorch training that keeps its global batch while GPUs come and go, with torchrun.

    weir submit -p vision --gpus 1 --elastic 1:4 -- torchrun elastic_torch.py

When a pod comes or goes, torchrun starts the workers of all pods again, and they go on from the newest
checkpoint; the pods themselves stay. Each step has the same 256 examples, however many ranks share them.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import weir

BATCH, CHUNK = 256, 64
"""Examples of one step, and of one pass through the model: memory for more than that isn't needed."""


def main() -> None:
    """Train, and save now and then."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--steps", type=int, default=2_000)
    asked.add_argument("--save-every", type=int, default=50)
    options = asked.parse_args()

    world = weir.world()
    gang = world.size > 1
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(world.local_rank)
    if gang:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).to(device)  # HERE
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saved = Path(os.environ.get("WEIR_CHECKPOINT_DIR", ".")) / "latest.pt"
    step = load(saved, model, optimizer, device)
    print(f"rank {world.rank} of {world.size} begins at step {step}", flush=True)
    parallel = nn.parallel.DistributedDataParallel(model) if gang else model

    while step < options.steps:
        optimizer.zero_grad()
        mine = range(world.rank, BATCH, world.size)  # of the examples of this step
        for begin in range(0, len(mine), CHUNK):
            inputs, targets = examples(step, mine[begin : begin + CHUNK], device)
            loss = nn.functional.mse_loss(parallel(inputs), targets, reduction="sum")  # HERE
            # The mean of these over the ranks is the mean over the whole batch, for any number of ranks.
            (loss * (world.size / BATCH)).backward()
        optimizer.step()
        step += 1
        stops = weir.stopping()
        if world.rank == 0 and (stops or step % options.save_every == 0 or step == options.steps):
            save(saved, model, optimizer, step)
            weir.checkpointed(step=step)
            weir.report(step=step, size=world.size, progress=step / options.steps)
        if stops and not gang:
            return
    if world.rank == 0:
        print(f"done after {step} steps", flush=True)
    if gang:
        dist.destroy_process_group()


def examples(step: int, numbers: range, device: torch.device) -> tuple[Any, Any]:
    """Return examples of a step. Each depends on its step and number alone, not on the process."""
    chance = torch.Generator().manual_seed(7_919 * step)
    inputs = torch.randn(BATCH, 32, generator=chance)[list(numbers)]  # HERE: dataset[order_of_epoch[...]]
    return inputs.to(device), inputs.sum(dim=1, keepdim=True).to(device)


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Save all state, whole or not at all."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Take over what was saved, if anything was; return the step to go on with."""
    if not path.exists():
        return 0
    state = torch.load(path, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


if __name__ == "__main__":
    main()
