"""What is recorded of a simulated mission, and when the monitor ends. No ROS, no waiting."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs.folder import EPOCH_COLUMNS, read_table, write_map, write_samples
from poam_ros.outputs.recorder import (
    FILES_TIMEOUT_S,
    PENDING,
    SETTLING_S,
    MapReport,
    RunRecorder,
)

WORKSPACE = Extent(0, 10, 0, 10)
GRID = Grid.cells(WORKSPACE, 0.5)
SECOND = 1_000_000_000


class Log:
    """A logger that stores its messages."""

    def __init__(self):
        self.said = []
        for level in ("info", "warning", "error"):
            setattr(self, level, lambda text, level=level: self.said.append((level, text)))

    @property
    def errors(self):
        return [text for level, text in self.said if level == "error"]


class Time:
    """A clock that advances only when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


def truth():
    return np.add.outer(GRID.y, GRID.x)


def drawn(second, samples, error=0.0):
    return ElevationMap(
        GRID, truth() + error, np.full(GRID.shape, 4.0), samples=samples, stamp_ns=second * SECOND
    )


def report(second, samples, finished=False):
    return MapReport(second * SECOND, samples, 10.0, 16.0, 0.25, 0.5, finished)


def keep_results(folder):
    """Write the mapper's files, enough for the figures."""
    write_map(folder / "map.npz", drawn(9, 20))
    write_samples(folder / "samples.csv", np.ones((20, 2)), np.ones(20))


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def make(time, tmp_path):
    def start(path=tmp_path, linger=10.0, **options):
        recorder = RunRecorder(WORKSPACE, path, Log(), linger=linger, clock=time, **options)
        recorder.set_truth(GRID, truth())
        recorder.mission_began(5 * SECOND)
        return recorder

    return start


def hear(recorder, *, finished=True):
    """A mission of two maps; its results are kept where ``finished``."""
    for second, samples in ((7, 10), (9, 20)):
        recorder.add_map(drawn(second, samples))
        recorder.add_report(report(second, samples))
    recorder.set_state("done")
    if finished:
        recorder.add_report(report(9, 20, finished=True))


def epochs(folder):
    return read_table(folder / "epochs.csv")["samples"].tolist()


def test_files_are_written_as_they_become_known(make, time, tmp_path):
    recorder = make()
    recorder.add_config("planner", {"max_samples": 20})
    recorder.poll()
    assert list(tmp_path.iterdir()) == []  # a pilot survey alone replaces no earlier run
    hear(recorder, finished=False)
    recorder.poll()
    table = read_table(tmp_path / "epochs.csv")
    assert tuple(table) == EPOCH_COLUMNS
    assert table["samples"].tolist() == [10, 20] and table["time_s"].tolist() == [2, 4]
    assert "max_samples: 20" in (tmp_path / "config.yaml").read_text()
    recorder.mission_began(4 * SECOND)  # heard late
    recorder.add_config("mapper", {"method": "poam"})
    recorder.poll()
    assert read_table(tmp_path / "epochs.csv")["time_s"].tolist() == [3, 5]
    assert "method: poam" in (tmp_path / "config.yaml").read_text()
    assert not recorder.succeeded


def test_figures_are_drawn_at_the_end_if_there_is_a_new_map(make, tmp_path):
    keep_results(tmp_path)  # of a run before
    recorder = make()
    hear(recorder, finished=False)
    recorder.poll()
    recorder.close()
    assert not (tmp_path / "maps.png").exists()
    assert any("wrote no map" in text for text in recorder.log.errors)
    keep_results(tmp_path)
    recorder.close()
    assert {"maps.png", "metrics.png", "truth.npz"} <= {p.name for p in tmp_path.iterdir()}


def test_it_ends_once_the_results_are_written_and_the_nodes_known(make, time, tmp_path):
    recorder = make(nodes=("mapper",), linger=10.0)
    hear(recorder, finished=False)
    time.now += 11
    recorder.poll()
    assert not recorder.over and not recorder.succeeded
    recorder.add_report(report(9, 20, finished=True))
    recorder.poll()
    assert not recorder.over
    recorder.add_config("mapper", {})
    recorder.poll()
    assert recorder.over and recorder.succeeded


@pytest.mark.parametrize(("linger", "after", "over"), [(10, 9.9, False), (10, 10, True),
                                                      (None, 1e6, False)])  # fmt: skip
def test_it_lingers_from_the_missions_end_on(make, time, linger, after, over):
    recorder = make(linger=linger)
    hear(recorder)
    time.now += after
    recorder.poll()
    assert recorder.succeeded and recorder.over == over


