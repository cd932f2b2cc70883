"""Where beams end, by attitude, mount and water level, and how accurately that is known."""

import math

import numpy as np
import pytest

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.samples import APPLIED, Samples
from poam_ros.frontend.front_end import FrontEnd
from poam_ros.frontend.odometry import VehicleState, multiply
from poam_ros.frontend.pings import FrontEndSettings, RawPing, SonarMount

NOW = Moment(0, 0.0)
PLACE = (10.0, 20.0, 30.0)


def about(axis, angle):
    turned = [0.0, 0.0, 0.0, math.cos(angle / 2)]
    turned[axis] = math.sin(angle / 2)
    return tuple(turned)


def survey(
    settings, *events, distance=8.0, quaternion=(0.0, 0.0, 0.0, 1.0), variance=(0, 0, 0), **ping
):
    """The sample, or the reason of its refusal, of one ping from ``PLACE``."""
    front_end = FrontEnd(settings)
    front_end.odometry(VehicleState(SECOND, PLACE, quaternion, variance=variance), NOW)
    for event in events:
        if isinstance(event, SonarMount):
            front_end.mount(event)
        else:
            front_end.water_level(event, NOW)
    front_end.ping(RawPing(SECOND, distance, 0.1, 1e5, **ping), NOW)
    samples = front_end.take(NOW)
    assert front_end.ledger.accepted + sum(front_end.ledger.rejected.values()) == 1
    if len(samples):
        return samples
    (reason,) = front_end.ledger.rejected
    return reason


def point(samples):
    return [*samples.xy[0], samples.z[0]]


def test_without_an_elevation_a_ping_is_drawn_where_the_sonar_was():
    """Of a vehicle that dives 1 m a second; the water is 2 m above the datum."""
    front_end = FrontEnd(FrontEndSettings(sonar_offset=(0.0, 0.0, -0.5), water_level=2.0))
    stamps = SECOND * np.array([0, 1, 3, 4, 9])
    assert np.isnan(front_end.sonar_heights(stamps, NOW)).all()
    for second in (1, 2, 4):
        front_end.odometry(
            VehicleState(second * SECOND, (0.0, 0.0, -second), (0.0, 0.0, 0.0, 1.0)), NOW
        )
    heights = front_end.sonar_heights(stamps, NOW)
    np.testing.assert_allclose(heights, [0.5, 0.5, -1.5, -2.5, -2.5], atol=1e-6)


def test_in_frames_the_mount_of_the_frame_is_taken():
    front_end = FrontEnd(FrontEndSettings(base_frame="base_link"))
    front_end.odometry(VehicleState(SECOND, PLACE, (0.0, 0.0, 0.0, 1.0)), NOW)
    stamps = np.array([SECOND])
    assert front_end.sonar_heights(stamps, NOW) == PLACE[2]
    front_end.mount(SonarMount("sonar", (0.0, 0.0, -1.0), (0.0, 0.0, -1.0)))
    assert front_end.sonar_heights(stamps, NOW) == PLACE[2] - 1


def test_a_floating_vehicle_is_at_the_water_level():
    """Whatever height the autopilot believes in, and how uncertain that is."""
    settings = FrontEndSettings(
        surface=True, sonar_offset=(0.0, 0.0, -0.2), water_level=1.5, ping_noise=True
    )
    assert point(survey(settings, variance=(0.04, 0.04, 9.0))) == pytest.approx((10, 20, -6.7))
    noise = survey(settings, variance=(0.04, 0.04, 9.0)).noise_std
    assert math.isnan(noise[0])  # neither slope nor range noise is given
    assert survey(FrontEndSettings(), variance=(0.0, 0.0, 9.0)).z[0] == pytest.approx(22)


