"""Node process: receives orders, and carries each one out or answers why it doesn't.

It serves one pool of its own user, whose server starts it, or it starts the server of a pool for several
users (`shared.py`). It ends when the server does; pods keep running.
"""

import json
import os
import select
import signal
import socket
import time
from contextlib import suppress

from weir.local.cgroups import Cgroup, text_of
from weir.local.node import directories, orders
from weir.local.node.accounts import Account, AccountRefused, find_account
from weir.local.node.forked import fork
from weir.local.node.gpu_memory import NotLimited
from weir.local.node.orders import MESSAGE_MAX, InvalidOrder, NodeAnswer, Order, decode, encode_answer
from weir.local.node.starts import Site, limit_gpu_memory, run_start
from weir.local.records.start_files import StartFiles
from weir.local.supervisor.supervisor import SIGNALS

_FILES_MAX = len(StartFiles._fields)
_KILLS_MAX = 20
_AGAIN_S = 0.01
"""Time between checks of processes after a kill. All other orders wait meanwhile."""


class NodeProcess:
    """Carries out orders at a site. `starts` answers with pidfds when a pod was forked; `calls` at once."""

    def __init__(self, site: Site, starts: socket.socket, calls: socket.socket) -> None:
        self._site = site
        self._starts = starts
        self._calls = calls
        self._limiting: dict[int, str] = {}  # child processes that set memory limits, with their starts

    def serve(self, server: int = 0) -> int:
        """Carry out orders until the server is gone; return its exit code.

        `server` is its pid, if this process started it. Otherwise closed sockets mean that the server is
        gone.
        """
        ended, ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(ends, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that the signal wakes the poll
        poll = select.poll()
        for watched in (self._starts.fileno(), self._calls.fileno(), ended):
            poll.register(watched, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == ended:
                    with suppress(BlockingIOError):
                        os.read(ended, MESSAGE_MAX)
                    if (code := self._reap(server)) is not None:
                        return code
                elif not self._carry_out_next(self._starts if fd == self._starts.fileno() else self._calls):
                    if not server:
                        return 0
                    poll.unregister(fd)
                    # The server may have ended before the watch began
                    if (code := self._reap(server)) is not None:
                        return code

    def _reap(self, server: int) -> int | None:
        """Process the ends of children; return the exit code of the server if it is one of them."""
        code = None
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._limiting.pop(ended[0], None)
                if ended[0] == server:
                    code = os.waitstatus_to_exitcode(ended[1])
        return code

    def _carry_out_next(self, place: socket.socket) -> bool:
        """Carry out one order; return False if the server is gone."""
        try:
            message, fds, _, _ = socket.recv_fds(place, MESSAGE_MAX, _FILES_MAX)
        except ConnectionResetError:
            return False
        if not message:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)  # jobs must not inherit the lock or the records
        processes: list[int] = []
        try:
            answer = self._carried_out(decode(message), fds, processes)
        except Exception as failure:  # noqa: BLE001 - no order may end this process
            answer = _refusal(message, failure)
        finally:
            for fd in fds:
                os.close(fd)
        try:
            if answer is not None:
                socket.send_fds(place, [encode_answer(answer)], processes)
        except (BrokenPipeError, ConnectionResetError):
            return False  # the server has ended; its order was carried out
        finally:
            for process in processes:
                os.close(process)
        return True

    def _carried_out(self, order: Order, fds: list[int], processes: list[int]) -> NodeAnswer | None:
        if isinstance(order, orders.StartOrder):
            return self._start(order, fds, processes)
        if isinstance(order, orders.GpuMemoryOrder):  # in a child process, because the driver may hang
            # One child by start, because no signal ends a hanging one
            if order.name in self._limiting.values():
                raise InvalidOrder("the driver hasn't answered yet")
            self._limiting[fork(lambda: self._limit_gpu_memory(order))] = order.name
            return None
        if isinstance(order, orders.SignalOrder):
            return self._signal(order, fds)
        if isinstance(order, orders.KillOrder):
            return self._kill(order)
        if isinstance(order, orders.JoinOrder):
            return self._join(order, fds)
        return self._remove(order)

    def _start(self, order: orders.StartOrder, fds: list[int], processes: list[int]) -> NodeAnswer:
        if len(fds) < _FILES_MAX - 1:
            raise InvalidOrder("a start needs its open files")
        account = self._account(order.account)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = fork(lambda: self._supervise(order, account, StartFiles(*fds)))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with suppress(ProcessLookupError):
            processes.append(os.pidfd_open(pid))
        return NodeAnswer(order.name)

    def _supervise(self, order: orders.StartOrder, account: Account | None, files: StartFiles) -> None:
        self._starts.close()
        self._calls.close()
        run_start(order, account, files, self._site)

    def _limit_gpu_memory(self, order: orders.GpuMemoryOrder) -> None:
        refused = ""
        try:
            limit_gpu_memory(self._site, order.name, order.devices, order.memory)
        except NotLimited as refusal:
            refused = str(refusal)
        self._starts.send(encode_answer(NodeAnswer(order.name, refused, memory_limit=True)))

    def _account(self, name: str) -> Account | None:
        rules = self._site.rules
        if rules is not None:
            return find_account(name, rules)
        if name:
            raise InvalidOrder("this pool serves its own user alone")
        return None

    def _signal(self, order: orders.SignalOrder, fds: list[int]) -> NodeAnswer:
        """Signal a supervisor; with several users only one that this process put among supervisors."""
        if len(fds) != 1:
            raise InvalidOrder("a signal needs its process")
        pid = _pid_of(fds[0])
        apart = [Cgroup(group, {}, "") for group in self._site.groups.supervisors()]
        is_apart = pid != os.getpid() and any(pid in group.processes() for group in apart)
        if self._site.rules is not None and not is_apart:
            raise InvalidOrder(f"the process {pid} is no supervisor")
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fds[0], order.number)
            # A stopped process gets signals only after SIGCONT
            signal.pidfd_send_signal(fds[0], signal.SIGCONT)
        return NodeAnswer()

    def _kill(self, order: orders.KillOrder) -> NodeAnswer:
        """Kill all processes in the groups of a start, and remove the groups."""
        groups = [Cgroup(*words) for words in self._site.groups.all_of_pod(order.name)]
        killed = False
        for _ in range(_KILLS_MAX):
            left = {pid for group in groups for pid in group.processes()}
            if not left:
                break
            killed = True
            for group in groups:
                group.kill()
            time.sleep(_AGAIN_S)
        for group in groups:
            group.remove()
        return NodeAnswer(order.name, killed=killed, left=len(left))

    def _join(self, order: orders.JoinOrder, fds: list[int]) -> NodeAnswer:
        if len(fds) != 1 or self._site.rules is None:
            raise InvalidOrder("only a process of a start's own user can join it")
        pid = _pid_of(fds[0])
        groups = [Cgroup(*words) for words in self._site.groups.all_of_pod(order.name)]
        owners = {_uid_of(process) for group in groups for process in group.processes()}
        owner = _uid_of(pid)
        if owner < 0 or owners != {owner}:
            raise InvalidOrder(f"process {pid} doesn't belong to the user of {order.name}")
        for group in groups:
            if group.processes():
                group.add(pid)
        return NodeAnswer(order.name)

    def _remove(self, order: orders.RemoveOrder) -> NodeAnswer:
        places, rules = self._site.places, self._site.rules
        if rules is None or places is None:
            raise InvalidOrder("this pool deletes its directories itself")
        fork(lambda: directories.remove(places, order.uid, rules, checkpoints=order.checkpoints))
        return NodeAnswer()


