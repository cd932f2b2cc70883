"""What cannot be one survey is asked about."""

import numpy as np
import pytest
from one_lake import options_of

from poam_ros.core.errors import Question
from poam_ros.importers.look import stray
from poam_ros.importers.options import ReadOptions
from poam_ros.importers.readers import read_soundings

T = np.arange(600)
LANE, ALONG = np.divmod(T, 60)
XY = np.column_stack((np.where(LANE % 2, 59 - ALONG, ALONG) * 2.0, LANE * 8.0))
DEPTH = 6 + 2 * np.sin(XY[:, 0] / 30) + np.cos(XY[:, 1] / 25)
LATITUDE, LONGITUDE = 58.2 + XY[:, 1] / 111_320, 11.4 + XY[:, 0] / 58_700


@pytest.fixture
def asked(write):
    """What is asked of columns of x and y, or of degrees, depths and times; empty: nothing."""

    def asked(header, *columns, **options):
        rows = (
            ",".join(map(str, row)) for row in zip(*map(np.ndarray.tolist, columns), strict=True)
        )
        path = write("\n".join([header, *rows]))
        try:
            read_soundings(path, ReadOptions(**options))
        except Question as question:
            for words in question.answers.values():
                read_soundings(path, options_of(words))
            return str(question)
        return ""

    return asked


@pytest.mark.parametrize(
    ("xy", "depth", "said"),
    [
        (XY, 100 * DEPTH, "with slopes of"),
        (XY * (1, 0), DEPTH, "without an area"),
        (XY, 0 * DEPTH + 4, "the same depth"),
        (XY, 48.1 + XY[:, 1] / 111_320, "the same depth, 48.1"),  # the latitude
        (XY + np.where(T % 2, 4e4, 0)[:, None], DEPTH, "groups of places"),
        (XY.round(-2), DEPTH, "600 soundings lie at 4 places, which may be rounded"),
        # Also beside false echoes, which alone are none, even if many are at the begin.
        (
            XY,
            np.where(T < 300, 1, 100) * DEPTH / np.where(T % 50 - 9, 1, 50),
            "another unit from sounding 301 on",
        ),
        (XY, np.where(T < 20, 20, 1) * DEPTH, ""),
        # A sounder that loses the bottom.
        (XY, np.where(T % 20 < 3, 0.2 + 0.1 * (T % 4), DEPTH), ""),
    ],
)
def test_what_cannot_be_is_asked_about(xy, depth, said, asked):
    found = asked("x,y,depth", *(1000 + xy).T, depth)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(("seconds", "fast"), [(0.1, ""), (0.01, "move at 200 m/s")])
def test_no_boat_is_so_fast(seconds, fast, asked):
    """As of a clock of days, or of a longitude that is a speed."""
    assert fast in (found := asked("x,y,depth,t", *XY.T, DEPTH, seconds * T, columns={"time": "t"}))
    assert bool(fast) == bool(found)


@pytest.mark.filterwarnings("error")
def test_times_that_go_to_and_fro_say_nothing_of_the_speed(asked):
    assert not asked(
        "lat,lon,depth,t", LATITUDE, LONGITUDE, DEPTH, 5 + T % 2, columns={"time": "t"}
    )


@pytest.mark.parametrize("long", [1.0, 2000.0])
def test_degrees_of_few_decimals_are_asked_about(long, asked):
    """Of a short survey, or beside degrees of more decimals, as where depths are longitudes."""
    place = np.array((8.2, 11.4)) + long * XY / 111_320
    found = asked("lat,lon,depth", place[:, 0], place[:, 1].round(3), DEPTH)
    assert "places are rounded to 0.001 degrees" in found


def test_a_few_soundings_of_another_place_are_named():
    few, far = stray(np.vstack((XY, XY[:12] + (0, 4000))))
    assert few.sum() == 12 and few[-12:].all() and 3900 < far < 4000
    assert stray(XY) is None and stray(np.vstack((XY, XY + (0, 4000)))) is None


@pytest.mark.parametrize("timed", [True, False])
def test_exchanged_columns_show_by_the_speed_along_each(timed, asked):
    """As east and west at 58 N are shorter than north and south by half; depths and times fit."""
    leg = np.arange(60.0)
    east = np.concatenate([np.r_[leg, 0 * leg + 60, 60 - leg, 0 * leg] for _ in range(3)])
    north = np.concatenate([np.r_[0 * leg, leg, 0 * leg + 60, 60 - leg] + 9 * i for i in range(3)])
    degrees = 58.2 + north / 111_320, 11.4 + east / 111_320 / 0.527
    more = [6 + 2 * np.sin(east / 20) + np.cos(north / 15), 1_750_000_000 + np.arange(len(east))]
    header = "lat,lon,depth" + ",time" * timed
    assert not asked(header, *degrees, *more[: 1 + timed])
    found = asked(header, *degrees[::-1], *more[: 1 + timed])
    assert "as where latitude and longitude are exchanged" in found
    assert "If they are swapped: --columns longitude=lat latitude=lon" in found
