"""What the planner says of itself, once a second: values, and how bad it is."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticStatus

from ...frontend.events import DONE
from ...mission.mission import Mission
from ...mission.target import MapTarget

ODOMETRY_REFUSALS = "odometry_frame", "odometry_not_finite", "odometry_jump"
MAP_REFUSALS = "map_frame", "map_unreadable", "map_unusable"


def planner_status(
    mission: Mission, target: MapTarget, refused: Mapping[str, int], silent: bool, failing: str
) -> tuple[bytes, str, dict[str, object]]:
    """The planner's state as a diagnostic level, a text and values.

    Args:
        mission: looked at, as is what is asked of its map.
        target: that.
        refused: how often something was, by reason.
        silent: whether no odometry comes.
        failing: why nothing can be kept, in words; empty where it can.
    """
    text = "waiting for the first map" if mission.waits_for_map else mission.state
    fault = target.fault
    if fault:
        text = f"the target cannot be met: {fault}"
    if silent:
        text = "no odometry"
    values = {**mission.diagnostics(), **target.diagnostics()}
    for reason in ODOMETRY_REFUSALS + MAP_REFUSALS:
        values[f"refused_{reason}"] = refused.get(reason, 0)
    values["disk"] = failing or "ok"
    wrong = (silent and mission.state != DONE) or failing or fault
    return (DiagnosticStatus.WARN if wrong else DiagnosticStatus.OK), text, values
