"""Programs of `srun --multi-prog`: a file with ranks and their commands."""

import re
import shlex
from collections.abc import Mapping, Sequence

from weir.slurm.errors import SlurmError

_RANKS = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)


def read_programs(text: str, name: str, tasks: int) -> Mapping[int, Sequence[str]]:
    """Return the command of each task; `%t` is its number, `%o` its offset in the range.

    Raises:
        SlurmError: a line can't be read, or a task has no command.
    """
    commands: dict[int, Sequence[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        ranks, _, command = bare.partition(" ")
        try:
            words = shlex.split(command)
        except ValueError:
            raise SlurmError(f"{name}:{number}: has a quote that isn't closed: write the other one") from None
        if not words:
            raise SlurmError(
                f"{name}:{number}: names no program: write ranks and a program, such as 0-3 ./work"
            )
        for offset, rank in enumerate(_ranks(ranks, tasks, f"{name}:{number}")):
            commands[rank] = [word.replace("%t", str(rank)).replace("%o", str(offset)) for word in words]
    missing = [rank for rank in range(tasks) if rank not in commands]
    if missing:
        raise SlurmError(f"{name}: task {missing[0]} has no program: write one, such as * ./work")
    return commands


def _ranks(text: str, tasks: int, where: str) -> Sequence[int]:
    if text == "*":
        return range(tasks)
    ranks: list[int] = []
    for part in text.split(","):
        match = _RANKS.fullmatch(part)
        if match is None:
            raise SlurmError(f"{where}: {part!r} is no task: write numbers such as 0, 1-3 or *")
        ranks += range(int(match[1]), min(int(match[2] or match[1]), tasks) + 1)
    return [rank for rank in ranks if rank < tasks]
