"""Workspaces of several shapes, for tests of pilots and planners."""

import pytest

from poam_ros.core.geometry import Extent

SHAPES = {
    "square": Extent(-30, 30, -30, 30),
    "wide": Extent(100, 500, -20, 20),
    "tall": Extent(-3, 4, 1000, 1900),
    "small": Extent(0.1, 0.4, -0.7, -0.2),
    "projected": Extent(437_100.5, 437_160.5, 3_745_900.25, 3_745_960.25),
}


@pytest.fixture(params=SHAPES)
def workspace(request):
    return SHAPES[request.param]
