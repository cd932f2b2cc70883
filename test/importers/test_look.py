"""What cannot be one survey is asked about."""

import numpy as np
import pytest

from poam_ros.importers.look import look, stray
from poam_ros.importers.questions import Unclear

T = np.arange(600)
LANE, ALONG = np.divmod(T, 60)
XY = np.column_stack((np.where(LANE % 2, 59 - ALONG, ALONG) * 2.0, LANE * 8.0))
DEPTH = 6 + 2 * np.sin(XY[:, 0] / 30) + np.cos(XY[:, 1] / 25)


def test_a_survey_raises_no_question():
    look("log", XY, DEPTH)


def test_a_sounder_that_loses_the_bottom_now_and_then_is_in_no_other_unit():
    lost = np.where(T % 20 < 3, 0.2 + 0.1 * (T % 4), DEPTH)
    look("log", XY, lost)
    look("log", XY, np.where(T % 20 < 13, 0.6, 10.9))  # always by the same factor, of no unit
    with pytest.raises(Unclear, match="two groups"):
        look("log", XY, np.where(T % 40 < 20, DEPTH, 100 * DEPTH))


@pytest.mark.parametrize(
    ("xy", "depth", "asked"),
    [
        (XY, -DEPTH, "100 % of the soundings above the water"),
        (XY, 100 * DEPTH, "with slopes of"),
        (XY, 1e4 * DEPTH, "deeper than any sea"),
        (XY, np.where(T < 300, DEPTH, 100 * DEPTH), "two groups"),
        (XY * (1, 0), DEPTH, "without an area"),
        (XY, 0 * DEPTH + 4, "the same depth"),
        (XY, 48.1 + XY[:, 1] / 111_320, "the same depth, 48.1"),  # the latitude
        (XY + np.where(T % 2, 4e4, 0)[:, None], DEPTH, "groups of places"),
        (XY.round(-4), DEPTH, "at 1 places"),
        (XY + np.where(T % 9 == 0, 3000, 0)[:, None], DEPTH, "leap by"),
    ],
)
def test_what_cannot_be_is_asked_about(xy, depth, asked):
    with pytest.raises(Unclear, match=asked):
        look("log", xy, depth)


def test_a_few_soundings_of_another_place_are_named():
    few, far = stray(np.vstack((XY, XY[:12] + (0, 4000))))
    assert few.sum() == 12 and few[-12:].all() and 3900 < far < 4000
    assert stray(XY) is None and stray(np.vstack((XY, XY + (0, 4000)))) is None
