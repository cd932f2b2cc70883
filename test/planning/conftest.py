"""Workspaces of several shapes, and maps, for tests of pilots and planners."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent
from poam_ros.core.maps import Predicted

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


class View:
    """A map of this variance, which keeps what it was asked and what it answered."""

    def __init__(self, variance_of):
        self.variance_of = variance_of

    def predict(self, xy):
        self.points = xy.copy()
        self.variance = self.variance_of(xy)
        return Predicted(np.zeros(len(xy)), self.variance)
