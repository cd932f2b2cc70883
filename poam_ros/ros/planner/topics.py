"""What the planner says of its mission: state, reason, plan, areas, where the vehicle shall go."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from ...frontend.events import DONE, OPERATOR, PAUSED, PILOT
from ...mission.mission import Mission
from ..common import messages, qos
from ..common.markers import write_areas
from ..common.node import ManagedNode
from .goals import GoalSink


class MissionTopics:
    """Publishes a mission where it has changed.

    Args:
        node: with the parameter ``frame_id``.
        mission: looked at, never changed.
        goals: what moves the vehicle.

    Attributes:
        z, yaw: the vehicle's, in m and rad; goals keep its depth.
    """

    def __init__(self, node: ManagedNode, mission: Mission, goals: GoalSink) -> None:
        self.goals = goals
        self.z, self.yaw = 0.0, math.nan
        self._node, self._mission = node, mission
        self._said: tuple[Any, ...] = (None, None, None, None)
        self._counted = {"clipped": 0, "unreachable": 0}  # goals that this was said of
        self._plans = node.create_publisher(Path, "plan", qos.KEPT)
        self._states = node.create_publisher(String, "mission/state", qos.LATCHED)
        self._reasons = node.create_publisher(String, "mission/reason", qos.LATCHED)
        borders = write_areas(mission.goals.routes.areas, node.now_ns, node.values.frame_id)
        node.create_publisher(MarkerArray, "mission/areas", qos.LATCHED).publish(borders)

    def announce(self) -> bool:
        """State, reason, plan and goal; the place to hold goes out once each time.

        Whether state or reason are new.
        """
        mission, (state, reason, goal, hold) = self._mission, self._said
        self._said = mission.state, mission.reason, mission.goal, mission.station
        new = (mission.state, mission.reason) != (state, reason)
        if new:
            self._announce_state(state)
        self._warn("clipped", "goals where none may be were moved to the next place")
        self._warn("unreachable", "goals were given up because no way leads to them")
        if mission.goal is not goal:
            path = mission.plan, self._node.now_ns, self._node.values.frame_id, self.z
            self._plans.publish(messages.write_path(*path))
            if mission.goal is not None:
                self._send(mission.goal, self.goals.go)
        if mission.station is not hold and mission.station is not None:
            self._send(mission.station, self.goals.hold, self.yaw)
        return new

    def repeat(self) -> None:
        """Say again where the vehicle shall go."""
        if self._mission.goal is not None:
            self._send(self._mission.goal, self.goals.repeat)

    def hold(self) -> None:
        """Let the vehicle stay where it is, whatever the mission wants, before the node ends."""
        if self._mission.position is not None:
            self._send(self._mission.position, self.goals.hold, self.yaw)
            self.goals.settle()

    def _announce_state(self, previous: str | None) -> None:
        mission, budget, log = self._mission, self._mission.budget, self._node.get_logger()
        self._reasons.publish(String(data=mission.reason))
        text = f"{mission.state} at {budget.samples} samples: {mission.reason}"
        text += ", waiting for the first map" if mission.waits_for_map else ""
        if mission.state == PAUSED and mission.paused_by != OPERATOR:
            log.warning(text)
        else:
            log.info(text)
        if mission.state == previous:
            return
        self._states.publish(String(data=mission.state))
        if (previous, mission.state) == (PILOT, DONE):
            log.warning(
                f"the mission ended inside its pilot survey: max_samples {budget.max_samples}"
                f" or max_duration {budget.max_duration:g} s left nothing to explore"
            )

    def _warn(self, what: str, text: str) -> None:
        count = getattr(self._mission.goals, what)
        if count > self._counted[what]:
            self._counted[what] = count
            self._node.warnings.add(f"goal_{what}", f"{text}: {count} so far")

    def _send(
        self, place: np.ndarray, how: Callable[[PoseStamped], None], yaw: float = math.nan
    ) -> None:
        """A pose at a place [2]; without a yaw as if seen from where the vehicle is."""
        if math.isnan(yaw):
            x, y = place - self._mission.position
            yaw = math.atan2(y, x)
        node = self._node
        frame = node.values.frame_id
        how(messages.write_pose(place.tolist(), node.now_ns, frame, self.z, yaw))
