"""The node mavlink and a planner on real rclpy, with the simulated boat over loopback UDP."""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("pymavlink")

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from heard import Listener, answer
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import Range
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger
from voyages import free_port

from poam_ros.mavlink.frame import LocalFrame
from poam_ros.mavlink.simulated_boat import EVENTS, HOME, SimulatedBoat
from poam_ros.ros.common import messages, qos
from poam_ros.ros.mapper.node import MapperNode
from poam_ros.ros.mavlink.node import NOBODY, MavlinkNode, main
from poam_ros.ros.planner.node import PlannerNode
from poam_ros.ros.planner.node import main as planner_main
from poam_ros.simulation.world.terrain import load_terrain

WORKSPACE = [-20.0, 20.0, -20.0, 20.0]
#: Where a test is not about them: a busy machine keeps messages waiting.
PATIENCE = 120.0  # s
PATIENT = {f"watchdog.{what}_timeout": 0.0 for what in ("odometry", "sonar", "map", "progress")}


class Afloat(threading.Thread):
    """The boat in real time, on a thread of its own; ``do`` lets something happen to it."""

    def __init__(self, port, **options):
        super().__init__(daemon=True)
        self.boat = SimulatedBoat(load_terrain("lake"), port, **options)
        self.heartbeats, self.ended, self._lock = 0, threading.Event(), threading.RLock()

    def run(self):
        before = time.monotonic()
        while not self.ended.wait(0.1):
            with self._lock:
                # Its clock is as fast as ours, however long the wait was.
                now = time.monotonic()
                self.boat._boot_ms += round((now - before - 0.1) * 1e3)
                before = now
                due = self.boat.next_heartbeat_s
                self.boat.step()
                self.heartbeats += self.boat.next_heartbeat_s != due

    def do(self, event):
        with self._lock:
            return event(self.boat)


class Crew(Listener):
    def __init__(self):
        super().__init__("crew")
        for topic, kind, how in (
            ("odom", Odometry, qos.SENSOR_READ),
            ("sonar/range", Range, qos.SENSOR_READ),
            ("goal_pose", PoseStamped, qos.GOAL),
            ("vehicle/refusal", String, qos.KEPT),
            ("mission/state", String, qos.KEPT),
            ("mission/reason", String, qos.KEPT),
            ("mission/requests", UInt64, qos.LATCHED),
        ):
            self.listen(kind, topic, how)
        self.asked = {
            name: self.create_client(Trigger, f"planner/{name}")
            for name in ("start", "stop", "pause", "resume")
        }

    def last(self, topic):
        return self.heard[topic][-1].data if self.heard[topic] else None


@pytest.fixture
def ship(ros, eventually, monkeypatch):
    """`ship(planner=True, **parameters)`: node, planner (or None), crew and boat.

    ``planner`` may be its parameters. ``late``: after how many s positions are late; ``grace``:
    how many s a person's request may come after the mission's state.
    """
    with contextlib.ExitStack() as ends:

        def start(planner=True, late=PATIENCE, grace=4.0, **given):
            monkeypatch.setattr("poam_ros.mavlink.telemetry.MAX_DELAY", late)
            monkeypatch.setattr("poam_ros.ros.mavlink.node.GRACE_S", grace)
            port = free_port()
            afloat = Afloat(port)
            afloat.do(SimulatedBoat.recover)
            ends.callback(afloat.boat.close)
            ends.callback(lambda: afloat.ident and afloat.join())
            ends.callback(afloat.ended.set)
            crew = ros(Crew)
            given = {"origin": [*map(float, HOME)], "mavlink.timeout": PATIENCE, **given}
            url = f"udpin:127.0.0.1:{port}"
            node = ros(MavlinkNode, parameters={"mavlink.url": url, **given})
            driver = None
            if planner:
                values = {"workspace": WORKSPACE, "pilot": "lawnmower", **PATIENT}
                values |= planner if isinstance(planner, dict) else {}
                driver = ros(PlannerNode, parameters=values)
                # Of the nodes themselves: another may have heard before them.
                eventually(lambda: node._requests == 0)
                eventually(lambda: driver.autopilot.refusal == node._published != "")
            afloat.start()
            eventually(lambda: crew.heard["odom"] and crew.heard["sonar/range"])
            eventually(lambda: crew.last("vehicle/refusal") == "")
            eventually(lambda: driver is None or not driver.autopilot.refusal)
            return node, driver, crew, afloat

        yield start


