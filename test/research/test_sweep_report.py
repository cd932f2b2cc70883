"""A sweep's report, made from CSV files alone: its tables, worked out by hand, its figures, and
what it says of broken files."""

import csv
import shutil

import numpy as np
import pytest
from sweep_folders import made_run, write_sweep

pytest.importorskip("matplotlib", reason="a report has figures")

from matplotlib.image import imread

from poam_ros.core.errors import InputError
from poam_ros.research.report import (
    Statistic,
    average_over_samples,
    average_rows,
    caption,
    markdown_table,
    method_label,
    notes,
    read_comparisons,
    write_report,
)

STEMS = ("curves", "maps")
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
    assert [r.folder.name for r in comparison.shown("bay").values()] == ["seed-0"] * 2
    assert [r.folder.name for r in comparison.shown("fjord $_1").values()] == ["seed-1"]


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


@pytest.mark.slow
def test_runs_that_end_at_once_are_drawn_and_always_the_same(tmp_path):
    values = {"update_s": np.zeros(1), "smse": np.full(1, np.nan)}
    folder = write_sweep(tmp_path, [run("bay", "gpr", 0, samples=(300,), values=values)])
    before = {path: path.read_bytes() for path in write_report(folder)}
    assert len(before) == 6
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


# --- Averages, deviations and bold figures, worked out by hand ---


def one(method, seed, smse, environment="bay", **other):
    return made_run(environment, method, seed, smse, **other)


def compare(folder, *runs):
    (comparison,) = read_comparisons(write_sweep(folder, runs))
    return comparison


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (0.07412, 0.00331, "0.0741(0.0033)"),
        (-1.456, 0.0412, "-1.456(0.041)"),
        (0.5, 0.0996, "0.50(0.10)"),
        (12.34, 3.21, "12.3(3.2)"),
        (1234.5, 321.0, "1234(321)"),
        (0.4, 1e-9, "0.40000(0.00000)"),
        (0.4, 0.0, "0.400(0.000)"),
        (-0.001, 0.12, "0.00(0.12)"),
        (0.07412, None, "0.0741"),
        (-1.456, None, "-1.46"),
        (0.0, None, "0.000"),
        (float("nan"), 0.1, "nan"),
    ],
)
def test_a_deviation_has_two_digits_and_the_mean_as_many_decimals(mean, std, text):
    assert str(Statistic(mean, std, 1 if std is None else 3)) == text


def test_averages_are_of_the_interpolated_curve_then_over_seeds(tmp_path):
    # From 1000 to 3000 it falls from 0.4 to 0.2, then stays: the average is 0.25; the pilot's
    # 9 does not count.
    first = one("poam", 0, (9, 0.4, 0.2, 0.2))
    second = one("poam", 1, (9, 0.6, 0.4, 0.4))
    comparison = compare(tmp_path, first, second)
    average = comparison.average("bay", "poam", "smse")
    assert average.mean == pytest.approx(0.35)
    assert average.std == pytest.approx(0.2 / 2**0.5)
    assert average.seeds == 2
    assert comparison.final("bay", "poam", "smse").mean == pytest.approx(0.3)
    rows = {row[4]: row for row in average_rows(comparison)}
    assert rows["smse"][:7] == ("bay", "bezier", "max-entropy", "poam", "smse", 1000, 5000)
    assert rows["smse"][7:] == pytest.approx((0.35, 0.1414213562, 2, 0.3, 0.1414213562))
    assert set(rows) >= {"smse", "msll", "rmse", "mae", "nlpd", "update_s"}


def test_one_seed_has_no_deviation(tmp_path):
    comparison = compare(tmp_path, one("poam", 0, 0.1))
    assert next(average_rows(comparison))[7:10] == (pytest.approx(0.1), "", 1)
    assert "| 0.100 |" in markdown_table(comparison).replace("*", "")
    assert "(0" not in markdown_table(comparison)
    assert "One seed." in caption(comparison)


