"""What a person watches while a sweep runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..experiments.configuration import Run
from ..experiments.sweep import OnRun, SweepStatus


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
    stderr = sys.stderr  # as it was; the live bar takes it over

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
                line = _failure(status, run)
                if stderr.isatty():
                    progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
                else:
                    stderr.write(line + "\n")
                    stderr.flush()

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
    if minutes <= 1:
        return "about a minute left"
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"about {hours}{minutes % 60} min left"


def _failure(status: SweepStatus, run: Run) -> str:
    path = status.failed[run]
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    return f"FAILED {run}: {lines[-1] if lines else 'no reason given'} ({path})"