def call(crew, eventually, name):
    return answer(crew.asked[name], eventually)


def beats(afloat, eventually, count=2):
    """Until the boat has sent so many heartbeats more."""
    before = afloat.heartbeats
    eventually(lambda: afloat.heartbeats >= before + count)


def sent_to(afloat, place):
    """Whether the boat's last target is this place [2], in m from home."""
    return (
        place is not None
        and math.dist(afloat.boat.frame.to_map(*afloat.boat.targets[-1][1]), place) < 0.05
    )


def under_way(crew, afloat, eventually):
    """Started by a person, on the way to the first goal."""
    eventually(lambda: crew.heard["odom"])
    answer = call(crew, eventually, "start")
    assert answer.success, answer.message
    eventually(lambda: crew.last("mission/state") == "pilot")
    eventually(lambda: afloat.boat.targets)


def test_odometry_and_pings_as_the_boat_sends_them(ship, eventually):
    node, _, crew, afloat = ship(planner=False, heading=0.0)
    eventually(lambda: len(crew.heard["sonar/range"]) > 5)
    pose = messages.read_odometry(crew.heard["odom"][-1])
    assert pose.frame_id == "map" and pose.child_frame_id == "base_link"
    assert math.dist(pose.position[:2], (0, 0)) < 0.1 and pose.position[2] == 0.0  # it floats
    assert pose.variance[0] == pytest.approx(0.6**2) and pose.variance[2] == 0.0
    ping = messages.read_range(crew.heard["sonar/range"][-1])
    assert (ping.min_range, ping.max_range) == pytest.approx((0.3, 100.0))
    assert ping.frame_id == "rangefinder0" and 3 < ping.range < 30
    for message in (crew.heard["odom"][-1], crew.heard["sonar/range"][-1]):
        age = node.now_ns - messages.stamp_to_ns(message.header.stamp)
        assert -1e9 < age < 60e9  # of this clock, whatever the boat's says
    assert not afloat.boat.targets  # nobody has started anything


def test_the_mapper_takes_its_pings(ship, ros, eventually):
    values = {"workspace": WORKSPACE, "method": "nngp", "pilot_samples": 5}
    mapper = ros(MapperNode, parameters=values)
    ship(planner=False)
    eventually(lambda: mapper.session.samples > 5)
    assert not mapper.session.ledger.rejected.keys() - {"no_odometry"}  # a busy machine leaves gaps
    z = mapper.session.all_samples().z
    assert ((z > -31) & (z < -3)).all()


def test_the_autopilots_parameters_are_compared_with_the_missions(ship, ros, eventually):
    values = {"workspace": WORKSPACE, "sonar.max_range": 120.0, "method": "nngp"}
    ros(MapperNode, parameters=values)
    _, planner, crew, _ = ship()
    assert planner.values.max_speed == 1.0  # as the boat's WP_SPEED
    crew.listen(DiagnosticArray, "/diagnostics", 100)

    def checks():
        own = [s for m in crew.heard["/diagnostics"] for s in m.status if "mavlink" in s.name]
        return {v.key: v.value for v in own[-1].values if v.key.startswith("check")} if own else {}

    eventually(checks)
    (text,) = checks().values()
    assert text.startswith("RNGFND1_MAX is 100 m, and sonar.max_range 120 m")


def test_nodes_of_others_without_the_parameters_are_told(ship, ros, eventually):
    ros(lambda: Node("mapper"))
    node, *_ = ship()
    eventually(lambda: node._advice)
    lacking = "planner and mapper lack sonar.min_range, sonar.max_range: nothing is compared"
    assert node._advice == [lacking]


