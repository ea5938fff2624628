"""The end of the tour: the results of the checks and of the jobs, and the next steps."""

from collections.abc import Sequence

from weir.cli.demo.baseline import done
from weir.cli.demo.checks import Check, DemoOutcome, is_same, resumptions
from weir.cli.demo.jobs import PARTS, DemoJob
from weir.cli.output.columns import Column, table
from weir.cli.output.formatting import NOTHING, number
from weir.cli.output.terminal import Screen, wrapped

GO_ON = (
    ("weir up", "the pool of this machine; --virtual-gpus 8 where it has none"),
    ("weir submit -p default --gpus 1 -- python train.py", "queue your own command"),
    ("weir top --watch", "GPUs by project and person, and their use"),
    ("weir why NAME", "why it waits, and how it could start"),
)
_READ = "examples/digits.py is the job that was stopped; docs/tutorials/quickstart.md is the next page."


def summary(facts: DemoOutcome, checks: Sequence[Check], display: Screen) -> list[str]:
    """Return the lines of the summary."""
    false = sum(not claim.holds for claim in checks)
    head = "All of it came true:" if not false else f"{false} of {len(checks)} did not come true:"
    lines = ["", display.paint(head, "strong"), ""]
    for claim in checks:
        first, *rest = wrapped(claim.sentence, None if display.width is None else display.width - 4).split(
            "\n"
        )
        mark = display.paint("✓", "good") if claim.holds else display.paint("✗", "bad")
        lines += [f"  {mark} {first}", *(f"    {line}" for line in rest)]
    jobs = [part for part in PARTS.values() if part.steps and part.name in facts.seen.details]
    return [*lines, "", *table(jobs, _columns(facts), display), *_go_on(display)]


def _columns(facts: DemoOutcome) -> "tuple[Column[DemoJob], ...]":
    def stopped(part: DemoJob) -> str:
        steps = [str(step) for step, _ in resumptions(facts.logs.get(part.name, ()))]
        return f"at step {', '.join(steps)}" if steps else "never"

    def loss(part: DemoJob) -> str:
        logs = facts.logs.get(part.name, ())
        line = done(logs[-1]) if logs else None
        return NOTHING if line is None else line.partition("loss ")[2].partition(",")[0]

    def alone(part: DemoJob) -> str:
        if part.name not in facts.alone:
            return NOTHING
        return "the same" if is_same(facts, part.name) else "another"

    def step(part: DemoJob) -> str:
        return number(facts.seen.details[part.name].step)

    return (
        Column("JOB", lambda part: part.name),
        Column("PROJECT", lambda part: part.project, drop=1),
        Column("STOPPED", stopped),
        Column("STEPS", step, right=True),
        Column("LOSS", loss),
        Column("UNDISTURBED", alone, tone=lambda part: "bad" if alone(part) == "another" else "plain"),
    )


def _go_on(display: Screen) -> list[str]:
    width = max(len(command) for command, _ in GO_ON)
    needed = max(width + len(does) + 4 for _, does in GO_ON)
    lines = ["", display.paint("Go on:", "strong"), ""]
    for command, does in GO_ON:
        if display.width is not None and display.width < needed:
            lines += [f"  {command}", display.paint(f"      {does}", "quiet")]
        else:
            lines.append(f"  {command:<{width}}  {display.paint(does, 'quiet')}")
    return [*lines, "", *wrapped(_READ, display.width).split("\n")]