def _refusal(message: bytes, failure: Exception) -> NodeAnswer:
    """Return the answer to an order that wasn't carried out, with the name of its start, if any."""
    why = f"the node process failed ({type(failure).__name__})"
    if isinstance(failure, InvalidOrder | AccountRefused):
        why = str(failure)
    elif isinstance(failure, OSError):
        why = failure.strerror or "it can't be done"
    with suppress(ValueError, IndexError, TypeError, KeyError, RecursionError):
        kind, name = json.loads(message)[:2]
        if isinstance(name, str):
            return NodeAnswer(name, why, memory_limit=kind == orders.GpuMemoryOrder.__name__)
    return NodeAnswer("", why)


def _pid_of(process: int) -> int:
    """Return the process of a pidfd.

    Raises:
        InvalidOrder: the descriptor is no pidfd, or its process is gone.
    """
    if (pid := int("".join(_field(f"/proc/self/fdinfo/{process}", "Pid")) or 0)) > 0:
        return pid
    raise InvalidOrder("the process is gone")


def _uid_of(pid: int) -> int:
    """Return the user of a process; -1 if it has several user ids, or is gone."""
    ids = set(_field(f"/proc/{pid}/status", "Uid")[:3])
    return int(ids.pop()) if len(ids) == 1 else -1


def _field(file: str, name: str) -> list[str]:
    """Return the words of a named line in a file of the kernel; none without such a line."""
    lines = (line.partition(":") for line in text_of(file).splitlines())
    return next((words.split() for key, _, words in lines if key == name), [])