def test_a_goal_is_driven_to_after_a_persons_start_alone(ship, eventually):
    node, planner, crew, afloat = ship()
    goals = crew.create_publisher(PoseStamped, "goal_pose", qos.GOAL)
    eventually(lambda: goals.get_subscription_count() == 2)
    goals.publish(messages.write_pose((5.0, 5.0), 0, "map"))
    eventually(lambda: node._wanted.goal is not None)
    beats(afloat, eventually)
    assert not afloat.boat.targets and not afloat.boat.refused
    eventually(lambda: node._wanted.goal is None)  # and it is forgotten
    under_way(crew, afloat, eventually)
    eventually(lambda: sent_to(afloat, planner.mission.goal))
    eventually(lambda: np.linalg.norm(afloat.boat.position) > 1)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("manual", "the mode is MANUAL, not GUIDED"),
        ("other-station", "another ground station has sent a target"),
    ],
)
def test_the_vehicle_is_not_taken_back(ship, eventually, word, reason):
    """Over topics and services in real time; all other reasons: ``mavlink/test_scenarios.py``."""
    node, planner, crew, afloat = ship()
    under_way(crew, afloat, eventually)
    eventually(lambda: node.vehicle.steering._echoed)  # for targets of others to be noticed
    afloat.do(EVENTS[word])

    def paused():
        if word == "other-station":  # again, as our next target may have replaced it unseen
            afloat.do(EVENTS[word])
        return crew.last("mission/state") == "paused"

    eventually(paused)
    eventually(lambda: re.search(reason, crew.last("mission/reason")))
    sent = node.vehicle.steering.sent
    if word != "other-station":  # which is over at once
        eventually(lambda: crew.last("vehicle/refusal"))
        answer = call(crew, eventually, "resume")
        assert not answer.success and "refused" in answer.message
    afloat.do(SimulatedBoat.recover)  # by the pilot: not a word to the mission
    beats(afloat, eventually, 3)
    # As the planner has heard it, not as another node has.
    eventually(lambda: not planner.autopilot.refusal)
    assert planner.mission.state == "paused" and node.vehicle.steering.sent == sent
    assert call(crew, eventually, "resume").success
    eventually(lambda: node.vehicle.steering.sent > sent)
    beats(afloat, eventually, 3)
    assert planner.mission.state == "pilot" and node.vehicle.authority.granted


def test_guided_lost_and_found_while_the_planner_is_busy(ship, eventually):
    """One heartbeat is enough, although the planner hears of it when all is well again."""
    node, planner, crew, afloat = ship(grace=1.0)
    under_way(crew, afloat, eventually)
    busy, sent = threading.Event(), node.vehicle.steering.sent
    planner.executor.create_task(busy.wait)
    afloat.do(EVENTS["manual"])
    eventually(lambda: not node.vehicle.authority.granted)
    sent = node.vehicle.steering.sent
    afloat.do(SimulatedBoat.recover)
    beats(afloat, eventually, 3)
    busy.set()
    eventually(lambda: planner.mission.state == "paused")
    assert "MANUAL" in planner.mission.reason
    beats(afloat, eventually, 2)
    assert node.vehicle.steering.sent == sent


def test_a_pause_by_a_person_holds_station(ship, eventually):
    node, planner, crew, afloat = ship()
    under_way(crew, afloat, eventually)
    eventually(lambda: np.linalg.norm(afloat.boat.position) > 2)
    assert call(crew, eventually, "pause").success
    eventually(lambda: planner.mission.station is not None)
    station = planner.mission.station
    eventually(lambda: sent_to(afloat, station))
    assert node.vehicle.authority.granted
    assert call(crew, eventually, "resume").success
    eventually(lambda: sent_to(afloat, planner.mission.goal))


def test_positions_that_come_late_do_not_steer(ship, eventually):
    node, planner, crew, afloat = ship(late=2.0)
    under_way(crew, afloat, eventually)
    afloat.do(EVENTS["late"])
    eventually(lambda: planner.mission.state == "paused")
    assert re.search(r"positions arrive \d+ s late", planner.mission.reason)
    afloat.do(SimulatedBoat.recover)
    eventually(lambda: not node.vehicle.telemetry.delayed)
    eventually(lambda: not planner.autopilot.refusal)
    assert planner.mission.state == "paused" or "recovered" in planner.mission.reason


