"""Random events in any order at any time: a session counts and survives them."""

import math
import os
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.errors import WARNING_PERIOD_S, CholeskyError, InputError, LogThrottle
from poam_ros.core.geometry import MAX_COORDINATE
from poam_ros.core.samples import TimedBatches
from poam_ros.frontend.events import STATES
from poam_ros.frontend.odometry import OdometryRefused, VehicleState
from poam_ros.frontend.pings import FrontEndSettings, RawPing, SonarMount
from poam_ros.frontend.refused_pings import MAX_PER_REASON, REASONS
from poam_ros.screening import ScreeningSettings

LENGTH = 100  # events of a sequence
SHORT, FULL = 6, int(os.environ.get("POAM_FUZZ_SEQUENCES", "2000"))  # sequences
ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324]
STAMPS = [0, 1, -1, SECOND, 2**31 * SECOND + SECOND - 1, -(2**31) * SECOND, 2**63 - 1]

NAKED = "tick", "waypoint_reached", "clock_set_back", "reset"

number = st.one_of(st.sampled_from(ODD), st.floats(), st.floats(-200, 200))
place = st.one_of(
    st.tuples(st.floats(-40, 40), st.floats(-40, 40), st.floats(0, 120)),
    st.tuples(number, number, number),
)
attitude = st.one_of(
    st.just((0.0, 0.0, 0.0, 1.0)),
    st.sampled_from([(0.0,) * 4, (1e-4,) * 4, (1e300,) * 4, (3.0, -4.0, 0.5, 2.0)]),
    st.tuples(number, number, number, number),
)
text = st.one_of(
    st.sampled_from(STATES),
    st.text(max_size=40),
    st.sampled_from(["", "map", "Ünterwasser", "\u6df1\u5ea6", "x" * 100_000, "\x00", "\ud800"]),
)
# Seconds from the present moment, or a stamp that has nothing to do with it.
when = st.one_of(
    st.floats(-0.2, 0.2), st.floats(-20, 20), st.sampled_from(STAMPS), st.integers(-(2**63), 2**63)
)
placings = st.builds(
    FrontEndSettings,
    range_time_offset=st.floats(-60, 60),
    odometry_timeout=st.floats(0.01, 60),
    odometry_wait=st.floats(0.1, 600),
    max_outside=st.floats(0, 1e6),
    ping_noise=st.booleans(),
    await_water_level=st.booleans(),
    min_confidence=st.floats(0, 1),
)
policies = st.builds(TimedBatches, batch_size=st.integers(1, 500))
small = [
    st.tuples(
        st.just("odometry"), when, place, attitude, number, text,
        st.tuples(number, number, number),
    ),
    st.tuples(st.just("ping"), when, number, number, number, text, number, number, number),
    st.tuples(st.just("good ping"), st.floats(-0.2, 0.0)),
    st.tuples(st.just("good odometry"), st.just(0.0)),
    st.tuples(st.just("wait"), st.floats(0, 3)),
    st.just(("work",)),
    # A stretch as it should be, so that the odd things happen to a survey that is under way.
    st.tuples(
        st.just("drive"), st.integers(1, 30), st.sampled_from([1.0, 1.0, 1.7, 0.5]), st.booleans()
    ),
]  # fmt: skip
rare = [
    st.builds(lambda level: ("event", "water_level", level), number),
    st.builds(
        lambda name, offset: ("event", "mount", SonarMount(name, offset, (0.0, 0.0, -1.0))),
        text, st.tuples(*[st.floats(-100, 100)] * 3),
    ),
    st.tuples(st.just("flood"), st.integers(1, 5000)),
    st.tuples(st.just("teleport"), place),
    st.tuples(st.just("clock"), st.integers(0, 2**62)),
    st.tuples(st.just("repeat"), st.integers(1, 20)),
    st.tuples(st.just("failing"), st.sampled_from([CholeskyError, InputError, ValueError])),
    st.builds(lambda name: ("event", "mission", name), text),
    st.builds(lambda name: ("event", "odometry", OdometryRefused(name)), st.sampled_from("ab")),
    st.builds(lambda on: ("event", "mission_source", on), st.booleans()),
    st.builds(
        lambda *new: ("event", "change", *new),
        placings,
        policies,
        st.integers(5, 1000),
    ),
    st.sampled_from([("event", name) for name in NAKED]),
]  # fmt: skip
sequences = st.lists(st.one_of(*small, *small, *rare), min_size=LENGTH, max_size=LENGTH)

