"""The diagnostics of the mapper: level, text and values."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus

from ...core.clock import SECOND, Moment
from ...core.errors import quantity
from ...frontend.events import MapDrawn
from ...frontend.front_end import AFTER_MISSION, OVERLOAD
from ...frontend.refused_pings import ODOMETRY_REASONS, REASONS
from ...learning.session import SurveySession
from ...outputs.crossings import statistics_of
from ...outputs.scoring import MapReport

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
SENSORS = ("odom", "sonar/range")
#: The newest pings and odometry that are judged, in s.
LATELY_S = 10.0
#: Share of them that is refused: a warning; an error if none is accepted. A fault refuses all; a
#: good sonar that loses a tenth at random is above a fifth in a quarter of all seconds at 1 Hz.
MANY = 0.5
SLOW_UPDATE_S = 1.0  # p99 of an update with its map; more is reported
#: What to do.
SLOW = "give the mapper a core, or raise batch.size or resolution"
ENDED = "the model's thread has ended: restart the mapper; its log has the error"
MOVED = (
    "check the position fix and the odometry's origin; the map has both, so reset it, or continue "
    "from a folder without the pings after it"
)


class View(NamedTuple):
    """What the diagnostics are about."""

    session: SurveySession  # its ledger and status
    now: Moment
    alive: bool  # whether the model's thread runs
    lost: Mapping[str, int]  # messages, by topic
    lost_lately: int  # of them since the last report
    bounds: Mapping[str, tuple[float, float]]  # values at 0 and 100 of each occupancy grid
    lately: Lately
    order: str = "1a"  # of S-44, whose limit the differences at crossings are compared with


def mapper_status(view: View) -> tuple[bytes, str, dict[str, object]]:
    """The mapper's state as a diagnostic level, a text and values."""
    values: dict[str, object] = {}
    for part in PARTS:
        values |= part(view)
    # The first failing check is reported; they are sorted by severity.
    found = next(filter(None, (check(view) for check in CHECKS)), None)
    return *(found or (OK, _doing(view.session))), values


def map_report(drawn: MapDrawn) -> MapReport:
    """The report of a map, for `map/report`."""
    learned = drawn.learned
    unknown = float("nan")
    return MapReport(
        stamp_ns=drawn.map.stamp_ns,
        samples=drawn.map.samples,
        target_mean=unknown if learned is None else learned.targets[0],
        target_variance=unknown if learned is None else learned.targets[1],
        update_s=unknown if learned is None else learned.report.update_s,
        predict_s=drawn.predict_s,
    )


def _doing(session: SurveySession) -> str:
    front_end, status = session.front_end, session.status
    if not status.updates:
        return "waiting for the pilot survey"
    if front_end.closed == AFTER_MISSION:
        return "done" if status.finished else "finishing the last map"
    return front_end.closed or "mapping"


def _disk(view: View) -> tuple[bytes, str] | None:
    failing = view.session.journal.failing
    return (ERROR, f"pings are not being stored: {failing}") if failing else None


class Lately:
    """How many pings and odometry messages were refused in the last ``LATELY_S``, and why.

    Attributes:
        refused: shares of the pings by reason, largest first.
        odometry: shares of the odometry by reason.
    """

    def __init__(self) -> None:
        self.refused: dict[str, float] = {}
        self.odometry: dict[str, float] = {}
        self._before: deque[tuple[float, int, Counter[str], int, Counter[str]]] = deque()

    def take(self, session: SurveySession, steady_s: float) -> None:
        """Look at the counts, at a steady time in s; call about every second."""
        ledger, buffer = session.ledger, session.front_end.buffer
        now = (
            steady_s, ledger.received - ledger.pending, Counter(ledger.rejected),
            buffer.added, Counter(ledger.odometry_rejected),
        )  # fmt: skip
        if not self._before:  # what came before the first look is new as well
            self._before.append((steady_s, 0, Counter(), 0, Counter()))
        self._before.append(now)
        while steady_s - self._before[0][0] > LATELY_S:
            self._before.popleft()
        _, judged, refused, accepted, odd = self._before[0]
        self.refused = _shares(now[2] - refused, now[1] - judged)
        lately = now[4] - odd
        self.odometry = _shares(lately, now[3] - accepted + lately.total())


def _shares(counts: Counter[str], total: int) -> dict[str, float]:
    return {reason: count / total for reason, count in counts.most_common()} if total else {}


def _refused(view: View) -> tuple[bytes, str] | None:
    """Pings and odometry that are refused, by their share in the last seconds."""
    lately, advice = view.lately, ODOMETRY_REASONS | REASONS
    found = [
        (share, reason, what, sum(shares.values()))
        for what, shares in (("pings", lately.refused), ("odometry", lately.odometry))
        for reason, share in shares.items()
        if share >= MANY and advice.get(reason)
    ]
    if not found:
        return None
    share, reason, what, refused = max(found)
    text = f"{share:.0%} of the {what} of the last {LATELY_S:g} s refused as {reason}"
    if reason == "other_clock":
        text += f", {view.session.front_end.clock_offset_s:+.1f} s apart"
    return ERROR if refused > 1 - 1e-9 else WARN, f"{text}: {advice[reason]}"


