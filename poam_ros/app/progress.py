"""What a person watches while a mission in lock-step or a sweep of them runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..frontend.events import DONE

if TYPE_CHECKING:
    from ..outputs.recorder import Progress
if TYPE_CHECKING:
    from ..outputs.folder import EpochRecord
    from ..research.sweeps.configuration import Run
    from ..research.sweeps.sweep import OnRun, SweepStatus

LIVE_PERIOD = 0.25  # s between two pictures
LINE_PERIOD = 10.0  # s between two lines, where the state stays the same


class ProgressDisplay:
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


def _live() -> Any:
    """The module of rich's bars, where it is installed and there is a terminal for them."""
    try:
        import rich.progress
    except ImportError:
        return None
    return rich.progress if sys.stdout.isatty() else None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def mission_progress(max_samples: int) -> Iterator[Callable[[EpochRecord], None]]:
    """A function to call with every epoch: a live bar on a terminal, else a line now and then."""
    rich, count, due = _live(), 0, 0
    if rich is None:

        def report(record: EpochRecord) -> None:
            """A line for every tenth of the mission."""
            nonlocal count, due
            count += 1
            if record.samples >= due:
                tenth = max(1, max_samples // 10)
                due = (record.samples // tenth + 1) * tenth
                _say(f"epoch {count:3d}  {record.samples:5d} samples  {_scores(record)}")

        yield report
        return
    text = "{task.completed:.0f}/{task.total:.0f} samples  {task.description}"
    columns = rich.BarColumn(), rich.TextColumn(text), rich.TimeRemainingColumn()
    with rich.Progress(*columns) as progress:
        task = progress.add_task("pilot survey", total=max_samples)

        def update(record: EpochRecord) -> None:
            nonlocal count
            count += 1
            said = f"epoch {count}  {_scores(record)}"
            progress.update(task, completed=record.samples, description=said)

        yield update


@contextmanager
def work_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with how much of a total is done: a live bar on a terminal, else a line
    for every quarter."""
    rich = _live()
    if rich is None:
        due = quarter = max(1, total // 4)

        def report(done: int) -> None:
            nonlocal due
            if done >= due:
                due = (done // quarter + 1) * quarter
                _say(f"{what}: {100 * done // max(1, total)} %")

        yield report
        return
    columns = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TimeRemainingColumn()
    with rich.Progress(*columns) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def _scores(record: EpochRecord) -> str:
    return (
        f"SMSE {record.metrics.smse:.4f}  MSLL {record.metrics.msll:+.3f}  "
        f"update {record.update_s:.2f} s"
    )


@contextmanager
def sweep_progress() -> Iterator[OnRun]:
    """What `run_sweep` is to call with every run: a live bar on a terminal, else a line for each.

    A run that fails is a line on stderr, too.
    """
    rich = _live()
    if rich is None:
        yield _report
        return
    from rich.progress import ProgressColumn
    from rich.text import Text

    latest: list[SweepStatus] = []
    stderr = sys.stderr  # as it was; the live bar takes it over

    class Left(ProgressColumn):
        """Counts down between the runs, too."""

        def render(self, task: Any) -> Text:
            return Text(_left(latest[0]) if latest else "")

    columns = rich.BarColumn(), rich.TextColumn("{task.description}"), Left()
    with rich.Progress(*columns, refresh_per_second=2) as progress:
        task = progress.add_task("starting the workers", total=None)

        def on_run(status: SweepStatus, run: Run | None) -> None:
            latest[:] = [status]
            said = _counts(status)
            progress.update(task, total=status.total, completed=status.finished, description=said)
            if run is None or run not in status.failed:
                return
            line = _failure(status, run)
            if stderr.isatty():
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                print(line, file=stderr, flush=True)

        yield on_run


def _report(status: SweepStatus, run: Run | None) -> None:
    failed = run is not None and run in status.failed
    if run is not None and failed:
        print(_failure(status, run), file=sys.stderr, flush=True)
    what = "" if run is None or failed else f"{run}: done, "
    _say(f"{what}{_counts(status)}  {_left(status)}".rstrip())


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
