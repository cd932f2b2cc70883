"""The diagnostics of the mapper: level, text and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus

from ..core.clock import SECOND, Moment
from ..core.errors import quantity
from ..frontend.front_end import AFTER_MISSION, OVERLOAD
from ..frontend.refused_pings import ADVICE, LATELY_S, REASONS, Lately
from ..learning.session import SurveySession
from ..outputs.crossings import statistics_of

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
SENSORS = ("odom", "sonar/range")
SLOW_UPDATE_S = 1.0  # p99 of an update with its map; more is reported
#: What to do.
SLOW = "give the mapper a core, or raise batch.size or resolution"
ENDED = "the model's thread has ended: restart the mapper; its log has the error"
MOVED = (
    "check the position fix and the odometry's origin; the map has both, so reset it, or continue "
    "from a folder without the pings after it"
)


def mapper_status(
    session: SurveySession,
    now: Moment,
    alive: bool,
    bounds: Mapping[str, tuple[float, float]],
    lately: Lately,
    order: str = "1a",
) -> tuple[bytes, str, dict[str, object]]:
    """The mapper's state as a diagnostic level, a text and values.

    Args:
        session: its ledger and status.
        now: the present time.
        alive: whether the model's thread runs.
        bounds: values at 0 and 100 of each occupancy grid.
        lately: what was refused and lost.
        order: of S-44, whose limit the differences at crossings are compared with.
    """
    values = _counts(session, lately) | _crossings(session, order) | _model(session)
    if (stamp_ns := session.status.map_stamp_ns) is not None:
        values["map_age_s"] = (now.ros_ns - stamp_ns) / SECOND
    for layer, (low, high) in bounds.items():
        values |= {f"map/{layer} at 0": low, f"map/{layer} at 100": high}
    return *next(_checks(session, alive, lately)), values


def _checks(session: SurveySession, alive: bool, lately: Lately) -> Iterator[tuple[bytes, str]]:
    """What is wrong, the worst first, and at last what the mapper does. A new check is a line."""
    status = session.status
    if not alive:
        yield ERROR, ENDED
    if status.failing:
        yield ERROR, status.failing
    if session.journal.failing:
        yield ERROR, f"pings are not being stored: {session.journal.failing}"
    if session.full:
        yield ERROR, f"pings are refused: {REASONS[OVERLOAD]}"
    front_end = session.front_end
    if (found := lately.main()) is not None:
        text = f"{found.share:.0%} of the {found.what} of the last {LATELY_S:g} s refused as "
        apart = f", {front_end.clock_offset_s:+.1f} s apart"
        text += found.reason + (apart if found.reason == "other_clock" else "")
        yield ERROR if found.every else WARN, f"{text}: {ADVICE[found.reason]}"
    if (shift := session.verdicts.watch.found) is not None:
        yield WARN, f"{shift.sentence}: {MOVED}"
    if dropped := sum(status.dropped.values()):
        yield WARN, f"{dropped} accepted pings were dropped"
    if lately.lost_now:
        yield WARN, f"{quantity(lately.lost_now, 'message')} lost in the last second"
    # With fewer, the first update, which trains the initial model, would count.
    late = status.times.quantile(0.99) if len(status.times) >= 100 else 0.0
    if late > SLOW_UPDATE_S:
        yield WARN, f"one update in a hundred takes {late:.1f} s or more: {SLOW}"
    if not status.updates:
        yield OK, "waiting for the pilot survey"
    elif front_end.closed == AFTER_MISSION:
        yield OK, "done" if status.finished else "finishing the last map"
    yield OK, front_end.closed or "mapping"


def _counts(session: SurveySession, lately: Lately) -> dict[str, object]:
    """What became of the pings, and how far the mission is."""
    ledger, status = session.ledger, session.status
    values: dict[str, object] = dict(ledger.counts())
    for name, counts in (
        ("rejected", ledger.rejected),
        ("odometry rejected", ledger.odometry_rejected),
        ("odd", ledger.suspect),
        ("lost", {topic: lately.lost[topic] for topic in SENSORS}),
        ("dropped", status.dropped),
        ("errors", status.errors),
    ):
        values |= {f"{name} {reason}": count for reason, count in sorted(counts.items())}
    for name, shares in (("", lately.refused), ("odometry ", lately.odometry)):
        values |= {f"lately {name}{reason}": share for reason, share in shares.items()}
    return values | {
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


def _crossings(session: SurveySession, order: str) -> dict[str, object]:
    """What the track says where it crosses itself."""
    watch, out = session.verdicts.watch, session.withdrawn.number
    shift, met = watch.found, watch.crossings
    met = met[~(np.isin(met.row, out) | np.isin(met.other, out))]
    found = statistics_of(met.difference, watch.ranges(met), order)
    values: dict[str, object] = {
        "crossings": len(met), "shift": "none" if shift is None else shift.sentence
    }  # fmt: skip
    if found is not None:
        values |= {
            "crossings_median": found.median,
            "crossings_95": found.quantile95,
            f"crossings_within_{order}": found.within,
        }
    lines = enumerate(session.verdicts.withdrawn_lines, start=1)
    return values | {f"withdrawn line {i}": verdict.sentence for i, verdict in lines}


def _model(session: SurveySession) -> dict[str, object]:
    status, report, latest = session.status, session.status.report, session.map
    values: dict[str, object] = {}
    if latest is not None and "lengthscale" in latest.fields:
        scales = latest.lengthscale
        values = {
            "lengthscale_min": float(scales.min()), "lengthscale_max": float(scales.max())
        }  # fmt: skip
    if report is None:
        return values
    return values | {
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
        "jitter": session.mapper.extra_jitter,
        "loss": report.loss,
    }
