"""A mission's own log, mapped again: as it was, or by what is known today."""

from dataclasses import replace

import numpy as np
import pytest
from kept import Kept, settings

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.importers.journals import soundings_of_mission
from poam_ros.journal.folder import read_mission
from poam_ros.journal.tables import UPDATE
from poam_ros.mapping.drawing import predict
from poam_ros.mapping.sounding_map import learn
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.screening import ScreeningSettings

AT = np.random.default_rng(0).uniform(-30, 30, (200, 2))


class Mission:
    """A folder, the map that its mapper had at the end, and its workspace and model."""

    def __init__(self, folder, **changed):
        kept = Kept(folder, **changed).mapped(steps=3)
        self.folder, self.lived, self.samples = folder, kept.map, kept.session.all_samples()
        kept.close()
        values = settings(folder, **changed)
        self.workspace = Extent.of(values["workspace"])
        screening = ScreeningSettings(enabled=False)
        self.how = SoundingMapSettings(model=ModelSettings.of(values), screening=screening)

    def map(self, soundings):
        found = predict(learn(soundings, self.workspace, self.how)[0], AT)
        return np.stack((found.mean, found.variance))


@pytest.fixture(scope="module")
def mission(tmp_path_factory):
    return Mission(tmp_path_factory.mktemp("mission") / "m")


@pytest.fixture(scope="module")
def past(mission):
    return read_mission(mission.folder)


def test_the_log_alone_gives_the_same_map(mission, past):
    soundings = soundings_of_mission(past)
    kinds = [step.kind for step in soundings.steps]
    assert kinds.count(UPDATE) == 4
    np.testing.assert_array_equal(soundings.z, mission.samples.z)
    np.testing.assert_allclose(mission.map(soundings), mission.lived, rtol=0, atol=1e-9)
    # Without what the log says of the training it would be another.
    other = mission.map(replace(soundings, steps=None))
    assert np.abs(other - mission.lived).max() > 1e-3


def test_refused_pings_of_the_log_come_with_it(past):
    """Whose elevations nobody can correct."""
    known = RefusedPings.none().more("paused", np.array([7]), np.array([[1.0, 2.0, -3.0]]))
    refusing = replace(past, logged=replace(past.logged, refused=known))
    (own,) = soundings_of_mission(refusing).left_out
    assert (own.reason, own.stamp_ns.tolist(), own.xyz.tolist()) == ("paused", [7], [[1, 2, -3]])
    (other,) = soundings_of_mission(refusing, water_level=1.0).left_out
    assert other.xyz[0, :2].tolist() == [1, 2] and np.isnan(other.xyz[0, 2])


def test_water_and_sound_are_applied_anew(mission, past):
    higher = soundings_of_mission(past, water_level=2.0)
    np.testing.assert_allclose(higher.z, mission.samples.z + 2)
    moved = mission.map(higher) - mission.lived
    np.testing.assert_allclose(moved[0], 2.0, atol=1e-6)  # each step done again, on other heights
    np.testing.assert_allclose(moved[1], 0.0, atol=1e-6)
    slower = soundings_of_mission(past, sound_speed=1470.0)
    np.testing.assert_allclose(slower.z, mission.samples.z + 0.02 * mission.samples.range)
    unknown = replace(past.logged.samples, range=np.full(len(higher), np.nan))
    older = replace(past, logged=replace(past.logged, samples=unknown))
    with pytest.raises(InputError, match="cannot be corrected: ranges or corrections"):
        soundings_of_mission(older, sound_speed=1470.0)


def test_a_part_is_learned_anew_in_the_mission_s_batches(mission, past):
    soundings = soundings_of_mission(past)
    first = int(soundings.stamp_ns.min())
    part = soundings.between(0.0, (int(soundings.stamp_ns[-1]) - first) / 1e9 - 1.0)
    assert part.steps is None and len(part) == len(soundings) - 10
    assert [b.stop for b in part.batches(mission.how)] == [40, 60, 81, 93]
    assert mission.map(part).shape == (2, 200)


def test_pings_that_waited_when_it_was_cut_off_are_a_last_batch(tmp_path):
    kept = Kept(tmp_path / "m").mapped(steps=0)
    kept.drive(7)
    kept.close()
    soundings = soundings_of_mission(read_mission(tmp_path / "m"))
    how = SoundingMapSettings(model=ModelSettings.of(settings("")))
    mapper, *_ = learn(soundings, Extent.of(settings("")["workspace"]), how)
    assert mapper.samples == 47


@pytest.mark.usefixtures("no_figures")
def test_a_mission_s_folder_on_the_command_line(mission, tmp_path, capsys):
    """Model, workspace and cell size are the mission's; what is said anew makes another map."""
    log, out = str(mission.folder), tmp_path / "out"
    assert main(["map", log, "--output", str(out)]) == 0
    said = capsys.readouterr().out
    assert ": 103 accepted pings, " in said and "103 soundings in the map" in said
    drawn = read_map(out / "map.npz")
    assert drawn.grid.x[1] - drawn.grid.x[0] == 6.0
    assert drawn.grid.borders.bounds == pytest.approx(mission.workspace.bounds, abs=6.0)
    z = read_table(out / "samples.csv", ("z",))["z"]
    np.testing.assert_allclose(z, mission.samples.z, rtol=0, atol=5e-4)
    level = ["--water-level", "1", "--output", str(out)]
    assert main(["map", log, *level]) == 0
    np.testing.assert_allclose(read_map(out / "map.npz").mean, drawn.mean + 1, atol=1e-6)
    lines = ["--set", "nngp.first_steps=25", "--by", "line", "--hold-out", "0.2"]
    assert main(["map", log, *lines, *level]) == 0
    said = capsys.readouterr().out
    assert "so these results are too good" not in said and "lines found in the track" in said
    for options, words in (
        (["--set", "sonar.tilt=0.1 0"], "sonar.tilt: does not apply to a folder of a mission"),
        (["--by", "leg", "--folds", "2"], "--by: expected line (lines found in the track), as "),
        (["--margin", "5"], "--margin: not allowed with a mission"),
    ):
        assert main(["map", log, *options]) == 2
        assert words in capsys.readouterr().err
