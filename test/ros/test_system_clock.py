"""Planner and mapper as processes whose system clock is set while they run, by a preloaded shim.

``make soak`` does so in every state of a mission; the suite once, in the state that guards most.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray
from driver_messages import write_odometry, write_range
from geometry_msgs.msg import PoseStamped
from heard import status_values
from kept import SMALL, rows
from launched import node_command
from nav_msgs.msg import Odometry
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from sensor_msgs.msg import Range
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger

from poam_ros.core.clock import SECOND
from poam_ros.frontend.events import RETURNING, STATES
from poam_ros.frontend.front_end import RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.ros.common import qos

pytestmark = pytest.mark.ros

SHIM = Path(__file__).with_name("clock_shim.c")
STEPS = (-3600, -1, 3600, LEAP := "leap")  # s; or of odometry's stamps alone, forth and back
WORKSPACE = "[-10.0, 10.0, -5.0, 5.0]"
TIMEOUT_S = 3.0  # s of the watchdogs
TICK, SPEED = 0.05, {"exploring": 4.0}  # s between two messages of each kind; m/s, else 0.2


class Boat(Node):
    """Drives to its goals, with odometry and pings by the system clock that the test sets."""

    def __init__(self, speed: float) -> None:
        super().__init__("boat")
        self.place, self.target, self._speed = np.zeros(2), None, speed
        self.step_s, self.leap_s, self.sent, self.silent = 0, 0, 0, set()
        self.goals, self.states, self.reason, self.samples = [], [], "", [0]
        self.values: dict[str, str] = {}
        hear = self.create_subscription
        hear(String, "mission/state", lambda m: self.states.append(m.data), qos.KEPT)
        hear(String, "mission/reason", lambda m: setattr(self, "reason", m.data), qos.KEPT)
        hear(UInt64, "map/samples", lambda m: self.samples.append(m.data), qos.LATCHED)
        hear(PoseStamped, "goal_pose", self._go, qos.GOAL)
        hear(DiagnosticArray, "/diagnostics", self._keep, 10)
        self._odometry = self.create_publisher(Odometry, "odom", qos.SENSOR_PUBLISH)
        self._pings = self.create_publisher(Range, "sonar/range", qos.SENSOR_PUBLISH)
        self.create_timer(TICK, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def now_ns(self) -> int:
        return time.time_ns() + self.step_s * SECOND

    @property
    def state(self) -> str:
        return self.states[-1] if self.states else ""

    def _go(self, goal: PoseStamped) -> None:
        self.goals.append(goal)
        self.target = np.array([goal.pose.position.x, goal.pose.position.y])

    def _keep(self, message: DiagnosticArray) -> None:
        self.values.update(status_values(message, "mapper"))

    def _tick(self) -> None:
        if self.target is not None:
            way = self.target - self.place
            self.place = self.place + way * min(1, self._speed * TICK / (np.hypot(*way) + 1e-9))
        if "odometry" not in self.silent:
            stamp_ns = self.now_ns + self.leap_s * SECOND
            state = VehicleState(stamp_ns, (*self.place, 0.0))
            self._odometry.publish(write_odometry(state))
        if "sonar" not in self.silent:
            distance = 5.0 + float(np.sin(self.place[0]) * np.cos(self.place[1]))
            self._pings.publish(write_range(RawPing(self.now_ns, distance, 0.1, 50.0)))
            self.sent += 1

    def ask(self, name: str) -> None:
        client = self.create_client(Trigger, f"planner/{name}")
        assert client.wait_for_service(300)
        assert client.call(Trigger.Request()).success
        self.destroy_client(client)


@pytest.fixture
def processes(ros_env, tmp_path):
    """`processes(**kinds)`: nodes whose system clock the file `shift` sets, in ns."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the shim")
    library, shift = tmp_path / "clock_shim.so", tmp_path / "shift"
    build = [compiler, "-shared", "-fPIC", "-o", library, SHIM, "-ldl"]
    subprocess.run(build, check=True)
    shift.write_text("0")
    env = {**ros_env, "LD_PRELOAD": str(library), "CLOCK_SHIFT": str(shift)}
    begun = {}

    def start(**kinds):
        for kind, values in kinds.items():
            command = node_command(kind, values)
            with (tmp_path / f"{kind}.log").open("w") as file:
                begun[kind] = subprocess.Popen(command, env=env, stdout=file, stderr=file)
        return shift

    yield start
    ended = [kind for kind, process in begun.items() if process.poll() is not None]
    found = told(begun, tmp_path)
    for process in begun.values():
        process.kill()
        process.wait()
    assert not ended, found
    print(found)


