"""A server that was taken over: it sends the node process whatever could make root do something for it.

As a program it runs in the place of the server, with its sockets, and prints what came of its orders.
"""

import json
import os
import random
import socket
import sys

ACCOUNTS = [
    "root",
    "daemon",
    "nobody",
    "",
    "0",
    "../root",
    "root\n",
    "-1",
    "no-such-user-x",
    None,
    0,
    [],
    "sync",
]
NAMES = [
    "1/1-0-0",
    "../../../etc/1-0-0",
    "1/1-0-0/../..",
    "/etc",
    "",
    7,
    None,
    "1/1-0-0\x00",
    "9" * 30 + "/1-0-0",
]
LIMITS = [
    [0, 0, 0, 0],
    [0, 0, 0, 1 << 30],
    [-1, 0, 0, 0],
    [1 << 70, 0, 0, 0],
    [0, 0, True, 0],
    [],
    None,
    ["a", "b", "c", "d"],
]
DEVICES = [[], [0], [-1], [10**9], [True], "0", None, [[0]], list(range(5000))]
RLIMITS = [[], [[7, 1024, -1]], [[16, 0, 0]], [[-1, 0, 0]], [[7, 0]], [7], None, [[7, 0, 0]] * 99, {"7": 0}]
KINDS = [
    *("StartOrder", "SignalOrder", "KillOrder", "JoinOrder", "RemoveOrder", "GpuMemoryOrder"),
    *("exec", "", None, 3),
]


def any_order(chance: random.Random, own: list[str]) -> bytes:
    """Return a random message: an order that should be refused, or none at all."""
    kind = chance.choice(KINDS)
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(1, 4000))
    if kind == "StartOrder":
        values = [chance.choice(each) for each in (NAMES, [*ACCOUNTS, *own], DEVICES, LIMITS, RLIMITS)]
    elif kind == "GpuMemoryOrder":
        values = [chance.choice(NAMES), chance.choice(DEVICES), chance.choice([0, -1, True, None, "1"])]
    elif kind == "RemoveOrder":
        values = [chance.choice([1, -1, "..", "/", None, True]), chance.choice([True, False, "x", None])]
    else:
        values = [chance.choice([*NAMES, 15, 9, 0, -9, 64, True])]
    if chance.random() < 0.1:
        values = values[: chance.randrange(3)] + [None] * chance.randrange(3)
    return json.dumps([kind, *values]).encode()


def exchange(place: socket.socket, message: bytes, fds: list[int]) -> list[object]:
    """Send a message with open files; return the answer."""
    socket.send_fds(place, [message], fds)
    answer, processes, _, _ = socket.recv_fds(place, 1 << 14, 4)
    for each in processes:
        os.close(each)
    return json.loads(answer)


def main(seed: int, orders: int, victim: int, own: str) -> None:
    """Send orders, and print the answers that weren't refusals."""
    chance = random.Random(seed)
    found = json.loads(os.environ["WEIR_NODE"])
    places = [socket.socket(fileno=fd) for fd in found["sockets"]]
    nothing = os.open("/dev/null", os.O_RDWR)
    others = [os.pidfd_open(pid) for pid in (1, victim, os.getppid(), os.getpid())]
    accepted = []
    for _ in range(orders):
        message = any_order(chance, [own])
        fds = chance.choice([[], [nothing], [chance.choice(others)], [nothing] * 5, [nothing] * 6, others])
        answer = exchange(chance.choice(places), message, fds)
        if not answer[1]:
            accepted.append([message.decode(errors="replace"), answer])
    limits = []
    for name in ("1/1-0-0", "2/9-9-9"):
        for devices in ([], [0], [4096]):
            places[0].send(json.dumps(["GpuMemoryOrder", name, devices, 1 << 40]).encode())
            limits.append(json.loads(places[0].recv(1 << 14)))
    print(
        json.dumps(
            {
                "limits": limits,
                "accepted": accepted,
                "alive": exchange(places[1], b'["KillOrder", "1/1-0-0"]', []),
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