@pytest.mark.parametrize("distance", [1.0, 8.0, 123.456])
@pytest.mark.parametrize(
    ("tilt", "toward"),
    [
        ((0.0, 0.0), (0.0, 0.0, -1.0)),
        ((math.pi / 6, 0.0), (-0.5, 0.0, -math.sqrt(0.75))),  # nose of the sonar down: looks aft
        ((-math.pi / 6, 0.0), (0.5, 0.0, -math.sqrt(0.75))),
        ((0.0, math.pi / 6), (0.0, 0.5, -math.sqrt(0.75))),  # starboard down: looks to port
        (
            (0.3, -0.4),
            (-math.cos(0.4) * math.sin(0.3), -math.sin(0.4), -math.cos(0.4) * math.cos(0.3)),
        ),
    ],
)
def test_the_beam_follows_the_mount_in_the_parameters(tilt, toward, distance):
    settings = FrontEndSettings(sonar_tilt=tilt, sonar_offset=(1.0, 2.0, -0.5))
    expected = np.array(PLACE) + (1.0, 2.0, -0.5) + distance * np.array(toward)
    np.testing.assert_allclose(point(survey(settings, distance=distance)), expected, atol=1e-12)


def test_the_beam_follows_the_mount_of_the_message_s_frame():
    """The sonar's own frame counts; the parameters do not, and an unknown one is waited for."""
    settings = FrontEndSettings(base_frame="base_link", sonar_offset=(9.0, 9.0, 9.0))
    fore = SonarMount("fore", (2.0, 0.0, -1.0), (0.6, 0.0, -0.8))
    aft = SonarMount("aft", (-2.0, 0.0, -1.0), (0.0, 0.0, -1.0))
    assert survey(settings, fore, frame_id="aft") == "no_mount"
    at_aft = survey(settings, fore, aft, frame_id="aft", distance=10.0)
    at_fore = survey(settings, fore, aft, frame_id="fore", distance=10.0)
    np.testing.assert_allclose(point(at_aft), (8.0, 20.0, 19.0), atol=1e-12)
    np.testing.assert_allclose(point(at_fore), (18.0, 20.0, 21.0), atol=1e-12)
    moved = SonarMount("aft", (-3.0, 0.0, -1.0), (0.0, 0.0, -1.0))  # it was put right meanwhile
    np.testing.assert_allclose(point(survey(settings, aft, moved, frame_id="aft"))[0], 7.0)


def test_sound_speed_scales_the_range_and_the_water_level_is_added():
    settings = FrontEndSettings(sound_speed=1440.0, sound_speed_assumed=1500.0, water_level=2.0)
    found = survey(settings, distance=10.0)
    np.testing.assert_allclose(point(found), (10.0, 20.0, 30.0 + 2.0 - 9.6), atol=1e-12)
    # The topic's level replaces the parameter's.
    found = survey(settings, (-1.5), distance=10.0)
    np.testing.assert_allclose(found.z, 30.0 - 1.5 - 9.6, atol=1e-12)


def test_applied_corrections_are_stored_and_can_be_changed():
    attitude = multiply(about(2, 0.7), about(0, 0.3))
    settings = FrontEndSettings(
        sound_speed=1480.0, sonar_tilt=(0.1, 0.0), sonar_offset=(1.0, 0.0, -1.0)
    )
    first = survey(settings, (0.4), quaternion=attitude, distance=20.0)
    columns = dict(zip(APPLIED, first.applied[0].tolist(), strict=True))
    assert first.range.tolist() == [20.0] and columns["water_level"] == 0.4
    assert (columns["sound_speed_assumed"], columns["sound_speed"]) == (1500.0, 1480.0)
    assert np.linalg.norm(first.applied[0, 3:]) == pytest.approx(1.0)
    # A replay with better ones is the survey as it would have been with them.
    better = FrontEndSettings(
        sound_speed=1520.0, sonar_tilt=(0.1, 0.0), sonar_offset=(1.0, 0.0, -1.0)
    )
    again = survey(better, (-0.3), quaternion=attitude, distance=20.0)
    corrected = first.corrected(sound_speed=1520.0, water_level=-0.3)
    np.testing.assert_allclose(point(corrected), point(again), atol=1e-12)
    np.testing.assert_allclose(corrected.applied, again.applied, atol=1e-12)
    np.testing.assert_allclose(point(first.corrected()), point(first), atol=0)
    bare = Samples.of(np.ones((3, 2)), np.ones(3))
    assert bare.corrected(1520.0, np.arange(3.0)).z.tolist() == [1.0, 1.0, 1.0]


