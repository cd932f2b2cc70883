"""Tables of underwater vehicles: the ground lies at depth and altitude together, and a height of an
antenna does not count as an altitude."""

import numpy as np
import pytest

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

COUNT = 300
T = np.arange(COUNT)
LATITUDE, LONGITUDE = 47.6 + 1e-5 * T, -122.4 + 4e-5 * np.sin(T / 9)
GROUND = 20 + 3 * np.sin(T / 40)
SURE = ("depth", "dvl_altitude")
RNG = np.random.default_rng(5)
#: Depths of a vehicle that dives and rises, and of one that holds its depth.
DIVES, HOLDS = 8 + 4 * np.sin(T / 6), 10 + 0.02 * RNG.normal(size=COUNT)
#: Heights of a boat's antenna: drifting, noisy, and about 0.
ANTENNA = {
    "drift": 46.9 + 0.5 * np.sin(T / 50),
    "noise": 46.9 + RNG.normal(size=COUNT),
    "falls": 46.9 - 0.4 * GROUND,
    "constant": np.full(COUNT, 46.9),
}


def table(depth, altitude, names=("depth", "altitude")):
    rows = (
        f"{a:.7f},{b:.7f},{c:.2f},{d if isinstance(d, str) else format(d, '.2f')}"
        for a, b, c, d in zip(LATITUDE, LONGITUDE, depth, altitude, strict=True)
    )
    return "\n".join([f"latitude,longitude,{','.join(names)}", *rows]) + "\n"


@pytest.fixture
def read(write):
    def read(text, columns=None, **options):
        return read_soundings(write(text), ReadOptions(columns or {}, **options))

    return read


def check(found, ground=GROUND, atol=0.011):
    np.testing.assert_allclose(-found.z, ground[found.row], atol=atol)


@pytest.mark.parametrize(
    "names",
    [SURE, ("depth", "altitude_above_bottom"), ("Depth (m)", "DVL altitude (m)"),
     ("vehicle_depth", "altitude"), ("depth", "Height above seabed")],
)  # fmt: skip
def test_a_vehicles_altitude_is_understood_by_names_that_leave_no_doubt_and_said(names, read):
    for depth in (DIVES, HOLDS):
        found = read(table(depth, GROUND - depth, names))
        check(found)
        assert len(found) == COUNT
    assert f"ground = {names[0]} + {names[1]} (m)" in found.source["understood"]


def test_a_vehicle_at_one_depth_is_asked_about_and_both_answers_work(read):
    text = table(HOLDS, GROUND - HOLDS)
    with pytest.raises(Question, match=r"--columns depth=depth altitude=altitude; if.*depth=d"):
        read(text)
    check(read(text, {"depth": "depth", "altitude": "altitude"}))
    check(read(text, {"altitude": "altitude"}))
    check(read(text, {"depth": "depth"}), np.round(HOLDS, 2))


@pytest.mark.parametrize("above", ANTENNA)
def test_an_antennas_height_beside_depths_is_never_added(above, read):
    with pytest.raises(InputError, match="antenna's above the sea"):
        read(table(GROUND, ANTENNA[above]))
    for name in ("water_depth", "Sounding"):
        check(read(table(GROUND, ANTENNA[above], (name, "altitude"))))
    check(read(table(GROUND, ANTENNA[above], ("depth", "gps_altitude"))))


def test_heights_of_zero_and_the_grounds_own_height_are_no_altitudes(read):
    assert "altitude" not in read(table(GROUND, 0 * GROUND)).source["understood"]
    with pytest.raises(Question, match="If depth is that of the ground: --columns depth=depth"):
        read(table(GROUND, 46.9 - GROUND))
    with pytest.raises(InputError, match="may be a vehicle's"):
        read(table(GROUND, GROUND - 0.4, SURE))


def test_rows_without_an_altitude_are_refused_not_mapped_at_the_vehicle(read):
    altitude = np.array([f"{value:.2f}" for value in GROUND - DIVES], dtype=object)
    altitude[[3, 4, 50]], altitude[70:80], altitude[90:95] = ["", "nan", "0.00"], "-1", "999"
    found = read(table(DIVES, altitude, SURE))
    check(found)
    assert len(found) == COUNT - 18 and found.refused == {"no_reading": 18}


def test_units_elevations_and_sound_speed(read):
    feet = (GROUND - DIVES) / 0.3048
    check(read(table(DIVES, feet, ("Depth (m)", "DVL altitude (ft)"))), atol=0.02)
    found = read(table(-DIVES, GROUND - DIVES, ("z", "dvl_altitude")))
    check(found)
    assert "ground = z - dvl_altitude" in found.source["understood"]
    with pytest.raises(InputError, match="--columns z=depth altitude=altitude"):
        read(table(-DIVES, GROUND - DIVES))
    check(read(table(-DIVES, GROUND - DIVES), {"z": "depth", "altitude": "altitude"}))
    with pytest.raises(InputError, match="sound_speed"):
        read(table(DIVES, GROUND - DIVES, SURE), sound_scale=0.98)
