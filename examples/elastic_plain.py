"""Training that keeps its global batch while GPUs come and go, with arrays of numpy.

Each step has the same 64 examples in 16 shards. The processes share the shards out, and sum the gradients in
the order of the shards: the result is the same to the last bit, whatever number of them takes part. When a
pod comes or goes, the others meet again and go on at that step; nothing starts again.

    weir submit -p vision --gpus 1 --elastic 1:4 -- python elastic_plain.py --steps 400

`elastic_jax.py` trains its own model in this way.
"""

import argparse
import hashlib
import os
import pickle
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import weir

BATCH, SHARDS, RATE = 64, 16, 0.05
MEET_S, LOOK_S = 5.0, 0.1

Gradient = Callable[[dict[str, Any], Any, Any], dict[str, Any]]
"""Function of parameters, inputs and targets."""


class Changed(Exception):
    """A process came or went: meet again."""


class Gang:
    """The processes that take part now. Rank 0 adds up for the others."""

    def __init__(self) -> None:
        while True:
            self.world, self.peers = weir.world(), {}
            try:
                self._meet()
            except (OSError, EOFError):
                self.close()
                time.sleep(0.05)  # the others still see another world
            else:
                return

    def _meet(self) -> None:
        """Meet all others that see the same world.

        Raises:
            OSError, EOFError: they don't.
        """
        address, generation = (self.world.master_addr, self.world.master_port), self.world.generation
        if self.world.rank:
            self.peers[0] = socket.create_connection(address, MEET_S)
            send(self.peers[0], (generation, self.world.rank))
            if receive(self.peers[0]) != generation:
                raise EOFError
        elif self.world.size > 1:
            with socket.create_server(address, backlog=64) as listening:
                listening.settimeout(LOOK_S)
                while len(self.peers) < self.world.size - 1:
                    self._accept(listening)
            for peer in self.peers.values():  # all are here
                send(peer, generation)
        for peer in self.peers.values():
            peer.settimeout(None)

    def _accept(self, listening: socket.socket) -> None:
        """Take a process in that sees the same world; give up once the world has changed."""
        if weir.world() != self.world:
            raise EOFError
        try:
            peer, _ = listening.accept()
            peer.settimeout(MEET_S)
            generation, rank = receive(peer)
        except (OSError, EOFError):
            return  # none has come, or it has gone
        if generation == self.world.generation:
            self.peers[rank] = peer

    def exchange(self, mine: Any, combine: Any) -> Any:
        """Return what `combine` makes of the values of all processes; the same for each of them."""
        try:
            if self.world.rank:
                send(self.peers[0], mine)
                return receive(self.peers[0])
            found = combine([mine, *(receive(peer) for peer in self.peers.values())])
            for peer in self.peers.values():
                send(peer, found)
        except (OSError, EOFError) as gone:
            raise Changed from gone
        return found

    def close(self) -> None:
        """Leave: the others notice."""
        for peer in self.peers.values():
            peer.close()


def send(peer: socket.socket, value: Any) -> None:
    """Send a value; the peers are processes of one user."""
    text = pickle.dumps(value)
    peer.sendall(struct.pack("!Q", len(text)) + text)


def receive(peer: socket.socket) -> Any:
    """Receive a value."""
    (size,) = struct.unpack("!Q", exactly(peer, 8))
    return pickle.loads(exactly(peer, size))  # noqa: S301 - see `send`


def exactly(peer: socket.socket, size: int) -> bytes:
    """Receive this number of bytes."""
    parts = bytearray()
    while len(parts) < size:
        part = peer.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def shard(step: int, number: int) -> tuple[Any, Any]:
    """Return the examples of a shard of a step, the same on every process: HERE is your data."""
    chance = np.random.default_rng((step, number))
    inputs = chance.normal(size=(BATCH // SHARDS, 8))
    return inputs, inputs.sum(axis=1) + 1.0


def gradient(parameters: Any, inputs: Any, targets: Any) -> Any:
    """Return the gradient of the squared error of a linear model: HERE is your model."""
    error = inputs @ parameters["w"] + parameters["b"] - targets
    return {"w": inputs.T @ error, "b": error.sum()}


def update(parameters: Any, total: Any) -> Any:
    """Return the parameters after a step down the mean gradient."""
    return {name: value - RATE * total[name] / BATCH for name, value in parameters.items()}


def newest(states: list[tuple[int, Any]]) -> tuple[int, Any]:
    """Return the state of the process that is furthest: one that has just come has none."""
    return max(states, key=lambda state: state[0])


def main() -> None:
    """Train until the steps are done, whatever number of processes there is."""
    train({"w": np.zeros(8), "b": np.zeros(())}, gradient)


def train(parameters: dict[str, Any], gradient: Gradient) -> None:
    """Train a model from these parameters on, or from what was saved."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--steps", type=int, default=400)
    asked.add_argument("--pause", type=float, default=0.05, help="what a step would take")
    options = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: None)  # notice: `weir.stopping()` says so from now on

    saved = Path(os.environ.get("WEIR_CHECKPOINT_DIR", ".")) / "latest.pkl"
    state = (0, parameters)
    if saved.exists():
        state = pickle.loads(saved.read_bytes())  # noqa: S301 - we wrote it
    size = 0
    while state[0] < options.steps:
        gang, meets_again = Gang(), False
        try:
            state = gang.exchange(state, newest)
            if gang.world.size != size:
                size = gang.world.size
                print(f"step {state[0]}: {size} take part", flush=True)
            while state[0] < options.steps and not meets_again:
                state, meets_again = one_step(gang, state, gradient)
                time.sleep(options.pause)
                if weir.stopping():
                    leave(gang, saved, state)
                    return
        except Changed:
            continue  # the state is that before the step
        finally:
            gang.close()
    if gang.world.rank == 0:
        save(saved, state)
        bits = hashlib.sha256(b"".join(value.tobytes() for value in state[1].values()))
        print(f"done after {state[0]} steps: {bits.hexdigest()}", flush=True)


def one_step(gang: Gang, state: tuple[int, Any], gradient: Gradient) -> tuple[tuple[int, Any], bool]:
    """Return the state after a step, and True if all meet again because a process has come.

    Raises:
        Changed: a process came or went.
    """
    step, parameters = state
    numbers = range(gang.world.rank, SHARDS, gang.world.size)
    mine = {number: gradient(parameters, *shard(step, number)) for number in numbers}
    came = gang.world.rank == 0 and weir.world() != gang.world
    total, meets_again = gang.exchange((mine, came), combine)
    weir.report(step=step, size=gang.world.size)
    return (step + 1, update(parameters, total)), meets_again


def combine(parts: list[tuple[dict[int, Any], bool]]) -> tuple[Any, bool]:
    """Return the sum of the gradients in the order of the shards, and what rank 0 sees of the world."""
    shards = {number: each for part, _ in parts for number, each in part.items()}
    total = {name: sum(shards[number][name] for number in sorted(shards)) for name in shards[0]}
    return total, parts[0][1]


def leave(gang: Gang, saved: Path, state: tuple[int, Any]) -> None:
    """Save what the others know too, in case that all of them stop, and go."""
    if gang.world.rank == 0:
        save(saved, state)
        weir.checkpointed(step=state[0])
    gang.close()
    print(f"leaves at step {state[0]}", flush=True)


def save(path: Path, state: tuple[int, Any]) -> None:
    """Save the state, whole or not at all."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        pickle.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


if __name__ == "__main__":
    main()
