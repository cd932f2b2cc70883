"""What cannot be one survey is asked about."""

from contextlib import nullcontext

import numpy as np
import pytest

from poam_ros.core.geodesy import rough_metres
from poam_ros.importers.look import look, stray
from poam_ros.importers.options import Unclear
from poam_ros.importers.raw import RawSoundings

T = np.arange(600)
LANE, ALONG = np.divmod(T, 60)
XY = np.column_stack((np.where(LANE % 2, 59 - ALONG, ALONG) * 2.0, LANE * 8.0))
DEPTH = 6 + 2 * np.sin(XY[:, 0] / 30) + np.cos(XY[:, 1] / 25)


def test_a_sounder_that_loses_the_bottom_now_and_then_is_in_no_other_unit():
    lost = np.where(T % 20 < 3, 0.2 + 0.1 * (T % 4), DEPTH)
    look("log", XY, lost)
    # Always by the same factor, of no unit.
    look("log", XY, np.where(T % 20 < 13, 0.6, 10.9))
    with pytest.raises(Unclear, match="another unit"):
        look("log", XY, np.where(T % 40 < 20, DEPTH, 100 * DEPTH))


@pytest.mark.parametrize(
    ("xy", "depth", "asked"),
    [
        (XY, -DEPTH, "100 % of the soundings above the water"),
        (XY, 100 * DEPTH, "with slopes of"),
        (XY, np.where(T < 300, DEPTH, 100 * DEPTH), "from m to cm, .*, from about sounding 300 on"),
        (XY, np.where(XY[:, 0] < 30, 1, DEPTH) * np.where(T < 300, 1, 100), "from m to cm, "),
        (XY, np.where(T < 300, DEPTH, DEPTH / 0.3048), "from m to ft, .*: part of them may be in"),
        (XY * (1, 0), DEPTH, "without an area"),
        (XY, 0 * DEPTH + 4, "the same depth"),
        (XY, 48.1 + XY[:, 1] / 111_320, "the same depth, 48.1"),  # the latitude
        (XY + np.where(T % 2, 4e4, 0)[:, None], DEPTH, "groups of places"),
        (XY.round(-2), DEPTH, "600 soundings lie at 4 places, which may be rounded"),
    ],
)
def test_what_cannot_be_is_asked_about(xy, depth, asked):
    with pytest.raises(Unclear, match=asked):
        look("log", xy, depth, RawSoundings(xy, depth, degrees=False))


def test_no_boat_is_so_fast():
    """As of a clock of days, or of a longitude that is a speed."""
    for seconds, fast in ((0.1, False), (0.01, True)):
        raw = RawSoundings(XY, DEPTH, degrees=False, stamp_ns=round(1e9 * seconds) * (1 + T))
        with pytest.raises(Unclear, match="move at 200 m/s") if fast else nullcontext():
            look("log", XY, DEPTH, raw)


def test_times_that_go_to_and_fro_say_nothing_of_the_speed():
    place = np.array((58.2, 11.4)) + XY / 111_320
    to_and_fro, names = 10**9 * (5 + T % 2), {"columns": {"latitude": "a", "longitude": "b"}}
    raw = RawSoundings(place, DEPTH, degrees=True, stamp_ns=to_and_fro, source=names)
    with np.errstate(all="raise"):
        look("log", XY, DEPTH, raw)


@pytest.mark.parametrize("long", [1.0, 2000.0])
def test_degrees_of_few_decimals_are_asked_about(long):
    """Of a short survey, or beside degrees of more decimals, as where depths are longitudes."""
    place = np.array((8.2, 11.4)) + long * XY / 111_320
    place[:, 1] = place[:, 1].round(3)
    with pytest.raises(Unclear, match=r"places are rounded to 0\.001 degrees"):
        look("log", rough_metres(place), DEPTH, RawSoundings(place, DEPTH, degrees=True))


def test_a_few_soundings_of_another_place_are_named():
    few, far = stray(np.vstack((XY, XY[:12] + (0, 4000))))
    assert few.sum() == 12 and few[-12:].all() and 3900 < far < 4000
    assert stray(XY) is None and stray(np.vstack((XY, XY + (0, 4000)))) is None


@pytest.mark.parametrize("timed", [True, False])
def test_exchanged_columns_show_by_the_speed_along_each(timed):
    """As east and west at 58 N are shorter than north and south by half; depths and times fit."""
    leg = np.arange(60.0)
    east = np.concatenate([np.r_[leg, 0 * leg + 60, 60 - leg, 0 * leg] for _ in range(3)])
    north = np.concatenate([np.r_[0 * leg, leg, 0 * leg + 60, 60 - leg] + 9 * i for i in range(3)])
    place = np.column_stack((58.2 + north / 111_320, 11.4 + east / 111_320 / 0.527))
    stamp = (1_750_000_000 + np.arange(len(place))) * 10**9 if timed else None
    depth = 6 + 2 * np.sin(east / 20) + np.cos(north / 15)

    def look_at(place):
        names = {"latitude": "lat", "longitude": "lon"}
        raw = RawSoundings(place, depth, stamp_ns=stamp, source={"columns": names})
        look("log", rough_metres(place), depth, raw)

    look_at(place)
    with pytest.raises(Unclear, match="as where latitude and longitude are exchanged") as asked:
        look_at(place[:, ::-1])
    assert asked.value.answers[0].fields == {"columns": {"longitude": "lat", "latitude": "lon"}}