def _full(view: View) -> tuple[bytes, str] | None:
    full = view.session.full
    return (ERROR, f"pings are refused: {REASONS[OVERLOAD]}") if full else None


def _dropped(view: View) -> tuple[bytes, str] | None:
    dropped = sum(view.session.status.dropped.values())
    return (WARN, f"{dropped} accepted pings were dropped") if dropped else None


def _lost(view: View) -> tuple[bytes, str] | None:
    lost = view.lost_lately
    return (WARN, f"{quantity(lost, 'message')} lost in the last second") if lost else None


def _shifted(view: View) -> tuple[bytes, str] | None:
    shift = view.session.verdicts.watch.found
    return None if shift is None else (WARN, f"{shift.sentence}: {MOVED}")


def _slow(view: View) -> tuple[bytes, str] | None:
    times = view.session.status.times
    # With fewer, the first update, which trains the initial model, would count.
    late = times.quantile(0.99) if len(times) >= 100 else 0.0
    return (
        (WARN, f"one update in a hundred takes {late:.1f} s or more: {SLOW}")
        if late > SLOW_UPDATE_S
        else None
    )


Check = Callable[[View], tuple[bytes, str] | None]
#: The checks, sorted by severity. A new check is a line here.
CHECKS: tuple[Check, ...] = (
    lambda view: None if view.alive else (ERROR, ENDED),
    lambda view: (ERROR, failing) if (failing := view.session.status.failing) else None,
    _disk,
    _full,
    _refused,
    _shifted,
    _dropped,
    _lost,
    _slow,
)


def _pings(view: View) -> dict[str, object]:
    ledger, status = view.session.ledger, view.session.status
    values: dict[str, object] = dict(ledger.counts())
    for name, counts in (
        ("rejected", ledger.rejected),
        ("odometry rejected", ledger.odometry_rejected),
        ("odd", ledger.suspect),
        ("lost", {topic: view.lost.get(topic, 0) for topic in SENSORS}),
        ("dropped", status.dropped),
        ("errors", status.errors),
    ):
        values |= {f"{name} {reason}": count for reason, count in sorted(counts.items())}
    for name, shares in (("", view.lately.refused), ("odometry ", view.lately.odometry)):
        values |= {f"lately {name}{reason}": share for reason, share in shares.items()}
    return values


def _progress(view: View) -> dict[str, object]:
    session, status = view.session, view.session.status
    return {
        "mission_state": session.mission_state or "unknown",
        "backlog": len(session.sample_queue),
        "samples": status.samples,
        "withdrawn": status.withdrawn,
        "epoch": status.updates,
        "errors": sum(status.errors.values()),
        "finished": str(status.finished).lower(),
        "disk": session.journal.failing or "ok",
        "not kept": session.journal.lost,
    }


def _crossings(view: View) -> dict[str, object]:
    """What the track says where it crosses itself."""
    session = view.session
    watch, out = session.verdicts.watch, session.withdrawn.number
    shift, met = watch.found, watch.crossings
    met = met[~(np.isin(met.row, out) | np.isin(met.other, out))]
    found = statistics_of(met.difference, watch.ranges(met), view.order)
    values: dict[str, object] = {
        "crossings": len(met), "shift": "none" if shift is None else shift.sentence
    }  # fmt: skip
    if found is not None:
        values |= {
            "crossings_median": found.median,
            "crossings_95": found.quantile95,
            f"crossings_within_{view.order}": found.within,
        }
    lines = enumerate(session.verdicts.withdrawn_lines, start=1)
    return values | {f"withdrawn line {i}": verdict.sentence for i, verdict in lines}


def _model(view: View) -> dict[str, object]:
    status, report = view.session.status, view.session.status.report
    if report is None:
        return {}
    return {
        "update_s": report.update_s,
        "steps": report.steps,
        **{f"{part}_s": seconds for part, seconds in report.seconds.items()},
        "predict_s": status.predict_s,
        # An update with its map, over the last few hundred.
        "cycle_s": status.times.last,
        "cycle_p50_s": status.times.quantile(0.5),
        "cycle_p99_s": status.times.quantile(0.99),
        "noise_std": report.noise_std,
        "support": report.support,
        "jitter": view.session.mapper.extra_jitter,
        "loss": report.loss,
    }


def _map(view: View) -> dict[str, object]:
    status, latest = view.session.status, view.session.map
    values: dict[str, object] = {}
    if status.map_stamp_ns is not None:
        values["map_age_s"] = (view.now.ros_ns - status.map_stamp_ns) / SECOND
    if latest is not None and "lengthscale" in latest.fields:
        scales = latest.lengthscale
        values["lengthscale_min"] = float(np.min(scales))
        values["lengthscale_max"] = float(np.max(scales))
    for layer, (low, high) in view.bounds.items():
        values |= {f"map/{layer} at 0": low, f"map/{layer} at 100": high}
    return values


#: The groups of values. Another group is another function here.
PARTS: tuple[Callable[[View], dict[str, object]], ...] = (
    _pings,
    _progress,
    _crossings,
    _model,
    _map,
)