def test_the_lowest_mean_of_each_environment_and_column_is_bold(tmp_path):
    comparison = compare(
        tmp_path,
        one("ssgp++", 0, 0.3), one("poam:rbf", 0, 0.2),
        one("ssgp++", 0, 0.1, environment="a|b"), one("poam:rbf", 0, 0.2, environment="a|b"),
    )  # fmt: skip
    assert markdown_table(comparison).splitlines()[2:] == [
        "| Environment | Method | SMSE | MSLL | Update time (s) |",
        "|:--|:--|--:|--:|--:|",
        "| bay | SSGP++ | 0.300 | -1.70 | **0.500** |",
        "|  | POAM (RBF) | **0.200** | **-1.80** | **0.500** |",
        r"| a\|b | SSGP++ | **0.100** | **-1.90** | **0.500** |",
        "|  | POAM (RBF) | 0.200 | -1.80 | **0.500** |",
    ]


def test_a_metric_that_is_not_a_number_is_never_bold(tmp_path):
    comparison = compare(tmp_path, one("ovc", 0, float("nan")), one("poam", 0, 0.2))
    text = markdown_table(comparison)
    assert "| OVC | nan |" in text
    assert "**0.200**" in text


def test_labels():
    names = ["poam", "ssgp++", "poam-z-opt", "poam:rbf", "poam:attentive", "ovc:other", "mine:IDW"]
    labels = ["POAM", "SSGP++", "POAM-Z-OPT", "POAM (RBF)", "POAM (AK)", "OVC (Other)", "mine:IDW"]
    assert [method_label(name) for name in names] == labels


def test_a_run_that_ends_early_and_missing_seeds_are_noted(tmp_path):
    comparison = compare(
        tmp_path,
        one("poam", 0, 0.1), one("poam", 1, 0.1),
        one("gpr", 0, (9, 0.4, 0.2), samples=(500, 1000, 3000)),
    )  # fmt: skip
    assert comparison.span == (1000, 5000)
    assert comparison.average("bay", "gpr", "smse").mean == pytest.approx(0.3)
    early, fewer = "GPR, seed 0: averaged up to its end at 3000", "GPR: 1 of 2 seeds"
    for note, expected in zip(notes(comparison), (fewer, early), strict=True):
        assert expected in note
        assert note in markdown_table(comparison)
    assert "over 1 to 2 seeds" in caption(comparison)


def test_if_a_run_does_not_reach_the_papers_span_a_common_span_is_used(tmp_path):
    comparison = compare(
        tmp_path / "short",
        one("poam", 0, (0.6, 0.4, 0.2), samples=(300, 500, 700)),
        one("ovc", 0, (0.6, 0.4), samples=(500, 900)),
    )
    assert comparison.span == (500, 700)
    assert comparison.average("bay", "poam", "smse").mean == pytest.approx(0.3)
    assert comparison.average("bay", "ovc", "smse").mean == pytest.approx(0.55)
    assert "Averages from 500 to 700 samples." in markdown_table(comparison)
    ended = compare(tmp_path / "ended", one("poam", 0, 0.1, samples=(500, 1000, 2000, 3000)))
    assert ended.span == (1000, 3000)
    assert not notes(ended)
    late = compare(tmp_path / "late", one("poam", 0, (0.4, 0.2), samples=(1200, 5000)))
    assert late.span == (1200, 5000)


def test_without_a_common_span_the_last_values_count(tmp_path):
    comparison = compare(tmp_path, one("poam", 0, 0.1), one("ovc", 0, 0.2, samples=(400,)))
    assert comparison.average("bay", "ovc", "smse").mean == pytest.approx(0.2)
    assert "last epoch" in markdown_table(comparison)


def test_average_is_of_the_interpolated_curve():
    samples = np.array([500.0, 1500.0, 2500.0, 6000.0])
    assert average_over_samples(samples, 2 * samples) == pytest.approx(6000.0)
    # 1000..1500 rises from 0.5 to 1, then 1
    values = np.array([0.0, 1.0, 1.0, 1.0])
    assert average_over_samples(samples, values) == pytest.approx((500 * 0.75 + 3500) / 4000)
    early = np.array([500.0, 2000.0])  # a run that ends early
    assert average_over_samples(early, early) == pytest.approx(1500.0)
