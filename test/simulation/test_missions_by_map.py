"""Missions in lock-step that go by their map: with a target, whose shares and distances are checked
on the files, and with ``min_depth``."""

import math
import re

import numpy as np
import pytest
import yaml
from toy import Toy, ToyOptions

from poam_ros.core.geometry import Extent, Grid, squared_distance_to
from poam_ros.mission.target import TargetSettings
from poam_ros.models.mapper import ModelSettings
from poam_ros.models.registry import MODELS, ModelEntry
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.planning.routes import ClearanceSettings
from poam_ros.planning.tvu import shares
from poam_ros.simulation.lockstep import LockstepMission, run_mission
from poam_ros.simulation.settings import MissionSettings
from poam_ros.simulation.world.simulator import SonarSettings
from poam_ros.simulation.world.terrain import Terrain, load_terrain

WORKSPACE = Extent(-20, 20, -15, 15)
PLACES = Grid.cells(WORKSPACE, 0.25).points


@pytest.fixture
def mission(monkeypatch, tmp_path):
    """`mission(target, **settings)`: the reason of its end, its pings and its map."""
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
    terrain = load_terrain("seamounts", elevation_range=(-22.0, -20.0))

    def run(target, **settings):
        settings = {"planner": "random", "pilot": "diagonal", "max_samples": 700, **settings}
        given = MissionSettings(
            model=ModelSettings("toy", ToyOptions()), sonar=SonarSettings(rate=1.0, noise_std=0.05),
            workspace=WORKSPACE, resolution=1.0, target=target, **settings,
        )  # fmt: skip
        ended = []
        run_mission(terrain, given, tmp_path, on_end=ended.append)
        table = read_table(tmp_path / "samples.csv")
        xy = np.column_stack((table["x"], table["y"]))
        return ended[0], xy, read_map(tmp_path / "map.npz")

    return run


def farthest(pings, places=PLACES):
    return math.sqrt(squared_distance_to(places, pings).max())


@pytest.mark.slow
def test_it_ends_once_the_share_is_reached_and_the_gaps_are_closed(mission, tmp_path):
    target = TargetSettings(tvu="1b", share=0.8, distance=7.0)
    reason, pings, drawn = mission(target, policy="deployed")
    assert len(pings) < 600 and farthest(pings) <= 7
    depth, deviation = -drawn.mean, np.sqrt(drawn.variance)
    assert shares(depth, deviation, ["1b"])["1b"] >= 0.8
    assert re.fullmatch(
        r"TVU within 1b in [\d.]+ % of the workspace; every place within 7 m of a ping", reason
    )
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert config["target"]["tvu"] == "1b" and config["water"]["level"] == 0.0


def test_a_target_that_is_never_met_changes_nothing(mission):
    """Assessing draws no random numbers and does not change the model."""
    _, plain, _ = mission(TargetSettings(), max_samples=80)
    reason, judged, _ = mission(TargetSettings(tvu="exclusive"), max_samples=80)
    np.testing.assert_array_equal(plain, judged)
    assert reason.startswith("max_samples of 80 reached; TVU within exclusive in 0.0 %")


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
            model=ModelSettings("toy", ToyOptions()), workspace=Extent(-20, 20, -20, 20),
            max_samples=250,
            sonar=SonarSettings(rate=3.0, noise_std=0.1, clearance=1.0), planner="path-entropy",
            policy=policy, clearance=ClearanceSettings(min_depth=needed), pilot="diagonal",
        ))  # fmt: skip
        for _ in mission.epochs():
            pass
        assert len(mission.mapper.z) == 250
        least[needed] = mission.simulation.sonar_z - mission.mapper.z.max()
    assert least[0.0] < 2.5 < least[5.0]
