"""Record what Slurm makes of each script of the corpus: `python -m tools.slurm.record`.

Every script is submitted to a private Slurm, held, and read back with `scontrol show job`. The answers are
data for tests that run without Slurm.
"""

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.slurm.corpus import RECORDED, Case, cases
from tools.slurm.instance import Instance, instance
from tools.slurm.programs import NoSlurm, find

_PAIR = re.compile(r"(?:^|\s)([A-Za-z/:&]+)=")
_KEPT = (
    *("JobName", "Account", "QOS", "Dependency", "Requeue", "TimeLimit", "SubmitTime", "EligibleTime"),
    *("Partition", "ReqNodeList", "ExcNodeList", "NumNodes", "NumTasks", "CPUs/Task", "MinCPUsNode"),
    *("MinMemoryNode", "MinMemoryCPU", "Features", "OverSubscribe", "WorkDir", "StdErr", "StdIn", "StdOut"),
    *("TresPerNode", "TresPerJob", "TresPerTask", "TresPerSocket", "MemPerTres", "CpusPerTres"),
    *("ArrayTaskId", "ArrayTaskThrottle", "MailUser", "MailType", "JobId"),
)


def answer(slurm: Instance, case: Case, directory: Path) -> Mapping[str, object]:
    """Return the facts of a job, or the refusal."""
    script = directory / "job.sh"
    script.write_bytes(case.text.encode())
    words = ["sbatch", "--hold", "--parsable", *case.words, script.name]
    done = slurm.run(words, directory, case.variables)
    if done.returncode:
        return {"refused": done.stderr.strip().splitlines()[0].removeprefix("sbatch: ")}
    number = done.stdout.split()[-1]
    shown = slurm.run(["scontrol", "show", "job", number], directory).stdout
    slurm.run(["scancel", number], directory)
    facts = _facts(shown.split("\n\n")[0])
    return {key: value.replace(str(directory), "DIR") for key, value in facts.items() if value != "(null)"}


def _facts(shown: str) -> dict[str, str]:
    """Return the pairs of `scontrol show job`; a value may have spaces in it."""
    facts: dict[str, str] = {}
    for line in shown.splitlines():
        pairs = list(_PAIR.finditer(line))
        for index, match in enumerate(pairs):
            end = pairs[index + 1].start() if index + 1 < len(pairs) else len(line)
            facts[match[1]] = line[match.end() : end].strip()
    return {key: facts[key] for key in _KEPT if key in facts}


def main() -> int:
    """Write the answers."""
    try:
        programs = find()
        with tempfile.TemporaryDirectory(prefix="weir-slurm-") as above:
            directory = Path(above) / "jobs"
            directory.mkdir()
            with instance(programs, Path(above) / "slurm") as slurm:
                answers = {case.name: answer(slurm, case, directory) for case in cases()}
    except NoSlurm as lacks:
        print(lacks, file=sys.stderr)
        return 1
    RECORDED.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    refused = sum("refused" in answer for answer in answers.values())
    print(f"{len(answers)} scripts, {refused} of them refused, in {RECORDED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
