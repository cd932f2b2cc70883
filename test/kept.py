"""Surveys with a journal in a folder, fed by hand."""

import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import crossing_lines
import numpy as np

from poam_ros.core.clock import SECOND, Moment
from poam_ros.frontend.front_end import RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.learning.create import open_mission
from poam_ros.outputs.folder import read_map
from poam_ros.ros.parameters import MAPPER

SMALL = {
    "odometry.vertical": "datum",
    "method": "nngp", "nngp.hidden": 8, "nngp.lattice": 8, "nngp.first_steps": 20,
    "resolution": 6.0, "batch.size": 20, "batch.period": 3600.0, "pilot_samples": 40,
    "checkpoint_period": 0.1, "screening.enabled": False,
}  # fmt: skip
POAM = {"method": "poam", "sparse.num_inducing": 40, "sparse.steps": 2}
DEPTH = 100.0


def settings(folder, **changed):
    """All settings of a mapper, as its parameters have them."""
    defaults = {row.name: row.default for row in MAPPER}
    return {**defaults, **SMALL, "mission_dir": str(folder), **changed}


class Kept:
    """A session in a folder, fed by hand: 10 Hz odometry, a ping with each; its model's turn comes
    when ``work`` is called."""

    LIMITS = 1.0, 1000.0

    def __init__(self, folder, begin=0, **changed):
        self.session, self.close = open_mission(settings(folder, **changed))
        self.stamp, self._pilot = begin, {**SMALL, **changed}["pilot_samples"]
        self.outcomes = []

    @property
    def now(self):
        return Moment(self.stamp * SECOND // 10, time.monotonic())

    def place(self, stamp):
        s = stamp / 10
        return 25 * np.sin(0.7 * s), 25 * np.sin(0.43 * s + 0.4), DEPTH

    def heard(self, distance):
        """The range that the sonar reports."""
        return distance

    def reading(self):
        """Place and range at this stamp; the bottom is rough."""
        x, y, z = self.place(self.stamp)
        ground = 20 + 10 * np.sin(x / 8) * np.cos(y / 6) + np.sin(self.stamp**2 % 97)
        return (x, y, z), self.heard(z - ground)

    def ping(self):
        """Odometry and a ping at the next stamp."""
        self.stamp += 1
        place, distance = self.reading()
        ns = self.stamp * SECOND // 10
        self.session.odometry(VehicleState(ns, place), self.now)
        self.session.ping(RawPing(ns, distance, *self.LIMITS), self.now)
        self.session.tick(self.now)

    def drive(self, pings):
        for _ in range(pings):
            self.ping()
        self.settle()

    def settle(self, timeout=200.0):
        """Wait until every accepted ping is stored, and counts."""
        end = time.monotonic() + timeout
        while self.session.journal.unstored_count:
            assert time.monotonic() < end, "nothing comes back from the disk"
            time.sleep(0.01)
            self.session.tick(self.now)

    def work(self):
        while self.session.due(self.now):
            self.outcomes += self.session.work(self.now)
        return self

    def turn(self):
        """Store and model all that is due."""
        self.work()
        self.settle()
        self.work()

    def until(self, stamp):
        """Drive to a ping; the model has its turn whenever something is due."""
        while self.stamp < stamp:
            self.ping()
            if (self.stamp - self._pilot) % SMALL["batch.size"] == 0:
                self.settle()  # pings are due when they are on the disk
            if self.session.due(self.now):
                self.turn()
        self.settle()
        return self

    def written(self):
        """Wait until all that was journalled is on the disk."""
        journal = self.session.journal
        journal._next_checkpoint = -1.0
        assert journal.checkpoint_due(self.now).reached.wait(300)

    def mapped(self, steps=6, pings=20):
        """A pilot survey and some batches."""
        self.drive(40)
        self.work()
        for step in range(steps):
            self.drive(pings + step)
            self.work()
        return self

    @property
    def balanced(self):
        received, *heaps = self.session.ledger.counts().values()
        return received == sum(heaps)

    @property
    def map(self):
        at = np.random.default_rng(0).uniform(-30, 30, (200, 2))
        predicted = self.session.mapper.predict(at)
        return np.stack((predicted.mean, predicted.variance))


def surveys(folder, kind=Kept):
    """For a fixture: ``begin(name="m", **settings)`` begins a survey, closed at the end."""
    begun = []

    def begin(name="m", kind=kind, **settings):
        begun.append(kind(folder / name, **settings))
        return begun[-1]

    yield begin
    for survey in begun:
        survey.close()


class Echoing(Kept):
    """Over a bottom with a pit, with false echoes, and screened."""

    def __init__(self, folder, begin=0, **changed):
        super().__init__(folder, begin, **{"screening.enabled": True}, **changed)

    def heard(self, distance):
        false = self.stamp % 23 in (5, 6, 7)
        pit = self.stamp % 120 > 85
        return 1.7 * distance if false else distance + 60.0 * pit


def full(*_):
    """What a full disk does to a commit."""
    raise sqlite3.OperationalError("database or disk is full")


def _lines():
    """Places 0.6 m apart along three lines north and two east, and the line of each; -1: a turn."""
    ends = [(-18, -24), (-18, 24), (0, 24), (0, -24), (18, -24), (18, 24)]
    ends += [(26, -10), (-26, -10), (-26, 10), (26, 10)]
    places, lines = [], []
    for number, (a, b) in enumerate(pairwise(np.array(ends, dtype=float))):
        count = round(np.hypot(*(b - a)) / 0.6)
        places.append(a + (b - a) * np.arange(count)[:, None] / count)
        lines += [-1 if number % 2 else number // 2] * count
    return np.concatenate(places), np.array(lines)


class Crossed(Kept):
    """Along lines over a lake, screened; every ping of one line is a double echo. The two lines
    east are surveyed after the pilot survey."""

    PLACES, LINES = _lines()
    FALSE = 1
    LIMITS = 0.1, 100.0

    def __init__(self, folder, begin=0, **changed):
        pilot = int(np.flatnonzero(self.LINES == 3)[0])
        super().__init__(
            folder, begin, **{"screening.enabled": True, "pilot_samples": pilot} | changed
        )

    def reading(self):
        x, y = self.PLACES[self.stamp - 1].tolist()
        depth = 6 + np.sin(x / 9) + np.cos(y / 7) + 0.02 * np.sin(self.stamp**2 % 97)
        false = self.LINES[self.stamp - 1] == self.FALSE
        return (x, y, 0.0), float(depth) * (1 + false)

    def until(self, stamp=None):
        return super().until(stamp or len(self.PLACES))

    @property
    def withdrawn_lines(self):
        """The line of each ping that is withdrawn."""
        return self.LINES[self.session.withdrawn.stamp_ns * 10 // SECOND - 1]


def rows(folder, query="SELECT * FROM pings ORDER BY number"):
    """The contents of a journal, read by another connection."""
    with closing(sqlite3.connect(Path(folder) / "pings.sqlite")) as db:
        return db.execute(query).fetchall()


def rebuilt(folder, **changed):
    """The map of a folder's log alone, without its checkpoint, and the one it goes on with."""
    maps = []
    for _ in range(2):
        again = Kept(folder, **changed).work()
        maps.append((again.map, again.session.mapper.samples))
        again.close()
        (Path(folder) / "checkpoint.npz").unlink(missing_ok=True)
    return maps


def of_log(folder, tmp_path):
    """The map that `poam map` makes of its log."""
    from poam_ros.app.cli import main

    assert main(["map", str(folder), "--output", str(tmp_path / "again")]) == 0
    return read_map(tmp_path / "again" / "map.npz")


def compare(found, expected):
    """`poam map` leaves cells blank where the pings say nothing."""
    shown = np.isfinite(expected.mean)
    assert shown.mean() > 0.1
    np.testing.assert_allclose(found.mean[shown], expected.mean[shown], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.variance[shown], expected.variance[shown], rtol=0, atol=1e-6)
    assert found.samples == expected.samples


class Shifted(Crossed):
    """Along lines north, then east, whose positions are shifted; every ping is of the bottom."""

    SHIFT = np.array([5.0, 4.0])
    PLACES = np.concatenate([
        np.column_stack(axes)[::1 if i % 2 else -1]
        for across in (False, True)
        for i, at in enumerate(np.linspace(-20, 14, 8))
        for along in [np.arange(-20.0, 15.0, 0.8)]
        for axes in [(along, np.full(44, at)) if across else (np.full(44, at), along)]
    ])  # fmt: skip
    LINES = np.repeat(np.arange(16), 44)

    def reading(self):
        x, y = self.PLACES[self.stamp - 1].tolist()
        place = (x, y) + self.SHIFT * (self.LINES[self.stamp - 1] > 9)
        depth = 25 + 6 * np.sin(x / 9) + 5 * np.cos(y / 7) + 0.02 * np.sin(self.stamp**2 % 97)
        return (*place.tolist(), 0.0), float(depth)


class Reinstated(Crossed):
    """East of a terrace it is twice as deep: the first line there is out until another comes."""

    PLACES, DEPTHS, LINES = (values[:1000:2] for values in crossing_lines.lake())
    DEPTHS = -DEPTHS * (1 + (PLACES[:, 0] > 110))

    def __init__(self, folder, begin=0, **changed):
        workspace = {
            "workspace": [-5.0, 245.0, -5.0, 205.0],
            "resolution": 20.0,
            "odometry.max_jump": 1e3,  # lines begin elsewhere than those before them end
        }
        super().__init__(folder, begin, pilot_samples=150, **workspace, **changed)

    def reading(self):
        place, depth = (each[self.stamp - 1].tolist() for each in (self.PLACES, self.DEPTHS))
        return (*place, 0.0), depth
