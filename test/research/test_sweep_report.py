"""A sweep's report, made from CSV files alone, and what it says of broken ones."""

import csv
import shutil
from dataclasses import replace

import numpy as np
import pytest
from sweep_folders import made_run, write_sweep

pytest.importorskip("matplotlib", reason="a report has figures")

from matplotlib.image import imread

from poam_ros.core.errors import InputError
from poam_ros.outputs.folder import read_map, write_map
from poam_ros.research.comparison import read_comparisons
from poam_ros.research.report import draw_lengthscales, write_report

STEMS = ("curves", "maps", "lengthscales")
STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF"}


def run(environment, method, seed, samples=(600, 1000, 3000, 5000), **other):
    level = 0.1 * (1 + seed) + (0.1 if method == "ovc" else 0)
    return made_run(environment, method, seed, level, samples, **other)


def names(suffix=""):
    return {
        f"table{suffix}.md",
        *(f"{stem}{suffix}{ending}" for stem in STEMS for ending in STARTS),
    }


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    runs = [run("bay", m, seed) for m in ("ovc", "poam:rbf") for seed in (0, 1)]
    return write_sweep(folder, [*runs, run("fjord $_1", "poam:rbf", 1, shift=9.0)])


@pytest.fixture
def copy(sweep, tmp_path):
    return shutil.copytree(sweep, tmp_path / "copy")


@pytest.fixture(scope="module")
def report(sweep):
    return write_report(sweep)


def test_report_is_written(sweep, report):
    assert {path.name for path in report} == {"averages.csv", *names()}
    assert {path.name for path in (sweep / "report").iterdir()} == {path.name for path in report}
    for path in report:
        assert path.parent == sweep / "report"
        assert path.read_bytes().startswith(STARTS.get(path.suffix, b""))


@pytest.mark.parametrize("stem", STEMS)
def test_every_environment_has_a_column_of_its_own_that_is_drawn_in(sweep, report, stem):
    pixels = imread(sweep / "report" / f"{stem}.png")[..., :3]
    for half in np.array_split(pixels, 2, axis=1):
        # What is drawn is coloured; frames and words are grey.
        assert (np.ptp(half, axis=2) > 0.2).mean() > 0.003


def test_tables_have_the_numbers_of_the_runs(sweep, report):
    with (sweep / "report" / "averages.csv").open(newline="") as file:
        rows = {(r["environment"], r["method"], r["metric"]): r for r in csv.DictReader(file)}
    ovc, single = rows["bay", "ovc", "smse"], rows["fjord $_1", "poam:rbf", "msll"]
    assert float(ovc["mean"]) == pytest.approx(0.25)
    assert float(ovc["std"]) == pytest.approx(0.1 / 2**0.5)
    assert ovc["seeds"] == "2"
    assert (float(single["mean"]), single["std"]) == (pytest.approx(-1.8), "")
    text = (sweep / "report" / "table.md").read_text()
    assert text.count("| fjord $_1 | POAM (RBF) |") == 1
    assert "| bay | OVC | 0.250(0.071) |" in text
    assert "|  | POAM (RBF) | **0.150(0.071)** |" in text


def test_every_method_is_drawn_from_the_first_common_seed(sweep):
    (comparison,) = read_comparisons(sweep)
    assert [r.seed for r in comparison.shown("bay").values()] == [0, 0]
    assert [r.seed for r in comparison.shown("fjord $_1").values()] == [1]


@pytest.mark.slow
def test_each_pilot_and_planner_has_files_of_its_own(tmp_path):
    runs = [run("bay", "poam", 0), run("bay", "poam", 0, pilot="random", planner="mine:NEAR")]
    write_sweep(tmp_path, runs)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "table.md").write_text("of an earlier sweep")
    (tmp_path / "report" / "remarks.md").write_text("my own")
    written = {path.name for path in write_report(tmp_path)}
    assert written == {"averages.csv", *names("-bezier-max-entropy"), *names("-random-mine-NEAR")}
    assert {p.name for p in (tmp_path / "report").iterdir()} == {*written, "remarks.md"}
    assert "mine:NEAR" in (tmp_path / "report" / "averages.csv").read_text()


def test_a_model_without_a_lengthscale_has_a_panel_that_says_so(tmp_path):
    runs = [run("bay", "poam", 0), run("bay", "mine:IDW", 0)]
    write_sweep(tmp_path, runs)
    path = tmp_path / "runs/bay/mine-IDW/bezier-max-entropy/seed-0/map.npz"
    write_map(path, replace(read_map(path), fields={}))
    (comparison,) = read_comparisons(tmp_path)
    truth, poam, mine = draw_lengthscales(comparison, {}).axes[:3]
    assert truth.images and poam.images and not mine.images
    assert "no lengthscale" in mine.texts[0].get_text()


@pytest.mark.slow
def test_runs_that_end_at_once_are_drawn_and_always_the_same(tmp_path):
    values = {"update_s": np.zeros(1), "smse": np.full(1, np.nan)}
    folder = write_sweep(tmp_path, [run("bay", "gpr", 0, samples=(300,), values=values)])
    before = {path: path.read_bytes() for path in write_report(folder)}
    assert len(before) == 8
    assert {path: path.read_bytes() for path in write_report(folder)} == before


def _drop_column(path, name):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [key for key in rows[0] if key != name]
    lines = [",".join(kept), *(",".join(row[key] for key in kept) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def _keep_header(path):
    path.write_text(path.read_text().splitlines()[0] + "\n")


def _rename(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


RUN = "runs/bay/ovc/bezier-max-entropy/seed-0"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: shutil.rmtree(f), "folder of a benchmark"),
        (lambda f: (f / "runs.csv").unlink(), "with runs.csv"),
        (lambda f: (f / "sweep.yaml").write_text("layout: 0\n"), r"sweep\.yaml: .* 2, got 0"),
        (lambda f: _drop_column(f / "runs.csv", "planner"), r"runs\.csv.*missing: planner"),
        (lambda f: _keep_header(f / "runs.csv"), "at least one finished run"),
        (lambda f: _rename(f / "runs.csv", ",1,5000", ",0,5000"), "every run once"),
        (lambda f: _rename(f / "runs.csv", RUN, f"../{RUN}"), "expected a path inside it"),
        (lambda f: _rename(f / "runs.csv", ",bezier,", ",..,"), "expected a path inside it"),
        (lambda f: (f / RUN / "epochs.csv").unlink(), r"epochs\.csv"),
        (lambda f: _drop_column(f / RUN / "epochs.csv", "msll"), r"epochs\.csv.*missing: msll"),
        (lambda f: (f / RUN / "map.npz").unlink(), r"map\.npz: no such file"),
        (lambda f: (f / RUN / "truth.npz").write_text("x,y\n"), r"truth\.npz: expected a truth"),
    ],
)
def test_bad_input_is_named_in_one_line(copy, spoil, message):
    spoil(copy)
    with pytest.raises(InputError, match=message) as error:
        write_report(copy)
    assert "\n" not in str(error.value)


def test_epochs_out_of_order_are_refused(copy):
    path = copy / RUN / "epochs.csv"
    header, *rows = path.read_text().splitlines()
    for broken in ([header, *rows[::-1]], [header]):
        path.write_text("\n".join(broken) + "\n")
        with pytest.raises(InputError, match=r"epochs\.csv.*samples that increase"):
            write_report(copy)
