"""The mission store: what a planner saves, and what a restart recovers."""

import json
import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.files import read_json
from poam_ros.core.geometry import Extent
from poam_ros.frontend.pings import RawPing
from poam_ros.mission.guidance import COUNT_S, TRACK_S, MissionStore, MissionStoreSettings
from poam_ros.mission.mission import Mission
from poam_ros.planning.routes import ClearanceSettings

WORKSPACE = Extent(0, 60, 0, 60)
PILOT = np.array([[10.0, 10.0], [50.0, 10.0], [50.0, 50.0]])


def mission(**options):
    options.setdefault("max_samples", 100)
    return Mission(PILOT, WORKSPACE, **options)


@pytest.fixture
def memory(tmp_path):
    """`memory(resume_after_restart=False)`: a store of the folder, closed at the end."""
    opened = []

    def make(folder=tmp_path, **settings):
        opened.append(MissionStore(MissionStoreSettings(str(folder), **settings)))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def under_way(memory, **options):
    """A mission that has reached the first waypoint, and what keeps it."""
    kept, m = memory(), mission(**options)
    assert kept.restore(m) == ""
    for t, x in enumerate(np.arange(0.0, 12.0, 0.5)):
        m.update_position(np.array([min(x, 10.0), 10.0]), float(t))
        kept.save(m, float(t))
    m.count_samples(37)
    kept.save(m, 1000.0)
    kept.close()
    return m


def test_the_random_generator_is_restored(memory, tmp_path):
    draws = np.random.default_rng(3)
    kept = MissionStore(MissionStoreSettings(str(tmp_path)), draws)
    kept.save(mission(), 0.0)
    draws.random(7)
    kept.save(mission(), 1.0)
    kept.close()
    again = np.random.default_rng(3)
    kept = MissionStore(MissionStoreSettings(str(tmp_path)), again)
    kept.restore(mission())
    kept.close()
    assert again.random() == draws.random()
    file = tmp_path / "mission.json"
    content = json.loads(file.read_text())
    del content["checksum"]
    content["draws"]["state"]["state"] = -1
    file.write_text(json.dumps(content))
    kept = MissionStore(MissionStoreSettings(str(tmp_path)), again)
    with pytest.raises(InputError, match="expected a mission"):
        kept.restore(mission())
    kept.close()
    del content["draws"]  # as the version before wrote it
    file.write_text(json.dumps(content))
    memory().restore(mission())


def test_limits_continue_by_the_steady_clock_until_the_machine_is_started_again(
    tmp_path, monkeypatch
):
    def read(ahead_s):
        kept = MissionStore(MissionStoreSettings(str(tmp_path)), None, ahead_s)
        kept.restore(m := mission())
        kept.save(m, math.inf)
        kept.close()
        return kept.ahead_s

    assert read(4930.0) == 4930.0
    assert read(8510.0) == 4930.0, "the system clock was set forward in between"
    monkeypatch.setattr("poam_ros.mission.guidance._boot", lambda: "another")
    assert read(8690.0) == 8690.0
    monkeypatch.setattr("poam_ros.mission.guidance._boot", lambda: "")  # unknown
    assert read(8790.0) == 8790.0 and read(8780.0) == 8780.0


def test_a_disk_that_fails_is_tried_again_until_all_is_written(memory, tmp_path, monkeypatch):
    from poam_ros.mission import guidance

    kept, m = memory(), mission()
    m.update_position(np.array([0.0, 10.0]), 0.0)
    kept.save(m, 0.0)
    m.update_position(np.array([5.0, 10.0]), 5.0)
    tried, write = [], guidance.write_json

    def full(path, values):
        tried.append(path.name)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(guidance, "write_json", full)
    for tenth in range(100):
        kept.save(m, TRACK_S + tenth / 10)
        assert "No space left on device" in kept.failing, "the track is not written"
    assert tried == ["track.json"] * 2, "it waits between two tries"
    m.pause("to look at it")
    kept.save(m, TRACK_S + 11.0)
    assert tried[2:] == ["mission.json"]
    monkeypatch.setattr(guidance, "write_json", write)
    kept.save(m, math.inf)  # at the end it does not wait
    assert not kept.failing
    assert read_json(tmp_path / "mission.json", "a mission")["status"]["causes"] == [
        ["operator", "to look at it"]
    ]
    assert read_json(tmp_path / "track.json", "a track")["length"] == 5.0


