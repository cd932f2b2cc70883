"""A long survey over real topics, in accelerated time: what it costs after 50,000 pings.

``POAM_SOAK_PINGS`` makes it shorter or longer.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from feeder import Feeder
from launched import node_command

from poam_ros.core.samples import Samples
from poam_ros.frontend.events import EXPLORING

pytestmark = [pytest.mark.ros, pytest.mark.soak]

PINGS = int(os.environ.get("POAM_SOAK_PINGS", "50000"))
EARLY = PINGS // 10  # 5,000 of 50,000: by then everything is loaded, and its work has settled
PILOT = 500
BURST = 20  # pings that are sent before the model must have caught up
PATIENCE = 120.0  # s of wall time for the next map
WINDOWS = 18
# Bytes of a ping itself: its row of Samples. What the model keeps of it besides is no excuse.
OWN = sum(array.nbytes for array in Samples.of(np.zeros((1, 2)), np.zeros(1)).arrays)
PARAMETERS = {
    "method": "nngp", "batch.size": BURST, "batch.period": 3600.0, "pilot_samples": PILOT,
    "odometry.vertical": "datum",
    "workspace": [-60.0, 60.0, -60.0, 60.0], "resolution": 2.0,
    "sonar.pings_at_place": 0,  # the curve turns slowly in a corner, after 44,900 pings
}  # fmt: skip


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """What a process has had of the processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def size_mb(folder: Path) -> float:
    """Size of all files in a folder; some may be replaced meanwhile."""
    size = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size / 2**20


@pytest.fixture
def mission(tmp_path):
    """The folder of the mission."""
    return tmp_path / "mission"


@pytest.fixture
def mapper(ros_env, tmp_path, mission):
    """A mapper in a process of its own."""
    command = node_command("mapper", {**PARAMETERS, "mission_dir": mission})
    with (tmp_path / "mapper.log").open("w") as log:
        process = subprocess.Popen(command, env=ros_env, stdout=log, stderr=log)
        yield process
    process.terminate()
    assert process.wait(300) == 0


def survey(feeder, process, mission, eventually):
    """Feed until all pings are in the map; resident memory (MB), CPU time (s) and size of the
    mission's files (MB), by pings in the map."""
    eventually(feeder.connected)
    taken, said = {}, time.monotonic()

    def take():
        taken[feeder.mapped] = resident_mb(process.pid), cpu_s(process.pid), size_mb(mission)

    feeder.drive(PILOT)
    feeder.say(EXPLORING)  # a mapper that has heard of a planner waits for its word

    def begun():
        feeder.drive(1)
        return feeder.mapped

    eventually(begun, PATIENCE, "no first map")

    def caught_up():
        refused = sum(int(feeder.status.get(name, 0)) for name in ("rejected", "withdrawn"))
        return feeder.mapped >= feeder.sent - feeder.lost - refused - BURST

    while feeder.mapped < PINGS:
        before = feeder.mapped
        try:
            eventually(caught_up, PATIENCE)
        except AssertionError:
            found = f"{feeder.mapped} of {feeder.sent} pings are mapped, {feeder.lost} lost"
            raise AssertionError(f"{found}: {feeder.status}") from None
        if feeder.mapped // 1000 > before // 1000 or not taken:
            take()
        if time.monotonic() - said > 30:
            said = time.monotonic()
            mapped, (memory, cpu, files) = list(taken.items())[-1]
            text = f"{mapped} pings: {memory:.0f} MB, {cpu:.0f} s of CPU, {files:.1f} MB of files"
            print(text, flush=True)
        feeder.drive(BURST)
    eventually(lambda: float(feeder.status.get("samples", 0)) >= PINGS)
    take()
    return taken


def windows(feeder):
    """Lower quartile of the update's time (s) in equal shares of the updates, after the early ones.

    The lower quartile: what else runs on the machine makes some updates longer, none shorter.
    """
    pairs = np.array([(r.samples, r.update_s) for r in feeder.reports if r.samples > EARLY])
    parts = np.array_split(pairs, WINDOWS)
    middles = np.array([part[:, 0].mean() for part in parts])
    return middles, np.array([np.quantile(part[:, 1], 0.25) for part in parts])


def test_a_long_survey_costs_no_more_than_a_short_one(ros, eventually, mapper, mission):
    feeder = ros(lambda: Feeder(58.0))
    taken = survey(feeder, mapper, mission, eventually)
    middles, update_s = windows(feeder)
    slope = np.polyfit(middles, update_s, 1)[0] * 10_000 / update_s.mean()
    (early, early_s, early_files), (last, last_s, files) = at(taken, EARLY), at(taken, PINGS)
    own = (PINGS - EARLY) * OWN / 2**20
    early_s, late_s = at(taken, 2 * EARLY)[1] - early_s, last_s - at(taken, PINGS - EARLY)[1]
    print(
        f"{PINGS} pings: {early:.0f} MB after {EARLY}, {last:.0f} MB at the end, of which samples "
        f"{own:.1f} MB; update {1e3 * update_s[0]:.0f} to {1e3 * update_s[-1]:.0f} ms, "
        f"{100 * slope:+.2f} % per 10,000; CPU of {EARLY} pings {early_s:.1f} s, later "
        f"{late_s:.1f} s; files {early_files:.2f} to {files:.2f} MB; "
        f"{feeder.lost} of {feeder.sent} lost on the way"
    )
    print(feeder.status)  # all of it: an assertion shows its begin
    status = {name: int(float(feeder.status[name])) for name in ("received", "accepted", "pending")}
    rejected = int(float(feeder.status["rejected"]))
    assert status["received"] == status["accepted"] + status["pending"] + rejected
    assert status["accepted"] >= PINGS and rejected == 0, feeder.status
    assert last - own < 1.1 * early
    assert slope < 0.05


def at(taken, pings):
    """What was taken when so many pings were in the map, or a few more."""
    return next(values for mapped, values in taken.items() if mapped >= pings)
