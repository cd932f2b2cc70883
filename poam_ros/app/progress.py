"""Live progress of missions, benchmarks and maps."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..frontend.events import DONE, PILOT

if TYPE_CHECKING:
    from ..outputs.folder import EpochRecord
    from ..outputs.recorder import Progress
    from ..research.sweeps.configuration import Run
    from ..research.sweeps.sweep import OnRun, SweepStatus

LIVE_PERIOD_S = 0.25  # between two live updates
LINE_PERIOD_S = 10.0  # between two lines while the state stays the same


class ProgressDisplay:
    """A live display by rich on a terminal; otherwise lines on standard output.

    Args:
        clock: a steady clock, in s.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: Any = None
        self._shown_at = 0.0
        self._state = ""
        self._last: Progress | None = None

    def __enter__(self) -> ProgressDisplay:
        if sys.stdout.isatty():
            try:
                from rich.live import Live
            except ImportError:
                return self
            self._live = Live(auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the last display as it is; further lines come below it."""
        if self._live is not None:
            if self._last is not None:
                self._live.update(picture(self._last), refresh=True)
            self._live.stop()
            self._live = None

    def print_line(self, line: str) -> None:
        """Print a line, above the live display if there is one."""
        if self._live is None:
            print(line, flush=True)
        else:
            self._live.console.print(line, markup=False, highlight=False)
            self._shown_at = -math.inf  # the display below it may be outdated

    def typed(self) -> None:
        """Move the cursor back up after a person has typed a line into the live display."""
        if self._live is not None and sys.stdin.isatty():
            from rich.control import Control

            self._live.console.control(Control.move(0, -1))

    def show(self, progress: Progress) -> None:
        """Show the progress, at most once per period."""
        now, self._last = self._clock(), progress
        if self._live is not None:
            if now - self._shown_at >= LIVE_PERIOD_S:
                self._shown_at = now
                self._live.update(picture(progress), refresh=True)
        elif progress.state != self._state or (
            # Once it is done, nothing changes.
            progress.state != DONE and now - self._shown_at >= LINE_PERIOD_S
        ):
            self._shown_at, self._state = now, progress.state
            self.print_line("  ".join(f"{name} {value}" for name, value in _facts(progress)))


def _facts(progress: Progress) -> list[tuple[str, str]]:
    """Names and values, in the order of the display."""
    samples = str(progress.samples)
    # The mapper may have accepted more pings before it received the end of the mission.
    if progress.samples < progress.max_samples:
        samples += f"/{progress.max_samples}"
    if progress.pending and not progress.samples:
        # Screening runs when a batch is due, first at the end of the pilot survey.
        until = " until the pilot survey is over" if progress.state == PILOT else ""
        samples += f", {progress.pending} pending{until}"
    facts = [("state", progress.state)]
    if progress.reason:
        facts.append(("reason", progress.reason))
    facts += [("samples", samples), ("epoch", str(progress.epochs))]
    if progress.depth:
        facts.append(("depth", progress.depth))
    if progress.time_left < float("inf"):
        minutes, seconds = divmod(round(max(0.0, progress.time_left)), 60)
        facts.append(("left", f"about {minutes} min {seconds:02d} s"))
    if progress.epoch is not None:
        facts.append(("smse", f"{progress.epoch.metrics.smse:.4f}"))
        facts.append(("update", f"{progress.epoch.update_s:.2f} s"))
    if progress.speed == progress.speed:
        facts.append(("speed", f"{progress.speed:.1f} x"))
    return facts + [(node, problem) for node, problem in progress.problems.items()]


def picture(progress: Progress) -> Any:
    from rich.console import Group
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    # Text, not strings: rich would read a string as markup whenever it redraws the display.
    table = Table.grid(padding=(0, 2))
    for name, value in _facts(progress):
        table.add_row(Text(name, style="bold"), Text(value))
    total = progress.max_samples or None
    # The bar itself does not end its line; the padding does.
    bar = Padding(ProgressBar(total=total, completed=progress.samples, width=50), 0)
    return Group(bar, table)


@contextmanager
def _bar(text: str, description: str, total: int | None) -> Iterator[Callable[..., None] | None]:
    """A function that updates a live bar, as rich's; None without a terminal."""
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield None
        return
    if not sys.stdout.isatty():
        yield None
        return
    with Progress(BarColumn(), TextColumn(text), TimeRemainingColumn()) as progress:
        yield partial(progress.update, progress.add_task(description, total=total))


@contextmanager
def mission_progress(max_samples: int) -> Iterator[Callable[[EpochRecord], None]]:
    """A function to call with every epoch; without a terminal it prints a line every tenth."""
    text = "{task.completed:.0f}/{task.total:.0f} samples  {task.description}"
    tenth = max(1, max_samples // 10)
    count = due = 0
    with _bar(text, "pilot survey", max_samples) as update:

        def report(record: EpochRecord) -> None:
            nonlocal count, due
            count += 1
            if update is not None:
                update(completed=record.samples, description=f"epoch {count}  {_scores(record)}")
            elif record.samples >= due:
                due = (record.samples // tenth + 1) * tenth
                text = f"epoch {count:3d}  {record.samples:5d} samples  {_scores(record)}"
                print(text, flush=True)

        yield report


@contextmanager
def work_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the work done; without a terminal it prints every quarter."""
    due = quarter = max(1, total // 4)
    with _bar("{task.description}", what, total) as update:

        def report(done: int) -> None:
            nonlocal due
            if update is not None:
                update(completed=done)
            elif done >= due:
                due = (done // quarter + 1) * quarter
                print(f"{what}: {100 * done // max(1, total)} %", flush=True)

        yield report


def _scores(record: EpochRecord) -> str:
    return (
        f"SMSE {record.metrics.smse:.4f}  MSLL {record.metrics.msll:+.3f}  "
        f"update {record.update_s:.2f} s"
    )


@contextmanager
def sweep_progress() -> Iterator[OnRun]:
    """The callback of `run_sweep`; without a terminal it prints a line for each run.

    A failed run is also reported on stderr.
    """
    stderr = sys.stderr
    with _bar("{task.description}", "starting the workers", None) as update:

        def on_run(status: SweepStatus, run: Run | None) -> None:
            counts = f"{status.finished}/{status.total} runs done, {len(status.failed)} failed"
            failed = run is not None and run in status.failed
            if run is not None and failed:
                # A live bar replaces stderr; a file gets the line all the same.
                file = sys.stderr if stderr.isatty() else stderr
                print(_failure(status, run), file=file, flush=True)
            if update is not None:
                done = status.finished + len(status.failed)
                update(total=status.total, completed=done, description=counts)
            else:
                print(counts if run is None or failed else f"{run}: done, {counts}", flush=True)

        yield on_run


def _failure(status: SweepStatus, run: Run) -> str:
    path = status.failed[run]
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    return f"FAILED {run}: {lines[-1] if lines else 'no reason given'} ({path})"
