"""A mapper that is killed in the middle of a survey over real topics, and started again each time.

``make soak`` kills it fifty times, the suite twice.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

pytest.importorskip("rclpy")

from feeder import Feeder, Guided
from heard import answer
from kept import SMALL, rebuilt, rows
from launched import node_command
from planted_missions import Planted
from planted_nodes import Sender, compared, fly, mapper_process
from std_msgs.msg import UInt64
from std_srvs.srv import Trigger

from poam_ros.frontend.events import STATES
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.node import LATCHED
from poam_ros.ros.simulator import SimulatorNode

pytestmark = pytest.mark.ros

PINGS = int(os.environ.get("POAM_SOAK_KILL_PINGS", "2000"))
KILLS = int(os.environ.get("POAM_SOAK_KILLS", "50"))
LIMIT = 300.0  # s, for a process to end
RATE = 80.0  # pings a second of wall time


class Vehicle(Feeder):
    """A vehicle that never stops: 10 Hz odometry and pings by its stamps, faster by the clock."""

    def __init__(self):
        super().__init__()
        self.listen(UInt64, "map/samples", LATCHED)
        self.stopped = threading.Event()
        self.say("exploring")
        self.driver = threading.Thread(target=self._drive, daemon=True)
        self.driver.start()

    @property
    def counts(self):
        """The messages of the mapper that others may rely on."""
        return [message.data for message in self.heard["map/samples"]]

    def _drive(self):
        while not self.stopped.wait(1 / RATE):
            self.drive(1)


@pytest.fixture
def life(ros_env, tmp_path):
    """`life(**settings)`: a small mapper in a process of its own, with the mission folder `m`."""
    begun = []

    def begin(**settings):
        begun.append(mapper_process(tmp_path / "m", ros_env, **settings))
        return begun[-1]

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.wait()


def survive(kills, pings, life, vehicle, eventually, folder):
    """Kill so often at random moments; then let it go on until there are so many pings."""
    seed = random.randrange(10**6)
    draw = random.Random(seed)
    for _ in range(kills):
        mapper, heard = life(), len(vehicle.counts)
        if draw.random() < 0.8:  # else somewhere on its way up
            eventually(lambda n=heard: len(vehicle.counts) > n, what="not up")
        time.sleep(draw.uniform(0.0, 1.5))
        mapper.send_signal(signal.SIGKILL)
        mapper.wait(LIMIT)
        told = max(vehicle.counts, default=0)
        if (folder / "pings.sqlite").exists() and told:
            assert len(rows(folder)) >= told, seed
    mapper, heard = life(), len(vehicle.counts)
    # Of this life: one that is still on its way up does not know of Ctrl-C.
    eventually(lambda: vehicle.counts[heard:] and vehicle.counts[-1] >= pings, timeout=600)
    vehicle.stopped.set()
    vehicle.driver.join(LIMIT)
    mapper.send_signal(signal.SIGINT)
    assert mapper.wait(LIMIT) == 0
    assert vehicle.counts == sorted(vehicle.counts), (seed, "map/samples has fallen")
    found = rows(folder)
    assert [row[0] for row in found] == list(range(len(found))), seed
    assert (np.diff([row[1] for row in found]) > 0).all(), (seed, "a ping is there twice")
    assert len(found) >= vehicle.counts[-1] >= pings, seed
    copy = shutil.copytree(folder, folder.parent / "copy")
    (whole, count), (alone, _) = rebuilt(copy)
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6, err_msg=str(seed))
    return {"pings": len(found), "in the map": count, "worst": abs(whole - alone).max()}


@pytest.mark.slow
def test_a_killed_mapper_recovers(ros, life, eventually, tmp_path):
    survive(2, 150, life, ros(Vehicle), eventually, tmp_path / "m")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fish", "isolated20"])
def test_a_killed_mapper_screens_as_in_lock_step(ros, ros_env, eventually, fault, tmp_path):
    """The pilot survey has the fault; the mapper is killed while it works on the batch after it."""
    mission, folder = Planted(tmp_path / "lock-step", 7, fault, True, pings=660), tmp_path / "nodes"
    mission.finish().close()
    fly(ros(lambda: Sender(mission, folder)), folder, ros_env, eventually, kill=1)
    alike = compared(folder, mission)
    assert all(alike.values()), alike


EVERY = {"use_sim_time": True, "workspace": [-8.0, 8.0, -8.0, 8.0]}
SIMULATOR = {"terrain": "seamounts", "speed": 10.0, "wait_for_mission": True}
MAPPER = {**SMALL, "batch.size": 20, "pilot_samples": 500}


def explore(kills, samples, ros, ros_env, eventually, folder, request):
    """A mission whose planner is killed so often; all its states, as they were announced."""

    def start(kind, **values):
        return ros(kind, parameters=EVERY | values)

    values = {
        **EVERY, "planner": "max-entropy", "pilot": "lawnmower", "max_samples": samples,
        "autostart": True, "watchdog.resume_after_restart": True, "mission_dir": str(folder),
    }  # fmt: skip
    mapper = start(MapperNode, **MAPPER)
    start(SimulatorNode, **SIMULATOR)
    draw, progress = random.Random(kills), []

    def under_way(before):
        # The vehicle may move, and pings count, before a new planner says anything.
        file = folder / "mission.json"
        began = file.exists() and json.loads(file.read_text())["status"]["state"] != "waiting"
        return began and mapper.session.samples > before

    def planner_process():
        planner = subprocess.Popen(node_command("planner", values), env=ros_env)
        request.addfinalizer(planner.kill)  # else a failure leaves it to the tests after this one
        return planner

    for _ in range(kills):
        planner = planner_process()
        before = mapper.session.samples
        eventually(lambda n=before: under_way(n), what="no progress")
        time.sleep(draw.uniform(0.0, 0.5))
        planner.send_signal(signal.SIGKILL)
        planner.wait(LIMIT)
        kept = json.loads((folder / "mission.json").read_text())
        assert kept["status"]["state"] in ("pilot", "exploring")
        stands = [kept["arrivals"].get("reached", 0), kept["samples"], -len(kept["goals"])]
        progress.append(stands if kept["status"]["state"] == "pilot" else stands[:2])
    planner = planner_process()
    eventually(lambda: mapper.session.status.finished, what="it does not go on")
    planner.send_signal(signal.SIGINT)
    assert planner.wait(LIMIT) == 0
    kept = json.loads((folder / "mission.json").read_text())
    assert kept["status"]["state"] == "done" and kept["began"] > 0
    assert samples <= mapper.session.samples
    reached = kept["arrivals"].get("reached", 0)
    assert progress == sorted(progress) and reached >= progress[-1][0]  # it never begins again
    return {"samples": mapper.session.samples, "goals": reached, "kills": kills}


def test_a_killed_planner_resumes_after_a_restart(ros, ros_env, eventually, tmp_path, request):
    explore(2, 160, ros, ros_env, eventually, tmp_path, request)


@pytest.mark.parametrize(
    "state",
    [
        "pilot",
        *(pytest.param(each, marks=pytest.mark.slow) for each in STATES if each != "pilot"),
    ],
)
def test_a_planner_that_is_killed_in_any_state_comes_back_to_it(
    state, ros, ros_env, eventually, tmp_path, request
):
    """A mission under way waits for an operator first, and goes on where it was."""
    values = {
        "workspace": EVERY["workspace"], "pilot": "diagonal", "mission_dir": str(tmp_path),
        "on_done": "home", "max_samples": 100, "max_speed": 5.0,
        "watchdog.sonar_timeout": 0.0, "watchdog.progress_timeout": 0.0,
    }  # fmt: skip
    vehicle = ros(Guided, place=(8.0, -8.0), speed=5.0)

    def start():
        planner = subprocess.Popen(node_command("planner", values), env=ros_env)
        request.addfinalizer(planner.kill)
        return planner

    def said(expected):
        eventually(lambda: vehicle.states and vehicle.states[-1] == expected, what=expected)

    def ask(word):
        client = vehicle.create_client(Trigger, f"planner/{word}")
        # A start is refused until the planner has heard of a mapper.
        eventually(lambda: answer(client, eventually).success, what=word)

    planner = start()
    said("waiting")
    if state != "waiting":
        ask("start")
        said("pilot")
    if state in ("exploring", "returning", "done"):
        said("exploring")
    if state in ("returning", "done"):
        vehicle.speed = 5.0 if state == "done" else 0.0
        vehicle.samples.publish(UInt64(data=100))
        said(state)
    if state == "paused":
        ask("pause")
        said("paused")
    vehicle.speed = 0.0
    planner.send_signal(signal.SIGKILL)
    planner.wait(LIMIT)
    vehicle.heard.forget("mission/state", "mission/reason", "goal_pose")
    planner = start()
    if state in ("pilot", "exploring", "returning"):
        said("paused")
        eventually(
            lambda: f"the planner was restarted while {state}" in vehicle.reasons[-1], what="reason"
        )
        stay = pytest.approx(vehicle.place.tolist(), abs=1e-6)
        eventually(lambda: vehicle.goals[-1] == stay, what="it is not told to stay")
        ask("resume")
        if state != "exploring":  # where no goal is without a map
            eventually(lambda: vehicle.goals[-1] != stay, what="it does not go on")
    said(state)
    if state == "returning":
        eventually(lambda: vehicle.goals and np.allclose(vehicle.goals[-1], (8, -8), atol=0.5))
        vehicle.speed = 5.0
        said("done")
    planner.send_signal(signal.SIGINT)
    assert planner.wait(LIMIT) == 0


@pytest.mark.soak
def test_a_planner_that_is_killed_twenty_times(ros, ros_env, eventually, tmp_path, request):
    print(explore(20, 1000, ros, ros_env, eventually, tmp_path, request))


@pytest.mark.soak
def test_a_mapper_that_is_killed_fifty_times(ros, life, eventually, tmp_path):
    print(survive(KILLS, PINGS, life, ros(Vehicle), eventually, tmp_path / "m"))