def test_the_number_of_samples_alone_is_saved_every_second(memory, tmp_path):
    kept, m = memory(), mission()
    m.update_position(np.array([0.0, 10.0]), 0.0)

    def saved(at, samples):
        m.count_samples(samples)
        kept.save(m, at)
        values = read_json(tmp_path / "mission.json", "a mission")
        return values["samples"], values["status"]["state"]

    assert saved(10.0, 1) == (1, "pilot")
    assert saved(10.0 + COUNT_S / 2, 2) == (1, "pilot"), "each write waits for the disk"
    assert saved(10.0 + COUNT_S, 3) == (3, "pilot")
    m.pause("to look at it")
    assert saved(10.0 + COUNT_S, 4) == (4, "paused")
    assert saved(math.inf, 5) == (5, "paused")


def test_a_shallow_reading_guards_its_place_after_a_restart(memory):
    """Until another pass finds more water, whatever its verdict in the map is."""
    needed, place = ClearanceSettings(min_depth=2.0), np.array([30.0, 30.0])

    def passes(m, depth):
        for k in range(-12, 13):
            m.update_position(place + (0.5 * k, 0.0), float(k))
            m.sounded(RawPing(k, depth if abs(k) < 3 else 10.0, 0.3, 100.0))

    kept, m = memory(), mission(clearance=needed)
    passes(m, 0.5)
    kept.save(m, 0.0)
    kept.close()
    kept, m = memory(), mission(clearance=needed)
    kept.restore(m)
    assert not m.deep.deep_enough(place[None])[0] and m.deep.deep_enough(place[None] + 9.0)[0]
    passes(m, 10.0)
    assert m.deep.deep_enough(place[None])[0]
    kept.save(m, 0.0)
    kept.close()
    kept, m = memory(), mission(clearance=needed)
    kept.restore(m)
    assert m.deep.deep_enough(place[None])[0]


def test_goals_are_saved_at_once_and_the_track_every_few_seconds(memory, tmp_path):
    kept, m = memory(), mission()
    m.update_position(np.array([0.0, 10.0]), 0.0)
    kept.save(m, 0.0)
    expected = {"schema": 1, **m.to_dict()}
    assert read_json(tmp_path / "mission.json", "a mission") == expected
    m.update_position(np.array([5.0, 10.0]), 1.0)
    kept.save(m, 1.0)
    first = (tmp_path / "track.json").read_text()
    m.update_position(np.array([7.0, 10.0]), 2.0)
    kept.save(m, 1.0 + TRACK_S / 2)
    assert (tmp_path / "track.json").read_text() == first
    kept.save(m, 1.0 + TRACK_S)
    assert len(json.loads((tmp_path / "track.json").read_text())["newest"]) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "mission.json", "planner.lock", "track.json",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"schema": 9}', '{"schema": 1}'])
def test_a_foreign_file_is_refused_and_left_unchanged(memory, tmp_path, text):
    (tmp_path / "mission.json").write_text(text)
    with pytest.raises(InputError, match="expected a mission of this package"):
        memory().restore(mission())
    assert (tmp_path / "mission.json").read_text() == text


def test_a_mission_of_another_workspace_is_refused(memory):
    under_way(memory)
    with pytest.raises(InputError, match=r"workspace .* not \[0"):
        memory().restore(Mission(PILOT, Extent(0, 9, 0, 9)))


def test_one_planner_at_a_time(memory):
    memory()
    with pytest.raises(InputError, match="in use by another planner"):
        memory()
