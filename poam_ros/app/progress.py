"""What a person watches while a mission in lock-step runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..runs.folder import EpochRecord


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
