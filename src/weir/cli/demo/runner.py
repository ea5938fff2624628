"""The running tour: it observes the pool, shows it, and waits for expected states."""

import sys
import time
from collections.abc import Callable
from typing import Self

from weir.cli.demo.baseline import BaselineRun
from weir.cli.demo.demo_pool import DemoFailed, DemoPool, example
from weir.cli.demo.frame import lines
from weir.cli.demo.jobs import STEP_S, DemoJob
from weir.cli.demo.observations import Observations, look
from weir.cli.demo.rendering import merged_events, picture
from weir.cli.output.terminal import screen
from weir.cli.pool.watch import HIDE, SHOW, is_terminal, paint_over

LOOK_S, UNWATCHED_LOOK_S = 0.4, 1.0
"""Time between two observations, on a terminal and elsewhere; each costs some ten requests."""
COME_S_MAX = 150.0
"""Time without any event or step after which an awaited event counts as lost."""


class DemoRunner:
    """The pool of the tour, its observations and the screen."""

    def __init__(self, stage: DemoPool) -> None:
        self.stage = stage
        self.alone = BaselineRun(stage)
        self.seen = Observations()
        self._began_s = time.time()
        self._live = is_terminal()
        self._height = 0
        self._scene = ("", "")
        self._scene_at = 0  # number of events at the begin of the scene
        self._told = 0  # number of printed lines of the scene

    def __enter__(self) -> Self:
        if self._live:
            sys.stdout.write(HIDE)
        return self

    def __exit__(self, *_error: object) -> None:
        self.alone.close()
        if self._live:
            sys.stdout.write(SHOW)
            sys.stdout.flush()

    def clear(self) -> None:
        """Clear the screen for the summary."""
        if self._live:
            self._height = paint_over((), screen(), self._height)

    def begin(self) -> None:
        """Start the clock."""
        self._began_s = time.time()

    @property
    def at_s(self) -> float:
        """Return the time since the start."""
        return time.time() - self._began_s

    def scene(self, sentence: str, command: str = "") -> None:
        """Show the next action of a person, and its command."""
        self._scene, self._scene_at, self._told = (sentence, command), len(self.seen.events), 0
        if not self._live:
            print("\n".join(filter(None, ["", sentence, f"$ {command}" if command else ""])), flush=True)

    def submit(self, part: DemoJob) -> None:
        """Submit a job of the tour."""
        command = ["sleep", "3600"]
        if part.script:
            command = [sys.executable, str(example(part.script)), *part.words]
            if part.script == "digits.py":
                command += ["--at-least", str(STEP_S)]
        self.stage.pool.submit(
            name=part.name,
            project=part.project,
            command=command,
            directory=str(self.stage.home),
            env=self.stage.of_job(),
            gpus=part.gpus,
            cpu=0.05,
            memory="160Mi",
            grace=20,
            **part.extra_fields,
        )

    def until(self, comes: Callable[[Observations], bool], outcome: str) -> None:
        """Observe the pool until a condition is met.

        Raises:
            DemoFailed: the condition isn't met, and nothing happens any more.
        """
        reached, since_s = self._progress(), time.monotonic()
        while True:
            self._look()
            if comes(self.seen):
                return
            if (progress := self._progress()) != reached:
                reached, since_s = progress, time.monotonic()
            if time.monotonic() > since_s + COME_S_MAX:
                raise DemoFailed(
                    f"Expected, but not seen: {outcome}. Nothing happened for {COME_S_MAX:.0f} s."
                )

    def _progress(self) -> tuple[int, int, tuple[int | None, ...]]:
        """Return the values that change while the tour goes on: events, undisturbed runs, steps of jobs."""
        steps = tuple(detail.step for detail in self.seen.details.values())
        return len(self.seen.events), len(self.alone.ends), steps

    def hold(self, seconds: float) -> None:
        """Observe for some seconds if there is a terminal, so that a person can read the screen."""
        if self._live:
            self.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Observe for some seconds."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._look()

    def _look(self) -> None:
        began_s = time.monotonic()
        self.stage.check()
        look(self.stage.pool, self.seen)
        for name in self.seen.stopped_for_others():
            self.alone.ask(name)
        self.alone.look()
        sentences = merged_events(self.seen.events[self._scene_at :], self._began_s)
        if self._live:
            scene, command = self._scene
            shown = picture(self.seen, at_s=self.at_s, scene=scene, command=command, sentences=sentences)
            display = screen()
            self._height = paint_over(lines(shown, display), display, self._height)
        else:
            for at_s, sentence in sentences[self._told :]:
                print(f"{at_s:6.1f}s  {sentence}", flush=True)
            self._told = len(sentences)
        self.stage.check()
        every_s = LOOK_S if self._live else UNWATCHED_LOOK_S
        time.sleep(max(0.02, every_s - (time.monotonic() - began_s)))
