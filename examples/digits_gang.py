"""The same training by several processes at once, each with its part of every batch: a gang.

They meet where the pool says, add up their slopes after every batch, and so stay alike to the last bit.

    weir submit -p speech --workers 4 --gpus 1 -- python digits_gang.py
"""

import os
import socket
import time
from typing import Any

import numpy as np
from digits import BATCH, UNSEEN, Training, digits, slopes

import weir

STEPS, STEP_S = 64, 0.25


class Gang:
    """Processes of a gang: the first adds up for the others."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        meeting = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        self.others: dict[int, socket.socket] = {}  # by rank; for all but the first, the first alone
        if self.rank:
            self.others[0] = self._call(meeting)
            return
        with socket.create_server(meeting) as listening:
            while len(self.others) < self.size - 1:
                other, _ = listening.accept()
                self.others[int.from_bytes(_exactly(other, 4), "big")] = _at_once(other)

    def _call(self, meeting: tuple[str, int]) -> socket.socket:
        while True:
            try:
                first = _at_once(socket.create_connection(meeting))
            except ConnectionRefusedError:
                time.sleep(0.02)  # it isn't there yet
                continue
            first.sendall(self.rank.to_bytes(4, "big"))
            return first

    def sum(self, numbers: Any) -> Any:
        """Return the sum over all processes, in the order of their ranks, so that it is always the same."""
        if self.rank:
            self.others[0].sendall(numbers.tobytes())
            return np.frombuffer(_exactly(self.others[0], numbers.nbytes))
        for rank in range(1, self.size):
            numbers = numbers + np.frombuffer(_exactly(self.others[rank], numbers.nbytes))
        for other in self.others.values():
            other.sendall(numbers.tobytes())
        return numbers


def _at_once(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _exactly(connection: socket.socket, size: int) -> bytes:
    text = b""
    while len(text) < size:
        more = connection.recv(size - len(text))
        if not more:
            raise SystemExit("the others are gone")
        text += more
    return text


def main() -> None:
    """Train; the first process tells of it."""
    pictures, shown = digits()
    gang, training, loss = Gang(), Training(seed=0), float("nan")
    print(f"rank {gang.rank} of {gang.size} begins", flush=True)
    while training.step < STEPS:
        began, total = time.monotonic(), 0.0
        for batch in training.batches(len(shown) - UNSEEN):
            some = np.array_split(batch, gang.size)[gang.rank]
            lost, down = slopes(training.weights, pictures[some], shown[some])
            added = gang.sum(np.concatenate([[lost], *(each.ravel() for each in down.values())]))
            total += float(added[0])
            parts = np.split(added[1:], np.cumsum([each.size for each in down.values()])[:-1])
            training.move(
                {name: part.reshape(down[name].shape) for name, part in zip(down, parts, strict=True)}
            )
        training.step += 1
        loss = total / (len(shown) - UNSEEN)
        if gang.rank == 0 and training.step % 5 == 0:
            weir.report(step=training.step, loss=loss)
        time.sleep(max(0.0, STEP_S - (time.monotonic() - began)))
    print(
        f"done after step {STEPS}: loss {loss!r}, weights {training.fingerprint()}, batches of {BATCH}",
        flush=True,
    )


if __name__ == "__main__":
    main()