# Most surveys are under way when the random events begin: there is a map, and some pings are false.
begins = st.sampled_from([[], [("drive", 40, 1.0, True), ("drive", 5, 1.7, True)]])


class Fuzzed:
    """A survey (``sessions.Survey``) that takes what the strategies draw."""

    def __init__(self, survey, screened) -> None:
        self.s = survey(pilot_samples=20, grid=None, screening=ScreeningSettings(screened))
        self.at, self.last, self.lines = (0.0, 0.0, 100.0), ("tick",), []
        self.warnings = LogThrottle(self.lines.append, clock=lambda: self.s.now.steady_s)
        self.s.front_end.warn = self.warnings.add
        self.handled = Counter()

    def hear(self, name, *args) -> None:
        """Let the session, or else its front end, take something; count it."""
        self.last = name, *args
        self.handled[name] += 1
        session, now = self.s.session, self.s.now
        if name == "change":
            session.front_end.change(args[0], args[2])
            session.sample_queue.policy = args[1]
        elif name == "reset":
            session.reset(now.ros_ns)
        elif name in ("odometry", "ping", "tick", "mission"):
            getattr(session, name)(*args, now)
        elif name == "water_level":
            session.front_end.water_level(*args, now)
        else:
            getattr(session if name == "waypoint_reached" else session.front_end, name)(*args)
        check(session)

    def stamp(self, when) -> int:
        """A drawn time as a message can hold it: signed 32 bits of seconds, and nanoseconds."""
        ns = when if isinstance(when, int) else self.s.now.ros_ns + round(when * SECOND)
        return min(max(ns, -(2**31) * SECOND), 2**31 * SECOND - 1)

    def take(self, kind, *drawn) -> None:
        getattr(self, "on_" + kind.replace(" ", "_"))(*drawn)
        self.hear("tick")

    def on_odometry(self, when, place, attitude, *rest) -> None:
        self.hear("odometry", VehicleState(self.stamp(when), place, attitude, *rest))

    def on_ping(self, when, *numbers) -> None:
        self.hear("ping", RawPing(self.stamp(when), *numbers))

    def on_good_ping(self, when) -> None:
        self.hear("ping", RawPing(self.stamp(when), 80.0 + self.s.now.steady_s % 7, 0.0, 1000.0))

    def on_good_odometry(self, when) -> None:
        self.hear("odometry", VehicleState(self.stamp(when), self.at))

    def on_drive(self, pings, ratio, works) -> None:
        """Places, ranges and stamps as a vehicle has them; or all ranges an echo's."""
        for _ in range(pings):
            self.s.wait(0.1)
            x, y = 20 * math.sin(self.s.now.steady_s), 20 * math.cos(self.s.now.steady_s)
            self.hear("odometry", VehicleState(self.stamp(0.0), (x, y, 100.0)))
            distance = ratio * (80.0 + math.sin(x / 9))
            self.hear("ping", RawPing(self.stamp(0.0), distance, 0.0, 1000.0))
            self.hear("tick")
            if works:
                self.on_work()

    def on_wait(self, seconds) -> None:
        self.s.wait(seconds)

    def on_clock(self, ros_ns) -> None:
        self.s.now = Moment(ros_ns, self.s.now.steady_s)

    def on_teleport(self, place) -> None:
        self.at = place

    def on_flood(self, count) -> None:
        for _ in range(count):
            self.s.session.ping(RawPing(self.stamp(0.0), 80.0, 0.0, 1000.0), self.s.now)
        self.handled["flood"] += count

    def on_repeat(self, count) -> None:
        for _ in range(count):
            self.hear(*self.last)

    def on_failing(self, kind) -> None:
        self.s.mapper.failures.append(kind("drawn"))

    def on_event(self, name, *args) -> None:
        self.hear(name, *args)

    def on_work(self) -> None:
        for _ in range(5):  # a batch that is kept may be due again
            if self.s.session.due(self.s.now):
                list(self.s.session.work(self.s.now))
        check(self.s.session)
        check_samples(self.s.session)


