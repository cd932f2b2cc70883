"""The planner's topics: state, reason, plan, areas, goals, diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from ...frontend.events import DONE, OVER, PILOT
from ...mission.guidance import Guidance
from ...mission.states import OPERATOR
from ..common import messages, qos
from ..common.markers import surface, write_areas
from ..common.node import BaseNode
from .goals import ActionGoals, TopicGoals

ODOMETRY_REFUSALS = "odometry_frame", "odometry_not_finite", "odometry_jump"
MAP_REFUSALS = "map_frame", "map_unreadable", "map_unusable"


class MissionTopics:
    """Publishes what changed in a mission.

    Args:
        node: with the parameter ``frame_id``.
        guidance: of the mission, only read.
        goals: receives the goals.
    """

    def __init__(self, node: BaseNode, guidance: Guidance, goals: TopicGoals | ActionGoals) -> None:
        self.goals = goals
        mission = guidance.mission
        self._node, self._guidance, self._mission = node, guidance, mission
        self._published: tuple[Any, ...] = (None,) * 5
        self._warned = {"clipped": 0, "unreachable": 0}  # number of goals with a warning
        self._plans = node.create_publisher(Path, "plan", qos.LATCHED)
        self._states = node.create_publisher(String, "mission/state", qos.LATCHED)
        self._takeovers = node.create_publisher(String, "mission/taken_over", qos.LATCHED)
        self._taken_over = ""  # the last one published
        self._reasons = node.create_publisher(String, "mission/reason", qos.LATCHED)
        self._areas = node.create_publisher(MarkerArray, "mission/areas", qos.LATCHED)
        self._draw_areas()

    def _draw_areas(self) -> None:
        """Publish the borders at the water level, and on the map where that is land, and the state
        beside them."""
        level, drawn = self._guidance.target.present_level, self._guidance.map

        def heights(xy: np.ndarray) -> np.ndarray:
            return np.full(len(xy), level) if drawn is None else np.fmax(level, surface(drawn)(xy))

        areas, node, state = self._mission.goals.routes.areas, self._node, self._mission.state
        self._areas.publish(write_areas(areas, heights, node.now_ns, node.values.frame_id, state))

    def announce(self) -> bool:
        """Publish state, reason, plan and goal where new; the place to hold station once.

        Returns whether state or reason are new.
        """
        mission, (state, reason, goal, hold, drawn) = self._mission, self._published
        latest = self._guidance.map
        self._published = mission.state, mission.reason, mission.goal, mission.station, latest
        if mission.state != state or latest is not drawn:
            self._draw_areas()
        new = (mission.state, mission.reason) != (state, reason)
        taken_over = self._guidance.taken_over
        if taken_over:  # before the state, so that the pilot's pings are never refused as paused
            self._announce_taken_over(taken_over)
        if new:
            self._announce_state(state)
        self._announce_taken_over(taken_over)
        self._warn("clipped", "goals outside the navigable area were moved into it")
        self._warn("unreachable", "goals were given up because no route leads to them")
        if mission.goal is not goal:
            frame_id, z = self._node.values.frame_id, self._guidance.goal_z
            path = messages.write_path(mission.plan, self._node.now_ns, frame_id, z)
            self._plans.publish(path)
            if mission.goal is not None:
                self._send(mission.goal, self.goals.go)
        if mission.station is not hold and mission.station is not None:
            self._hold_at(mission.station)
        return new

    def repeat(self) -> None:
        """Send the present goal again."""
        if self._mission.goal is not None:
            self._send(self._mission.goal, self.goals.repeat)

    def hold(self) -> None:
        """Let the vehicle hold station before the node ends, whatever the mission's goal."""
        if self._mission.position is not None:
            self._hold_at(self._mission.position)
            self.goals.settle()

    def _announce_taken_over(self, state: str) -> None:
        if state != self._taken_over:
            self._taken_over = state
            self._takeovers.publish(String(data=state))

    def _announce_state(self, previous: str | None) -> None:
        mission, budget, log = self._mission, self._mission.budget, self._node.get_logger()
        self._reasons.publish(String(data=mission.reason))
        text = f"{mission.state} at {budget}: {mission.reason}"
        text += ", waiting for the first map" if mission.needs_goal else ""
        if not mission.causes <= {OPERATOR}:
            log.warning(text)
        else:
            log.info(text)
        if mission.state == previous:
            return
        self._states.publish(String(data=mission.state))
        if previous == PILOT and mission.state in OVER:
            log.warning(
                f"the mission ended during its pilot survey: max_samples {budget.max_samples}"
                f" or max_duration {budget.max_duration:g} s left nothing to explore"
            )

    def _warn(self, what: str, text: str) -> None:
        count = getattr(self._mission.goals, what)
        if count > self._warned[what]:
            self._warned[what] = count
            self._node.warnings.add(f"goal_{what}", f"{text}: {count} so far")

    def _send(self, goal: np.ndarray, how: Callable[[PoseStamped], None]) -> None:
        """Send a goal [2], with its own z and the yaw from the vehicle to it."""
        x, y = goal - self._mission.position
        how(self._pose(goal, self._guidance.goal_z, math.atan2(y, x)))

    def _hold_at(self, place: np.ndarray) -> None:
        """Hold station at a place [2], with the vehicle's present z and yaw."""
        yaw = 0.0 if math.isnan(self._guidance.yaw) else self._guidance.yaw
        self.goals.hold(self._pose(place, self._guidance.z, yaw))

    def _pose(self, place: np.ndarray, z: float, yaw: float) -> PoseStamped:
        node = self._node
        return messages.write_pose(place.tolist(), node.now_ns, node.values.frame_id, z, yaw)


def planner_status(
    guidance: Guidance, refused: Mapping[str, int], silent: str, deaf: str = ""
) -> tuple[bytes, str, dict[str, object]]:
    """The diagnostics of the planner: level, text and values.

    Args:
        guidance: of its mission.
        refused: number of warnings by reason.
        silent: that no odometry arrives, as text; empty: it does.
        deaf: why the autopilot is not heard, as text; empty: it is, or need not be.
    """
    mission, target, failing = guidance.mission, guidance.target, guidance.failing
    text = "waiting for the first map" if mission.needs_goal else mission.state
    fault = target.fault
    if deaf:
        text = deaf
    if fault:
        text = f"the target cannot be met: {fault}; see water.level and docs/good-enough.md"
    if silent:
        text = silent
    values = {**mission.diagnostics(), **target.diagnostics()}
    for reason in ODOMETRY_REFUSALS + MAP_REFUSALS:
        values[f"refused_{reason}"] = refused.get(reason, 0)
    values["disk"] = failing or "ok"
    wrong = (silent and mission.state != DONE) or failing or fault or deaf
    return (DiagnosticStatus.WARN if wrong else DiagnosticStatus.OK), text, values