def told(processes, folder):
    """What is known of processes: whether a node ended, hung, or had no time to start."""
    found = []
    for kind, process in processes.items():
        status, cpu_s = process.poll(), 0.0
        if status is None:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            cpu_s = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        state = f"had {cpu_s:.1f} s of CPU" if status is None else f"ended with {status}"
        log = (folder / f"{kind}.log").read_text()[-2000 if status else -200 :]
        found.append(f"{kind} {state}; load {os.getloadavg()[0]:.0f}; it said: {log or 'nothing'}")
    return "\n".join(found)


def set_clock(boat, shift, step_s):
    """For the processes and for the vehicle, which is on the same machine."""
    beside = shift.with_suffix(".new")
    beside.write_text(str(step_s * SECOND))
    beside.replace(shift)
    boat.step_s = step_s


def planner_values(max_duration=0.0):
    return {
        "workspace": WORKSPACE, "pilot": "diagonal", "max_speed": 4.0, "goal_period": 0.5,
        "watchdog.odometry_timeout": TIMEOUT_S, "watchdog.sonar_timeout": TIMEOUT_S,
        "watchdog.progress_timeout": 0.0, "max_duration": max_duration,
    }  # fmt: skip


def bring_to(boat, state, eventually):
    """A mission to one of its states."""
    eventually(lambda: boat.state == "waiting", what="the planner does not come up")
    if state == "waiting":
        return
    boat.ask("start")
    eventually(lambda: boat.goals, what="no goal")
    if state == "paused":
        boat.ask("pause")
    eventually(lambda: boat.state == state, what=f"not {state}")
    if state == "exploring":  # and the first map is there
        goals = len(boat.goals)
        eventually(lambda: len(boat.goals) >= goals + 4, what=f"no goals: {boat.values}")


def said(boat, reason):
    """Whether the mission is paused for this reason."""
    return boat.state == "paused" and boat.reason.startswith(reason)


def survive(boat, state, change, eventually):
    """``change`` the clock, and see whether the mission is as it was, and watched."""
    states = len(boat.states)
    change()
    going = state in ("pilot", "exploring")
    if going:
        goals = len(boat.goals)
        eventually(lambda: len(boat.goals) >= goals + 4, what="goals are not repeated")
    else:
        sent = boat.sent
        eventually(lambda: boat.sent >= sent + 3 * TIMEOUT_S / TICK)
    assert boat.states[states:] in ([], ["exploring"]), "the clock alone changes nothing"
    for sensor, reason in (("odometry", "no odometry"), ("sonar", "no ping")):
        boat.silent = {sensor}
        if going:
            paused = partial(said, boat, reason)
            eventually(paused, what=f"{sensor} is silent unseen: {boat.state}, {boat.reason}")
        boat.silent = set()
        if going:
            eventually(lambda: boat.state != "paused", what=f"{sensor} is back unseen")


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [-3600])
def test_the_watchdog_works_after_the_system_clock_is_set(ros, processes, eventually, step_s):
    shift = processes(planner=planner_values())
    boat = ros(Boat, speed=0.2)
    bring_to(boat, "pilot", eventually)
    survive(boat, "pilot", partial(set_clock, boat, shift, step_s), eventually)


@pytest.mark.soak
@pytest.mark.parametrize("step_s", STEPS)
@pytest.mark.parametrize("state", [state for state in STATES if state != RETURNING])
def test_every_state_survives_setting_the_clock(
    ros, processes, eventually, tmp_path, state, step_s
):
    mapper = {**SMALL, "workspace": WORKSPACE, "resolution": 1.0, "mission_dir": tmp_path / "m"}
    shift = processes(planner=planner_values(5.0 * (state == "done")), mapper=mapper)
    boat = ros(Boat, speed=SPEED.get(state, 0.2))
    eventually(lambda: boat.values, what="the mapper does not come up")
    bring_to(boat, state, eventually)
    eventually(lambda: int(boat.values.get("received", 0)), what="the mapper hears nothing")
    if step_s == LEAP:
        for leap_s in (3600, 0):
            survive(boat, state, partial(setattr, boat, "leap_s", leap_s), eventually)
    else:
        survive(boat, state, partial(set_clock, boat, shift, step_s), eventually)
    boat.silent = {"sonar"}

    def accounted():
        """Whether every ping that was heard is in a count, and all accepted ones are mapped."""
        count = {name: int(value) for name, value in boat.values.items() if value.isdigit()}
        rest = sum(count.get(name, 0) for name in ("accepted", "pending", "rejected"))
        return count.get("received", -1) == rest and (
            count["accepted"] - count["withdrawn"] == boat.samples[-1]
        )

    eventually(accounted, what="counts do not agree")  # the topics come in any order
    counted = boat.samples[-1]
    assert boat.samples == sorted(boat.samples)
    assert [row[0] for row in rows(tmp_path / "m")] == list(range(counted))
    heard, refused = boat.values["received"], boat.values["rejected"]
    print(
        f"{state} {step_s}: {boat.sent} pings sent, {heard} received, {counted} accepted and "
        f"stored, {refused} refused"
    )