def test_the_last_map_may_come_after_its_report(make, time, tmp_path):
    recorder = make(linger=0.0)
    hear(recorder)
    for _ in range(2):
        recorder.add_report(report(11, 30))
        recorder.add_report(report(11, 30, finished=True))
        time.now += SETTLING_S / 2
        recorder.poll()
        assert recorder.over == (epochs(tmp_path) == [10, 20, 30])
        recorder.add_map(drawn(11, 30))
    assert recorder.over


def test_the_wait_for_maps_and_answers_is_limited(make, time, tmp_path):
    recorder = make(nodes=("mapper",), linger=0.0)
    hear(recorder)
    recorder.add_report(report(11, 30, finished=True))
    time.now += SETTLING_S
    recorder.poll()
    assert recorder.over and epochs(tmp_path) == [10, 20]
    assert "nodes: {}" in (tmp_path / "config.yaml").read_text()


def test_results_that_are_never_written_are_an_error(make, time):
    recorder = make(linger=0.0)
    hear(recorder, finished=False)
    time.now += FILES_TIMEOUT_S - 0.1
    recorder.poll()
    assert not recorder.over
    time.now += 0.1
    recorder.poll()
    assert recorder.over and not recorder.succeeded


def test_a_full_disk_is_an_error_said_once(make, tmp_path):
    recorder = make(linger=0.0)
    (tmp_path / "epochs.csv").mkdir()  # cannot be replaced by a file
    hear(recorder)
    for _ in range(3):
        recorder.poll()
    assert recorder.over and not recorder.succeeded
    (said,) = recorder.log.errors
    assert said.startswith(f"output: cannot write to {tmp_path}")


def test_an_earlier_missions_end_does_not_count(make):
    recorder = make(linger=0.0)
    recorder.add_report(report(3, 50, finished=True))
    hear(recorder, finished=False)
    recorder.poll()
    assert not recorder.over


def test_without_a_folder_epochs_are_enough(make):
    recorder = make(path=None)
    recorder.set_state("done")
    recorder.poll()
    assert not recorder.succeeded
    hear(recorder, finished=False)
    recorder.poll()
    assert recorder.succeeded


def test_maps_and_reports_may_arrive_in_any_order():
    log = RunRecorder(WORKSPACE, None, Log(), linger=None)
    log.add_report(report(2, 10))
    log.add_map(drawn(2, 10))
    assert log.epochs == []  # no truth yet
    log.set_truth(GRID, truth())
    assert [(e.samples, e.time_s) for e in log.epochs] == [(10, 0)]  # of no known begin
    log.mission_began(SECOND)  # which may be heard late
    log.add_map(drawn(4, 20, error=4.0))
    log.add_report(report(4, 20))
    log.add_map(drawn(4, 20))
    log.add_report(report(4, 20))  # latched ones come twice
    assert [(e.samples, e.time_s) for e in log.epochs] == [(10, 1), (20, 3)]
    first, second = log.epochs
    assert first.rmse == pytest.approx(0, abs=1e-9) and second.rmse == pytest.approx(4)
    # log N(10, 16) against log N(the truth, 4), averaged over the points
    points = Grid.nodes(WORKSPACE, 50, 50).points
    square = (GRID.interpolate(truth(), points) - 10) ** 2
    expected = np.mean(0.5 * np.log(4) - (0.5 * np.log(16) + 0.5 * square / 16))
    assert first.msll == pytest.approx(expected)
    assert (log.epochs[0].update_s, log.epochs[0].predict_s) == (0.25, 0.5)


def test_a_mission_may_begin_at_time_zero():
    """As a simulator's clock does."""
    log = RunRecorder(WORKSPACE, None, Log(), linger=None)
    log.set_truth(GRID, truth())
    log.mission_began(0)
    log.mission_began(SECOND)
    log.add_map(drawn(3, 10))
    log.add_report(report(3, 10))
    assert [epoch.time_s for epoch in log.epochs] == [3]


def test_an_invalid_variance_gives_a_row_of_nans():
    log = RunRecorder(WORKSPACE, None, Log(), linger=None)
    log.set_truth(GRID, truth())
    log.add_map(ElevationMap(GRID, truth(), np.zeros(GRID.shape), stamp_ns=SECOND))
    log.add_report(report(1, 10))
    assert np.isnan(log.epochs[0].smse) and log.epochs[0].samples == 10


def test_maps_without_a_report_are_dropped():
    log = RunRecorder(WORKSPACE, None, Log(), linger=None)
    log.set_truth(GRID, truth())
    for second in range(1, PENDING + 2):
        log.add_map(drawn(second, second))
    for second in (1, 2):
        log.add_report(report(second, second))
    assert [epoch.samples for epoch in log.epochs] == [2]
