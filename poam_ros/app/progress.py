"""Live progress of missions, benchmarks and maps."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ..frontend.events import DONE, PILOT

if TYPE_CHECKING:
    from ..outputs.folder import EpochRecord
    from ..outputs.recorder import Progress

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
    samples, left, epoch = str(progress.samples), "", progress.epoch
    # The mapper may have accepted more pings before it received the end of the mission.
    if progress.samples < progress.max_samples:
        samples += f"/{progress.max_samples}"
    if progress.pending and not progress.samples:
        # Screening runs when a batch is due, first at the end of the pilot survey.
        until = " until the pilot survey is over" if progress.state == PILOT else ""
        samples += f", {progress.pending} pending{until}"
    if progress.time_left < math.inf:
        minutes, seconds = divmod(round(max(0.0, progress.time_left)), 60)
        left = f"about {minutes} min {seconds:02d} s"
    facts = {
        "state": progress.state,
        "reason": progress.reason,
        "samples": samples,
        "epoch": str(progress.epochs),
        "depth": progress.depth,
        "left": left,
        "smse": f"{epoch.smse:.4f}" if epoch else "",
        "update": f"{epoch.update_s:.2f} s" if epoch else "",
        "speed": "" if math.isnan(progress.speed) else f"{progress.speed:.1f} x",
        **progress.problems,
    }
    return [(name, value) for name, value in facts.items() if value or name == "state"]


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
def work_progress(what: str, total: int, parts: int = 4) -> Iterator[Callable[..., None]]:
    """A function to call with the work done and a text on it: a bar of rich on a terminal, and
    otherwise a line for the first and for every one of ``parts`` parts."""
    bar: Any = None
    if sys.stdout.isatty():
        with suppress(ImportError):
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            text = "{task.description}  {task.fields[text]}"
            bar = Progress(BarColumn(), TextColumn(text), TimeRemainingColumn())
    step = max(1, total // parts)
    due = step
    with bar or nullcontext():
        task = bar.add_task(what, total=total, text="") if bar else None

        def report(done: int, text: str = "") -> None:
            nonlocal due
            if task is not None:
                bar.update(task, completed=done, text=text)
            elif done >= due:
                due = (done // step + 1) * step
                print(f"{what}: {text or f'{100 * done // max(1, total)} %'}", flush=True)

        yield report


def scores_text(epoch: int, record: EpochRecord) -> str:
    """An epoch of a simulated mission in words."""
    return (
        f"epoch {epoch:3d}  {record.samples:5d} samples  SMSE {record.smse:.4f}  "
        f"MSLL {record.msll:+.3f}  update {record.update_s:.2f} s"
    )
