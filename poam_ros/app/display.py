"""How a running mission looks in a terminal, or in lines where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..survey.states import DONE

if TYPE_CHECKING:
    from ..runs.recorder import Progress

LIVE_PERIOD = 0.25  # s between two pictures
LINE_PERIOD = 10.0  # s between two lines, where the state stays the same


class Display:
    """A live picture by rich in a terminal; else a line now and then on standard output.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: Any = None
        self._shown_at = 0.0
        self._state = ""
        self._last: Progress | None = None

    def __enter__(self) -> Display:
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
        """Leave the last picture as it is; what is said from now on comes below it."""
        if self._live is not None:
            if self._last is not None:
                self._live.update(_picture(self._last), refresh=True)
            self._live.stop()
            self._live = None

    def say(self, line: str) -> None:
        """A line that stays, above the picture while there is one."""
        if self._live is None:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        else:
            self._live.console.print(line, markup=False, highlight=False)

    def show(self, progress: Progress) -> None:
        """Show the progress, if it is time to."""
        now, self._last = self._clock(), progress
        if self._live is not None:
            if now - self._shown_at >= LIVE_PERIOD:
                self._shown_at = now
                self._live.update(_picture(progress), refresh=True)
        elif progress.state != self._state or (
            # Once it is done nothing changes any more.
            progress.state != DONE and now - self._shown_at >= LINE_PERIOD
        ):
            self._shown_at, self._state = now, progress.state
            self.say("  ".join(f"{name} {value}" for name, value in _facts(progress)))


def _facts(progress: Progress) -> list[tuple[str, str]]:
    """Names and values, in the order they are read."""
    samples = str(progress.samples)
    # The mapper may have accepted some more before it heard of the end.
    if progress.samples < progress.max_samples:
        samples += f"/{progress.max_samples}"
    if progress.pending and not progress.samples:
        # A screen judges a batch when it closes, the first of all at the end of the pilot survey.
        samples += f", {progress.pending} pending"
    facts = [("state", progress.state), ("samples", samples), ("epoch", str(progress.epochs))]
    if progress.epoch is not None:
        facts.append(("smse", f"{progress.epoch.metrics.smse:.4f}"))
        facts.append(("update", f"{progress.epoch.update_s:.2f} s"))
    if progress.speed == progress.speed:
        facts.append(("speed", f"{progress.speed:.1f} x"))
    return facts + [(node, problem) for node, problem in progress.problems.items()]


def _picture(progress: Progress) -> Any:
    from rich.console import Group
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    # As texts: whatever is said above the picture draws it anew, and without markup.
    table = Table.grid(padding=(0, 2))
    for name, value in _facts(progress):
        table.add_row(Text(name, style="bold"), Text(value))
    total = progress.max_samples or None
    # The padding ends the bar's line, which it does not do itself.
    bar = Padding(ProgressBar(total=total, completed=progress.samples, width=50), 0)
    return Group(bar, table)
