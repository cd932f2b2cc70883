"""A mission folder that is continued: the same frame, every ping, paused until a person resumes."""

import sys
import time

import pytest

from poam_ros.app.commands.drive import progress
from poam_ros.core import geodesy
from poam_ros.core.errors import InputError
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import read_mission
from poam_ros.mavlink.drive import Drive


def stored(voyage):
    """Whether every placed ping is in the journal."""
    session = voyage.drive.session
    if session.journal.unstored_count:
        time.sleep(0.01)  # its thread takes real time
    return session.journal.unstored_count == 0 and not session.ledger.pending


def test_a_mission_goes_on_after_a_restart(voyage, tmp_path):
    values = {"mission_dir": str(tmp_path / "m")}
    v = voyage(values).explore().run(5)
    v.until(lambda: stored(v))
    before, place = v.drive.session.samples, v.drive.values["origin"]
    v.close()
    # It begins again elsewhere: the frame is that of the log.
    again = voyage(values, {"home": (47.30005, 8.5501)}, begun_s=500.0)
    again.boat.mode, again.boat.armed = "GUIDED", True
    again.until(lambda: again.state == "paused", 20).run(3)
    assert again.drive.values["origin"] == place == (47.3, 8.55)
    assert again.drive.session.samples == before and "restarted" in again.mission.reason
    assert not again.boat.targets  # only a person resumes
    again.resume()
    assert again.state == "exploring"
    again.until(lambda: again.drive.session.samples > before + 20, 120)
    again.until(lambda: stored(again))
    count = again.drive.session.samples
    again.close()
    log = read_mission(tmp_path / "m")
    assert len(log.logged.samples) == count and tuple(log.mapper["origin"]) == place


def test_resuming_after_a_restart_waits_for_guided(voyage, tmp_path):
    values = {"mission_dir": str(tmp_path / "m")}
    v = voyage(values).explore()
    v.close()
    again = voyage({**values, "watchdog.resume_after_restart": True}, begun_s=500.0)
    again.until(lambda: again.state == "paused", 20).run(3)
    again.boat.mode, again.boat.armed = "GUIDED", True
    again.until(lambda: again.state == "exploring", 5)
    again.boat.mode = "MANUAL"
    again.run(3)
    again.boat.mode = "GUIDED"
    assert again.run(10).state == "paused"  # once, and never after a take-over


def test_a_finished_mission_waits_for_another_start(voyage, tmp_path):
    values = {"mission_dir": str(tmp_path / "m"), "max_samples": 40}
    v = voyage(values).start()
    v.until(lambda: v.drive.finished, 200).close()
    again = voyage(values, begun_s=500.0)
    again.boat.mode, again.boat.armed = "GUIDED", True
    again.until(lambda: again.state == "done", 20).run(5)
    assert not again.drive.finished and again.drive.origin_fault == ""
    assert any("s starts another one in the same map" in text for text in again.said)
    first = again.session.samples
    again.drive.command("start")
    again.run(1)
    assert again.state == "pilot"
    again.until(lambda: again.drive.finished, 200)  # the samples of the first one do not count
    mapped, shown = again.session.samples, progress(again.drive, again.now)
    assert (shown.samples, shown.max_samples) == (mapped - first, 40) and mapped >= first + 40
    assert any(" in the map): max_samples of 40 reached" in text for text in again.said)


def test_another_origin_is_refused(voyage, tmp_path):
    values = {"mission_dir": str(tmp_path / "m")}
    voyage(values).until(lambda: (tmp_path / "m" / "config.yaml").exists(), 20).close()
    with pytest.raises(InputError, match="expected the same or none"):
        voyage({**values, "origin": (47.0, 8.0)})


def test_a_folder_of_a_mission_without_degrees_is_refused(voyage, tmp_path, survey):
    from poam_ros.journal.folder import MissionFolder

    MissionFolder(tmp_path, {"method": "nngp", "workspace": [0, 1, 0, 1]}, {"seed": 0}).close()
    with pytest.raises(InputError, match="without an origin in degrees"):
        voyage({"mission_dir": str(tmp_path)})


def test_without_pyproj_no_mission_is_opened(voyage, monkeypatch):
    """It is said before the boat drives, not at its first position."""
    sailed = voyage()
    geodesy._transformer.cache_clear()
    monkeypatch.setitem(sys.modules, "pyproj", None)
    with pytest.raises(InputError, match="pyproj"):
        Drive(sailed.values, sailed.drive.link, sailed.said.append, False)
    monkeypatch.undo()


def test_at_its_end_the_boat_holds_station(voyage):
    """Also a process that is ended on a leg."""
    v = voyage().explore().run(2)
    place = v.mission.position
    assert progress(v.drive, v.now).problems["control"] == "the mission drives the vehicle"
    v.drive.close(v.now)
    assert v.said[-1] == (
        "the vehicle was sent to where it is, to hold station; nothing more is sent"
    )
    control = progress(v.drive, v.now).problems["control"]
    assert control == "the vehicle holds station for the mission"
    for _ in range(50):
        v.boat.step()
    assert abs(v.boat.position - place).max() < 3
    v.boat.close()
    v.closed = True


def test_autostart_waits_for_a_position_that_can_be_used(voyage):
    v = voyage({"autostart": True})
    v.until(lambda: v.state == "waiting", 20)
    v.boat.muted.add("ATTITUDE")
    v.run(2)
    v.boat.mode, v.boat.armed = "GUIDED", True
    v.run(3)
    assert v.state == "waiting" and not v.boat.targets
    v.boat.muted.clear()
    v.until(lambda: v.state == "pilot", 5)


def test_a_mission_that_a_person_paused_is_not_resumed_after_a_restart(voyage, tmp_path):
    values = {"mission_dir": str(tmp_path / "m"), "watchdog.resume_after_restart": True}
    voyage(values).explore().close()
    again = voyage(values, begun_s=500.0)
    again.until(lambda: again.state == "paused", 20)
    again.drive.command("pause")
    again.run(1)
    again.boat.mode, again.boat.armed = "GUIDED", True
    assert again.run(5).state == "paused"


def test_a_full_disk_at_the_end_is_a_warning_and_results_follow(voyage, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    v = voyage({"mission_dir": str(tmp_path / "m"), "max_samples": 40}).start()
    v.until(lambda: v.state == "pilot", 200)
    monkeypatch.setattr(JournalDatabase, "append", full)
    with monkeypatch.context() as disk:
        disk.setattr("poam_ros.outputs.run.write_results", full)
        v.until(lambda: v.drive.finished, 200)
    assert not (tmp_path / "m" / "map.npz").exists()
    v.close()  # by then there is room for the results
    assert (tmp_path / "m" / "map.npz").exists()
    assert any("warning: cannot write to" in said and "No space" in said for said in v.said)
    assert any("warning: the journal lacks" in said and "No space" in said for said in v.said)
    assert v.drive.incomplete, "its command ends with 1"