def check(session) -> None:
    """What holds whatever happened."""
    front_end = session.front_end
    heaps = front_end.ledger.accepted + front_end.ledger.pending + front_end.ledger.rejected.total()
    assert front_end.ledger.received == heaps
    assert front_end.ledger.pending <= front_end.settings.capacity
    assert 0 <= session.samples <= session.ledger.samples
    assert len(front_end.buffer) <= 2 * 4096
    assert (
        len(session.sample_queue)
        <= session.sample_queue.capacity + 5000 + front_end.settings.capacity
    )
    assert len(front_end.ledger.rejected) < 20 and len(front_end.ledger.odometry_rejected) < 20


def check_samples(session) -> None:
    """Every accepted ping is a finite sample with a number of its own, or withdrawn."""
    samples, out = session.all_samples(), session.withdrawn.number
    assert np.isfinite(samples.xy).all() and np.isfinite(samples.z).all()
    assert (np.diff(samples.number) > 0).all()
    if not session.status.dropped:
        assert session.samples == len(samples)
        assert np.union1d(samples.number, out).tolist() == list(range(session.ledger.samples))


def check_refused(front_end, anew) -> None:
    """Every refused ping is counted, the newest are known, and are somewhere or nowhere."""
    found = front_end.ledger.refused
    assert set(front_end.ledger.rejected) <= set(REASONS)
    known = sum(found.counts.values()) + sum(bool(each.refused) for each in front_end._waiting)
    assert (
        known <= front_end.ledger.rejected.total()
        if anew
        else known == front_end.ledger.rejected.total()
    )
    for reason, count in found.counts.items():
        number = found.number[found.reason == reason]
        assert number.tolist() == list(range(max(0, count - MAX_PER_REASON), count))
    placed = found.placed
    assert (np.abs(placed.xyz[:, :2]) <= MAX_COORDINATE).all()
    z = placed.xyz[:, 2]
    assert (np.abs(z[~np.isnan(z)]) <= MAX_COORDINATE).all()
    nowhere = ~np.isfinite(found.xyz[:, :2]).all(axis=1)
    assert np.isnan(found.xyz[nowhere]).all()


def run(survey, screened, drawn, handled) -> None:
    fuzzed = Fuzzed(survey, screened)
    for step in drawn:
        fuzzed.take(*step)
    check_samples(fuzzed.s.session)
    check_refused(fuzzed.s.session.front_end, anew=fuzzed.handled["reset"] > 0)
    front_end = fuzzed.s.session.front_end
    handled["accepted"] += front_end.ledger.accepted
    handled["false echoes"] += len(fuzzed.s.session.withdrawn)
    reasons, seconds = len(fuzzed.warnings.counts), fuzzed.s.now.steady_s
    assert len(fuzzed.lines) <= reasons * (1 + seconds / WARNING_PERIOD_S)
    assert all(len(line) < 1000 for line in fuzzed.lines), max(map(len, fuzzed.lines))
    handled += fuzzed.handled


COMMON = {
    "deadline": None, "database": None, "suppress_health_check": list(HealthCheck),
}  # fmt: skip


@pytest.mark.parametrize("count", [SHORT, pytest.param(FULL, marks=pytest.mark.soak)])
def test_any_sequence_of_events_is_handled(survey, count):
    handled = Counter()

    @settings(max_examples=count, **COMMON)
    @given(st.booleans(), begins, sequences)
    def fuzz(screened, begin, drawn):
        run(survey, screened, begin + drawn, handled)

    (seed(0)(fuzz) if count == SHORT else fuzz)()
    counted = "flood", "tick", "accepted", "false echoes"
    taken = handled.total() - sum(handled[name] for name in counted)
    print(dict(handled), taken, "without floods")
    assert taken > 0.5 * count * LENGTH
    assert handled["accepted"] > count  # what is drawn changes with the modules that are loaded
    assert count == SHORT or handled["false echoes"] > 0
