"""What the mapper says of itself, once a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from ..clock import SECOND
from ..runs.scoring import MapReport
from .messages import write_diagnostics

if TYPE_CHECKING:
    from ..mapping import MapSnapshot
    from .nodes.mapper import MapperNode


def describe(node: MapperNode) -> DiagnosticArray:
    """The node's state as one diagnostic status, named after the node with its namespace."""
    level, text = _judged(node)
    values = _ping_counts(node) | _model_numbers(node) | _picture_bounds(node)
    return write_diagnostics(
        node.get_fully_qualified_name().lstrip("/"), level, text, values, node.now_ns()
    )


def report_of(node: MapperNode, snapshot: MapSnapshot, stamp_ns: int) -> MapReport:
    """What belongs to one published map; called on the worker's thread."""
    status, targets = node.worker.status, node.worker.targets
    update_s = status.report.update_s if status.report is not None else float("nan")
    mean, variance = float(targets.mean()), float(targets.var())
    return MapReport(stamp_ns, snapshot.samples, mean, variance, update_s, status.predict_s)


def _judged(node: MapperNode) -> tuple[bytes, str]:
    gate, status = node.gate, node.worker.status
    if not node.worker.alive:
        return DiagnosticStatus.ERROR, "the model's thread has ended"
    if status.failing:
        return DiagnosticStatus.ERROR, status.failing
    if gate.odometry_rejected["wrong_frame"] and not len(gate.buffer):
        return DiagnosticStatus.ERROR, "odometry is in another frame than the map"
    if gate.received and not len(gate.buffer):
        return DiagnosticStatus.WARN, "pings come, but no odometry"
    if status.dropped:
        return DiagnosticStatus.WARN, f"{sum(status.dropped.values())} accepted pings were dropped"
    if node.lost_lately:
        return DiagnosticStatus.WARN, f"{node.lost_lately} messages were lost on the way just now"
    if not status.updates:
        return DiagnosticStatus.OK, "waiting for the pilot survey"
    if gate.closed:
        return DiagnosticStatus.OK, "done" if status.finished else "finishing the last map"
    return DiagnosticStatus.OK, "mapping"


def _ping_counts(node: MapperNode) -> dict[str, object]:
    gate = node.gate
    values: dict[str, object] = {
        "received": gate.received,
        "accepted": gate.accepted,
        "pending": gate.pending,
        "rejected": sum(gate.rejected.values()),
    }
    values |= {f"rejected {reason}": n for reason, n in sorted(gate.rejected.items())}
    values |= {
        f"odometry rejected {reason}": n for reason, n in sorted(gate.odometry_rejected.items())
    }
    values |= {f"lost {topic}": node.lost[topic] for topic in ("odom", "sonar/range")}
    values |= {f"dropped {reason}": n for reason, n in sorted(node.worker.status.dropped.items())}
    return values


def _model_numbers(node: MapperNode) -> dict[str, object]:
    status, report = node.worker.status, node.worker.status.report
    values: dict[str, object] = {
        "mission_state": node.state or "unknown",
        "backlog": node.worker.backlog,
        "samples": status.samples,
        "epoch": status.updates,
        "errors": sum(status.errors.values()),
        "finished": str(status.finished).lower(),
    }
    values |= {f"errors {kind}": n for kind, n in sorted(status.errors.items())}
    if report is not None:
        values |= {
            "update_s": report.update_s,
            "predict_s": status.predict_s,
            "publish_s": status.publish_s,
            "noise_std": report.noise_std,
            "inducing": report.inducing,
            "jitter": node.worker.extra_jitter,
            "loss": report.loss,
        }
    if status.map_stamp_ns is not None:
        values["map_age_s"] = (node.now_ns() - status.map_stamp_ns) / SECOND
    return values


def _picture_bounds(node: MapperNode) -> dict[str, object]:
    """The values at 0 and 100 of each occupancy grid."""
    values: dict[str, object] = {}
    for layer, (low, high) in node.topics.bounds.items():
        values[f"map/{layer} at 0"] = low
        values[f"map/{layer} at 100"] = high
    return values
