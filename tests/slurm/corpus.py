"""Job scripts of many styles: written by hand as files, and lists of directives."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
RECORDED = HERE / "recorded.json"


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and what it is submitted with."""

    name: str
    text: str
    words: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


_DIRECTIVES: dict[str, str] = {
    "short_options": "-J short -n 4 -c 2 -t 90 -p debug -A team -q high",
    "short_joined": "-n4 -c2 -t1-0 -N1 -Jjoined",
    "letters_together": "-sOn 4",
    "long_with_spaces": "--ntasks 4 --cpus-per-task 2 --time 1:00:00 --mem 4G",
    "long_with_equals": "--ntasks=4 --cpus-per-task=2 --time=1:00:00 --mem=4G",
    "abbreviated": "--cpus-per-t=3 --ntasks-per-n=2 --part=debug",
    "ambiguous": "--gpus-per=3",
    "unknown": "--bogus=3",
    "unknown_letter": "-Z",
    "no_option": "-n 2 foo -c 3",
    "no_value": "--ntasks",
    "needless_value": "--requeue=yes",
    "comment_after": "-n2 -c3 # and why",
    "comment_joined": "-n2# why",
    "single_quotes": "--job-name='a b' --comment='x # y'",
    "double_quotes": '--job-name="a b" --mem="2G"',
    "quote_inside": '-J a"b c"d',
    "backslash_quote": '-J a\\"b',
    "backslash_hash": "-J a\\#b",
    "backslash_space": "-J a\\ b",
    "backslash_in_quotes": "-J 'a\\b'",
    "quote_open": '-J "a b',
    "empty_name": "--job-name=",
    "colon_word": ":-n3",
    "double_dash": "-n 2 --",
    "time_minutes": "--time=90",
    "time_minutes_seconds": "--time=1:30",
    "time_hours": "--time=12:00:00",
    "time_days": "--time=2-",
    "time_days_hours": "--time=1-12",
    "time_days_minutes": "--time=1-12:30",
    "time_all": "--time=1-2:3:4",
    "time_long_hours": "--time=100:00:00",
    "time_zero": "--time=0",
    "time_unlimited": "--time=UNLIMITED",
    "time_infinite": "--time=infinite",
    "time_wrong_unit": "--time=2h",
    "time_too_long_form": "--time=2:00:00:00",
    "time_decimal": "--time=1.5",
    "memory_plain": "--mem=4000",
    "memory_kilo": "--mem=4000K",
    "memory_kilo_odd": "--mem=1025k",
    "memory_giga_lower": "--mem=4g",
    "memory_with_byte": "--mem=4096MB",
    "memory_tera": "--mem=1T",
    "memory_zero": "--mem=0",
    "memory_binary": "--mem=4Gi",
    "memory_decimal": "--mem=1.5G",
    "memory_per_cpu": "--mem-per-cpu=2G -n 4",
    "memory_per_gpu": "--mem-per-gpu=20G --gpus=2",
    "memory_twice": "--mem=4G --mem=8G",
    "memory_two_ways": "--mem=4G --mem-per-cpu=2G",
    "nodes_range": "--nodes=2-4",
    "nodes_kilo": "--nodes=1k",
    "nodes_backwards": "--nodes=3-2",
    "nodes_exact": "-N1-1 -n 3",
    "nodes_list": "--nodes=1,3",
    "tasks_per_node": "-N 2 --ntasks-per-node=4 -c 2",
    "tasks_alias": "-N1 --tasks-per-node=2",
    "tasks_zero": "--ntasks=0",
    "tasks_kilo": "--ntasks=2k",
    "tasks_per_gpu": "--gpus=4 --ntasks-per-gpu=2",
    "tasks_per_gpu_node": "--ntasks-per-gpu=2 --gpus-per-node=2 -N2",
    "tasks_per_gpu_only": "-n 8 --ntasks-per-gpu=2",
    "mincpus": "--mincpus=4",
    "gres_count": "--gres=gpu:2",
    "gres_model": "--gres=gpu:a100:2",
    "gres_model_only": "--gres=gpu:a100",
    "gres_gpu_only": "--gres=gpu",
    "gres_prefix": "--gres=gres:gpu:2",
    "gres_none": "--gres=none --gpus=1",
    "gres_two_models": "--gres=gpu:a100:1,gpu:v100:2",
    "gres_wrong": "--gres=gpu=2",
    "gres_empty_count": "--gres=gpu:",
    "gpus_total": "-G 2",
    "gpus_model": "--gpus=a100:2",
    "gpus_only_model": "--gpus=a100",
    "gpus_per_node": "--gpus-per-node=v100:2 -N1",
    "gpus_per_task": "--gpus-per-task=1 -n 4",
    "gpus_per_task_alone": "--gpus-per-task=2",
    "gpus_per_task_total": "--gpus=4 --gpus-per-task=2",
    "gpus_per_socket": "--gpus-per-socket=1 --sockets-per-node=2",
    "gpus_total_and_node": "--gpus=4 --gpus-per-node=2",
    "cpus_per_gpu": "--gpus=4 --cpus-per-gpu=6",
    "cpus_two_ways": "--cpus-per-gpu=2 -c2 --gpus=1",
    "array_range": "--array=0-15",
    "array_step": "--array=0-15:4",
    "array_list": "--array=5,1,3",
    "array_mixed": "--array=0-10:3,20%4",
    "array_brackets": "--array=[1-3]",
    "array_zeros": "--array=001-003",
    "array_backwards": "--array=3-1",
    "array_text": "--array=abc",
    "array_step_zero": "--array=1-10:0",
    "depends_one": "--dependency=afterok:1",
    "depends_many": "--dependency=afterok:1:2,afterany:3",
    "depends_bare": "--dependency=5",
    "depends_started": "--dependency=after:5",
    "depends_later": "--dependency=after:5+10",
    "depends_any_of": "--dependency=afterok:1?afterany:2",
    "depends_singleton": "--dependency=singleton",
    "depends_unknown": "--dependency=bogus:5",
    "depends_empty": "--dependency=afterok:",
    "begin_span": "--begin=now+2hours",
    "begin_seconds": "--begin=now+90",
    "begin_clock": "--begin=16:00",
    "begin_half": "--begin=4:30PM",
    "begin_tomorrow": "--begin=tomorrow",
    "begin_named": "--begin=teatime",
    "begin_date": "--begin=2095-01-20",
    "begin_moment": "--begin=2095-01-20T12:34:56",
    "begin_american": "--begin=01/20/95",
    "begin_both": '--begin="16:00 01/20/95"',
    "begin_past": "--begin=2020-01-01",
    "begin_wrong": "--begin=soon",
    "begin_unit": "--begin=now+1m",
    "signal_plain": "--signal=USR1@120 --time=10",
    "signal_shell": "--signal=B:TERM@30 --time=10",
    "signal_wrong": "--signal=B:BOGUS",
    "mail": "--mail-type=END,FAIL --mail-user=me@example.org",
    "mail_wrong": "--mail-type=SOMETIMES",
    "constraint": "--constraint=a100&ssd",
    "exclusive": "--exclusive --mem=10G",
    "exclusive_user": "--exclusive=user",
    "exclusive_wrong": "--exclusive=mine",
    "nodelist": "--nodelist=box --exclude=far[2-3]",
    "requeue_last": "--no-requeue --requeue",
    "no_requeue": "--no-requeue",
    "names_twice": "-J x -J y -n 2 -n 3",
    "advice": "--hint=nomultithread --distribution=block --contiguous --switches=1 --comment=tuned",
    "cores": "-B 1:4 --ntasks-per-core=1 --threads-per-core=1",
    "open_mode_wrong": "--open-mode=bogus",
    "nice": "--nice=100 --tmp=1G --wckey=tests",
}
_TEXTS: dict[str, str] = {
    "later_directives": "#!/bin/bash\n#SBATCH -n2\n\n# text\n   \n#SBATCH -c2\necho\n#SBATCH -n9\n",
    "not_directives": "#!/bin/bash\n# SBATCH -n2\n##SBATCH -n3\n #SBATCH -n5\n#sbatch -n6\necho\n",
    "joined_magic": "#!/bin/bash\n#SBATCH-n4\necho\n",
    "tab_after_magic": "#!/bin/bash\n#SBATCH\t-n4\t-c2\necho\n",
    "no_interpreter": "echo no interpreter\n",
    "dos_lines": "#!/bin/bash\r\n#SBATCH -n2\r\necho\r\n",
    "heterogeneous": "#!/bin/bash\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n3\necho\n",
    "heterogeneous_old": "#!/bin/bash\n#SBATCH -n1\n#SBATCH packjob\n#SBATCH -n3\necho\n",
    "no_directives": "#!/bin/bash\necho\n",
    "no_newline": "#!/bin/bash\n#SBATCH -n3\necho",
    "dash_line": "#!/bin/bash\n#SBATCH --\n#SBATCH -n2\necho\n",
    "python_comments": '#!/usr/bin/env python3\n#SBATCH --ntasks=2\n"""Text."""\n#SBATCH --ntasks=3\n',
    "indented_comment": "#!/bin/bash\n   # indented\n#SBATCH -n3\necho\n",
    "colon_command": "#!/bin/bash\n:\n#SBATCH -n3\necho\n",
}
_SUBMITTED: tuple[Case, ...] = (
    Case("words_over_script", "#!/bin/bash\n#SBATCH -n2 -t 10\necho\n", ("-n", "5")),
    Case("variable_over_script", "#!/bin/bash\n#SBATCH -t 10 -p gpu\necho\n", (), {"SBATCH_TIMELIMIT": "30"}),
    Case("words_over_variable", "#!/bin/bash\necho\n", ("--time=20",), {"SBATCH_TIMELIMIT": "30"}),
    Case("variable_flag", "#!/bin/bash\necho\n", (), {"SBATCH_NO_REQUEUE": "1", "SBATCH_GPUS": "2"}),
    Case("memory_replaced", "#!/bin/bash\n#SBATCH --mem-per-cpu=2G\necho\n", ("--mem=8G",)),
    Case("array_replaced", "#!/bin/bash\n#SBATCH --array=1,3,5-7\necho\n", ("--array=2-3",)),
    Case(
        "variables_many",
        "#!/bin/bash\n#SBATCH -J x\necho\n",
        (),
        {"SBATCH_JOB_NAME": "y", "SBATCH_MEM_PER_NODE": "3G"},
    ),
)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for file in sorted(SCRIPTS.glob("*.sh")):
        yield Case(f"script_{file.stem}", file.read_text())
    for name, directives in _DIRECTIVES.items():
        yield Case(name, f"#!/bin/bash\n#SBATCH {directives}\necho\n")
    for name, text in _TEXTS.items():
        yield Case(name, text)
    yield from _SUBMITTED


def recorded() -> dict[str, dict[str, object]]:
    """Return the recorded answers of sbatch, by case."""
    answers: dict[str, dict[str, object]] = json.loads(RECORDED.read_text())
    return answers
