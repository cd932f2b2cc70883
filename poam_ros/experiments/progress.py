"""What a person watches while a mission in lock-step runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .configuration import Run
from .results import EpochRecord
from .sweep import OnRun, SweepStatus


@contextmanager
def mission_progress(max_samples: int) -> Iterator[Callable[[EpochRecord], None]]:
    """A function to call with every epoch: a live bar on a terminal, else a line now and then."""
    try:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        rich = False
    else:
        rich = sys.stdout.isatty()
    if not rich:
        yield _Lines(max_samples)
        return
    columns = (
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} samples  {task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("pilot survey", total=max_samples)
        count = 0

        def on_epoch(record: EpochRecord) -> None:
            nonlocal count
            count += 1
            progress.update(
                task, completed=record.samples, description=f"epoch {count}  {_describe(record)}"
            )

        yield on_epoch


class _Lines:
    """A line for every tenth of the mission."""

    def __init__(self, max_samples: int) -> None:
        self._step = max(1, max_samples // 10)
        self._next = 0
        self._count = 0

    def __call__(self, record: EpochRecord) -> None:
        self._count += 1
        if record.samples >= self._next:
            self._next = (record.samples // self._step + 1) * self._step
            line = f"epoch {self._count:3d}  {record.samples:5d} samples  {_describe(record)}\n"
            sys.stdout.write(line)
            sys.stdout.flush()


def _describe(record: EpochRecord) -> str:
    return (
        f"SMSE {record.metrics.smse:.4f}  MSLL {record.metrics.msll:+.3f}  "
        f"update {record.update_s:.2f} s"
    )


@contextmanager
def sweep_progress() -> Iterator[OnRun]:
    """What `run_sweep` is to call with every run: a live bar on a terminal, else a line for each.

    A run that fails is a line on stderr, too.
    """
    try:
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text
    except ImportError:
        rich = False
    else:
        rich = sys.stdout.isatty()
    if not rich:
        yield _report
        return
    latest: list[SweepStatus] = []

    class Left(ProgressColumn):
        """Counts down between the runs, too."""

        def render(self, task: Any) -> Text:
            return Text(_left(latest[0]) if latest else "")

    columns = (BarColumn(), TextColumn("{task.description}"), Left())
    with Progress(*columns, refresh_per_second=2) as progress:
        task = progress.add_task("starting the workers", total=None)

        def on_run(status: SweepStatus, run: Run | None) -> None:
            latest[:] = [status]
            progress.update(
                task, total=status.total, completed=status.finished, description=_counts(status)
            )
            if run is not None and run in status.failed:
                progress.console.print(_failure(status, run), markup=False, highlight=False)

        yield on_run


def _report(status: SweepStatus, run: Run | None) -> None:
    if run is not None and run in status.failed:
        sys.stderr.write(_failure(status, run) + "\n")
        sys.stderr.flush()
    what = f"{run}: done, " if run is not None and run not in status.failed else ""
    sys.stdout.write(f"{what}{_counts(status)}  {_left(status)}".rstrip() + "\n")
    sys.stdout.flush()


def _counts(status: SweepStatus) -> str:
    return (
        f"{status.finished}/{status.total} runs done, {len(status.running)} running, "
        f"{len(status.failed)} failed"
    )


def _left(status: SweepStatus) -> str:
    seconds = status.seconds_left()
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "about a minute left"
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"about {hours}{minutes % 60} min left"


def _failure(status: SweepStatus, run: Run) -> str:
    path = status.failed[run]
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    return f"FAILED {run}: {lines[-1] if lines else 'no reason given'} ({path})"