WIDTH = 2 * math.atan(0.1)  # a footprint of a tenth of the range


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ({"range_noise_std": 0.3}, {}, 0.3),
        ({"range_noise_share": 0.02}, {}, 0.02 * 8),
        ({"range_noise_std": 0.3, "range_noise_share": 0.05}, {}, 0.5),
        ({"range_noise_std": 0.3}, {"variance": (9, 9, 0)}, 0.3),  # level ground: no error of z
        ({"range_noise_std": 0.3}, {"variance": (0, 0, 0.16)}, 0.5),
        ({"range_noise_std": 0.3, "slope": 0.5}, {"variance": (0.4, 0.88, 0)}, 0.5),
        ({"slope": 0.5}, {"variance": (-1, 4, math.nan)}, math.nan),
        ({"slope": 0.5, "beam_width": WIDTH}, {}, 0.4),
        ({"slope": 0.5}, {"field_of_view": WIDTH}, 0.4),
        ({"slope": 0.5, "beam_width": WIDTH}, {"field_of_view": 1.0}, 0.4),
        ({"slope": 0.5, "range_noise_std": 0.3}, {"field_of_view": 7.0}, 0.3),  # no angle of a beam
        ({"slope": 0.5, "range_noise_std": 0.3}, {"field_of_view": math.nan}, 0.3),
    ],
)  # fmt: skip
def test_noise_combines_the_known_errors(settings, given, expected):
    found = survey(FrontEndSettings(ping_noise=True, **settings), **given)
    np.testing.assert_allclose(found.noise_std, [expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("variance", "std"), [(0.04, 0.2), (0.0, 0.3), (-1.0, 0.3), (math.nan, 0.3)]
)
def test_the_variance_of_the_message_replaces_the_parameters(variance, std):
    front_end = FrontEnd(FrontEndSettings(ping_noise=True, range_noise_std=0.3))
    front_end.odometry(VehicleState(0, PLACE), NOW)
    front_end.ping(RawPing(0, 8.0, 0.1, 100.0, variance=variance), NOW)
    np.testing.assert_allclose(front_end.take(NOW).noise_std, [std])


@pytest.mark.parametrize(
    ("settings", "given", "outcome"),
    [
        ({"max_noise_std": 0.5, "range_noise_std": 0.6}, {}, "too_noisy"),
        ({"max_noise_std": 0.5, "range_noise_std": 0.4}, {}, None),
        ({"max_noise_std": 0.5}, {"variance": (0, 0, 0.26)}, "too_noisy"),
        ({"max_noise_std": 0.5}, {}, None),  # nothing is known of it
        ({"max_position_std": 1.0}, {"variance": (1.5, 1.5, 0)}, "position_uncertain"),
        ({"max_position_std": 1.0}, {"variance": (0.9, 0.9, 99)}, None),
        ({"max_position_std": 1.0}, {"variance": (0, 0, 0)}, None),
        ({"max_position_std": 1.0}, {"variance": (math.nan, -1, 0)}, None),
        ({"ping_noise": True}, {"variance": (0, 0, 1.7e308)}, None),
        ({"ping_noise": True, "slope": 9.0}, {"variance": (1.7e308,) * 3}, "too_noisy"),
    ],
)
def test_pings_above_a_limit_are_refused_by_name(settings, given, outcome):
    found = survey(FrontEndSettings(**settings), **given)
    assert (found if isinstance(found, str) else None) == outcome
    if outcome is None and not settings.get("ping_noise"):
        assert np.isnan(found.noise_std).all()  # a limit alone changes no update


def test_invalid_covariances_count_as_unknown_and_suspect():
    front_end = FrontEnd(FrontEndSettings())
    for i, variance in enumerate(
        [(0, 0, 0), (1, 1, 1), (-1, 0, 0), (0, math.nan, 0), (0, 0, math.inf)]
    ):
        assert front_end.odometry(VehicleState(i * SECOND, PLACE, variance=variance), NOW) is None
    assert front_end.ledger.suspect["covariance"] == 3 and not +front_end.ledger.odometry_rejected


def test_variance_is_interpolated_if_both_ends_are_known():
    front_end = FrontEnd(FrontEndSettings(ping_noise=True))
    for i, z in enumerate((0.1, 0.3, 0.0, 0.2)):
        front_end.odometry(VehicleState(i * SECOND, PLACE, variance=(0, 0, z)), NOW)
    for t in (0.5, 1.0, 1.5, 2.5):
        front_end.ping(RawPing(round(t * SECOND), 8.0, 0.1, 100.0), NOW)
    found = front_end.take(NOW).noise_std
    np.testing.assert_allclose(found, np.sqrt([0.2, 0.3, math.nan, math.nan]))


def test_elevations_beyond_the_limit_are_refused():
    front_end = FrontEnd(FrontEndSettings())
    front_end.odometry(VehicleState(0, (0.0, 0.0, -1e300)), NOW)
    front_end.ping(RawPing(0, 8.0, 0.1, 100.0), NOW)
    assert len(front_end.take(NOW)) == 0 and front_end.ledger.rejected == {"wild_elevation": 1}


# --- The water level: which one is used, and for how long ---

RANGE = 30.0


def elevations(s):
    return [z for part in s.samples for z in part.z.tolist()]


def test_pings_are_refused_while_the_water_level_is_stale(survey):
    s = survey(front_end=FrontEndSettings(water_level=1.0, water_level_timeout=5.0))
    s.drive(2, RANGE)
    s.front_end.water_level(3.0, s.now)
    s.drive(50, RANGE)  # 5 s: just not too old
    s.drive(10, RANGE)
    assert s.session.ledger.rejected == {"water_level_stale": 10}
    s.front_end.water_level(-2.0, s.now)
    s.drive(3, RANGE)
    assert elevations(s) == [71.0] * 2 + [73.0] * 50 + [68.0] * 3
    received, *states = s.session.ledger.counts().values()
    assert received == sum(states) == 65


def test_a_level_on_the_topic_is_required_only_with_await_level(survey):
    s = survey(front_end=FrontEndSettings(water_level=1.0, water_level_timeout=5.0))
    s.drive(100, RANGE)
    assert elevations(s) == [71.0] * 100
    s = survey(front_end=FrontEndSettings(water_level=1.0, await_water_level=True))
    s.drive(10, RANGE)
    s.front_end.water_level(0.5, s.now)
    s.drive(10, RANGE)
    assert elevations(s) == [70.5] * 10 and s.session.ledger.rejected == {"water_level_stale": 10}


@pytest.mark.parametrize("level", [math.nan, math.inf, -math.inf, 1e5, -1e300])
def test_invalid_levels_are_counted_and_ignored(survey, level):
    s = survey()
    s.front_end.water_level(0.5, s.now)
    s.front_end.water_level(level, s.now)
    s.drive(2, RANGE)
    assert elevations(s) == [70.5] * 2 and s.session.ledger.suspect["water_level"] == 1


def test_after_time_was_set_back_a_new_level_is_required(survey):
    s = survey()
    s.wait(1000)
    s.front_end.water_level(0.5, s.now)
    s.drive(2, RANGE)
    s.now = Moment(SECOND, s.now.steady_s)
    s.front_end.clock_set_back()
    s.drive(2, RANGE)
    assert s.session.ledger.rejected["water_level_stale"] == 2
    s.front_end.water_level(0.25, s.now)
    s.drive(2, RANGE)
    assert elevations(s) == [70.5] * 2 + [70.25] * 2
