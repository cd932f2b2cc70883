"""What the mapper says of itself, once a second and with every map."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticStatus

from ..clock import SECOND, Moment
from ..runs.scoring import MapReport
from ..survey.events import Drawn
from ..survey.gate import AFTER_MISSION
from ..survey.session import Session

FRAME_FAULTS = {
    "wrong_frame": "odometry is in another frame than the map",
    "body_frame": "odometry is in a frame that moves with the vehicle",
}


def mapper_status(
    session: Session,
    now: Moment,
    alive: bool,
    lost: Mapping[str, int],
    lost_lately: int,
    bounds: Mapping[str, tuple[float, float]],
) -> tuple[bytes, str, dict[str, object]]:
    """The mapper's state as a diagnostic level, a text and values.

    ``alive``: whether the model's thread runs. ``lost``: messages lost on the way, by topic, and
    how many of them lately. ``bounds``: the values at 0 and 100 of each occupancy grid.
    """
    values = _ping_counts(session, lost) | _model_numbers(session, now)
    for layer, (low, high) in bounds.items():
        values |= {f"map/{layer} at 0": low, f"map/{layer} at 100": high}
    return *_judged(session, now, alive, lost_lately), values


def map_report(drawn: Drawn) -> MapReport:
    """What belongs to a map and is not in it."""
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


def _judged(session: Session, now: Moment, alive: bool, lost_lately: int) -> tuple[bytes, str]:
    gate, status = session.gate, session.status
    if not alive:
        return DiagnosticStatus.ERROR, "the model's thread has ended"
    if status.failing:
        return DiagnosticStatus.ERROR, status.failing
    for fault, text in FRAME_FAULTS.items():
        if gate.odometry_rejected[fault] and not len(gate.buffer):
            return DiagnosticStatus.ERROR, text
    if gate.received and not len(gate.buffer):
        return DiagnosticStatus.WARN, "pings come, but no odometry"
    if not gate.closed and gate.water.level(gate.settings, now) is None:
        return DiagnosticStatus.WARN, "pings are refused: no water level comes"
    if status.dropped:
        return DiagnosticStatus.WARN, f"{sum(status.dropped.values())} accepted pings were dropped"
    if lost_lately:
        return DiagnosticStatus.WARN, f"{lost_lately} messages were lost on the way just now"
    if not status.updates:
        return DiagnosticStatus.OK, "waiting for the pilot survey"
    if gate.closed == AFTER_MISSION:
        return DiagnosticStatus.OK, "done" if status.finished else "finishing the last map"
    return DiagnosticStatus.OK, gate.closed or "mapping"


def _ping_counts(session: Session, lost: Mapping[str, int]) -> dict[str, object]:
    gate = session.gate
    values: dict[str, object] = dict(session.counts())
    for name, counts in (
        ("rejected", gate.rejected),
        ("odometry rejected", gate.odometry_rejected),
        ("odd", gate.odd),
        ("lost", {topic: lost.get(topic, 0) for topic in ("odom", "sonar/range")}),
        ("dropped", session.status.dropped),
    ):
        values |= {f"{name} {reason}": count for reason, count in sorted(counts.items())}
    return values


def _model_numbers(session: Session, now: Moment) -> dict[str, object]:
    status, report = session.status, session.status.report
    values: dict[str, object] = {
        "mission_state": session.mission_state or "unknown",
        "backlog": len(session.backlog),
        "samples": status.samples,
        "epoch": status.updates,
        "errors": sum(status.errors.values()),
        "finished": str(status.finished).lower(),
    }
    values |= {f"errors {kind}": n for kind, n in sorted(status.errors.items())}
    if report is not None:
        values |= {
            "update_s": report.update_s,
            **{f"{part}_s": seconds for part, seconds in report.seconds.items()},
            "predict_s": status.predict_s,
            "noise_std": report.noise_std,
            "support": report.support,
            "jitter": session.mapper.extra_jitter,
            "loss": report.loss,
        }
    if status.map_stamp_ns is not None:
        values["map_age_s"] = (now.ros_ns - status.map_stamp_ns) / SECOND
    return values
