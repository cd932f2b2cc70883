"""Missions in lock-step over a shoal, with and without ``min_depth``."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from toy import Toy, ToyOptions

from poam_ros.core.geometry import Extent
from poam_ros.models.mapper import ModelSettings
from poam_ros.models.registry import MODELS, ModelEntry
from poam_ros.planning.clearance import ClearanceSettings
from poam_ros.simulation.lockstep import LockstepMission
from poam_ros.simulation.settings import MissionSettings
from poam_ros.simulation.world.simulator import SonarSettings
from poam_ros.simulation.world.terrain import Terrain

WORKSPACE, COUNT = Extent(-20, 20, -20, 20), 250


def shoal():
    """Bottom at -20 m with a cone in the middle, up to -1 m."""
    x, y = np.meshgrid(np.linspace(-21, 21, 85), np.linspace(-21, 21, 85))
    rise = np.maximum(19 - 0.8 * np.hypot(x, y), 0)
    return Terrain("shoal", rise - 20, Extent(-21, 21, -21, 21))


@pytest.mark.parametrize("policy", [pytest.param("paper", marks=pytest.mark.slow), "deployed"])
def test_a_mission_stays_in_deep_water(monkeypatch, policy):
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
    least = {}
    for needed in (0.0, 5.0):
        mission = LockstepMission(shoal(), MissionSettings(
            model=ModelSettings("toy", ToyOptions()), workspace=WORKSPACE, max_samples=COUNT,
            sonar=SonarSettings(rate=3.0, noise_std=0.1, clearance=1.0), planner="path-entropy",
            policy=policy, clearance=ClearanceSettings(min_depth=needed), pilot="diagonal",
        ))  # fmt: skip
        for _ in mission.epochs():
            pass
        assert len(mission.mapper.z) == COUNT
        least[needed] = mission.simulation.sonar_z - mission.mapper.z.max()
    assert least[0.0] < 2.5 < least[5.0]