def test_a_planner_that_starts_by_itself_moves_nothing(ship, ros, eventually):
    """`autostart` is no person."""
    node, _, crew, afloat = ship(planner=False)
    values = {"workspace": WORKSPACE, "pilot": "lawnmower", "autostart": True, **PATIENT}
    planner = ros(PlannerNode, parameters=values)
    eventually(lambda: planner.mission.state == "paused")
    assert planner.mission.reason == NOBODY and not afloat.boat.targets
    eventually(lambda: not planner.autopilot.refusal)
    assert call(crew, eventually, "resume").success
    eventually(lambda: afloat.boat.targets)
    assert node.vehicle.authority.granted


def test_a_link_node_that_starts_again_moves_nothing(ship, eventually):
    node, planner, crew, afloat = ship()
    under_way(crew, afloat, eventually)
    node.deactivate()
    held = node.vehicle.steering.sent
    node.activate()
    eventually(lambda: planner.mission.state == "paused")
    eventually(lambda: crew.last("mission/reason") == NOBODY)
    beats(afloat, eventually, 2)
    assert node.vehicle.steering.sent == held
    eventually(lambda: not planner.autopilot.refusal)
    assert call(crew, eventually, "resume").success
    eventually(lambda: node.vehicle.steering.sent > held)


def test_stalled_the_node_waits_for_a_fresh_heartbeat(ship, eventually):
    """Nobody read the link for 5 s: heartbeats of its queue do not count."""
    node, _, crew, afloat = ship()
    under_way(crew, afloat, eventually)
    busy = threading.Event()
    node.executor.create_task(busy.wait)
    beats(afloat, eventually, 5)
    afloat.do(EVENTS["manual"])
    beats(afloat, eventually, 1)
    sent = node.vehicle.steering.sent
    assert call(crew, eventually, "pause").success  # a place to hold station is due
    busy.set()
    eventually(lambda: not node.vehicle.authority.granted)
    assert node.vehicle.steering.sent == sent


def test_what_the_node_refuses(refusal, tmp_path):
    said = refusal(main, "-p", "origin:=[0.0, 0.0]")
    assert "parameter origin: expected latitude and longitude" in said
    assert "mavlink.url: expected udpin:HOST:PORT" in refusal(main, "-p", "mavlink.url:=nowhere")


def test_goals_in_another_frame_are_refused(ship, eventually):
    node, _, crew, _ = ship(planner=False)
    goals = crew.create_publisher(PoseStamped, "goal_pose", qos.GOAL)
    eventually(lambda: goals.get_subscription_count() == 2)
    goals.publish(messages.write_pose((5.0, 5.0), 0, "odom"))
    eventually(lambda: node.warnings.counts["goal"] == 1)
    goals.publish(messages.write_pose((math.nan, 5.0), 0, "map"))
    eventually(lambda: node.warnings.counts["goal"] == 2)
    assert node._wanted.goal is None


def test_targets_are_in_degrees_of_the_frame(ship, eventually):
    """The map turned by 90 degrees: its x axis points south."""

    def turned(goal):
        return None if goal is None else (goal[1], -goal[0])

    _, planner, crew, afloat = ship(heading=90.0)
    under_way(crew, afloat, eventually)
    eventually(lambda: sent_to(afloat, turned(planner.mission.goal)))


def test_home_in_degrees(ship, eventually):
    """The planner's parameter, wherever the mission begins."""
    home = list(LocalFrame(*HOME, 25.0).to_degrees((7.0, -7.0)))
    place = {"origin": [*map(float, HOME)], "heading": 25.0, "home_degrees": home}
    _, planner, crew, afloat = ship(planner=place)
    under_way(crew, afloat, eventually)
    assert math.dist(planner.mission.home, (7.0, -7.0)) < 0.01


def test_a_home_without_an_origin_is_refused(refusal):
    given = "-p", "home_degrees:=[47.3, 8.55]"
    assert "home_degrees: expected origin as well" in refusal(planner_main, *given)
    given = *given, "-p", "origin:=[8.55, 47.3]"
    assert "home_degrees: expected a place within 200 km" in refusal(planner_main, *given)
