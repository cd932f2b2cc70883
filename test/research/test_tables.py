"""Averages, deviations and bold figures of small tables, worked out by hand."""

import pytest
from sweep_folders import made_run, write_sweep

from poam_ros.research.comparison import Statistic, method_label, read_comparisons
from poam_ros.research.report import average_rows, caption, format_statistic, markdown_table, notes


def run(method, seed, smse, environment="bay", **other):
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
    assert format_statistic(Statistic(mean, std, 1 if std is None else 3)) == text


def test_averages_are_of_the_interpolated_curve_then_over_seeds(tmp_path):
    # From 1000 to 3000 it falls from 0.4 to 0.2, then stays: the average is 0.25; the pilot's
    # 9 does not count.
    first = run("poam", 0, (9, 0.4, 0.2, 0.2))
    second = run("poam", 1, (9, 0.6, 0.4, 0.4))
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
    comparison = compare(tmp_path, run("poam", 0, 0.1))
    assert next(average_rows(comparison))[7:10] == (pytest.approx(0.1), "", 1)
    assert "| 0.100 |" in markdown_table(comparison).replace("*", "")
    assert "(0" not in markdown_table(comparison)
    assert "One seed." in caption(comparison)


def test_the_lowest_mean_of_each_environment_and_column_is_bold(tmp_path):
    comparison = compare(
        tmp_path,
        run("ssgp++", 0, 0.3), run("poam:rbf", 0, 0.2),
        run("ssgp++", 0, 0.1, environment="a|b"), run("poam:rbf", 0, 0.2, environment="a|b"),
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
    comparison = compare(tmp_path, run("ovc", 0, float("nan")), run("poam", 0, 0.2))
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
        run("poam", 0, 0.1), run("poam", 1, 0.1),
        run("gpr", 0, (9, 0.4, 0.2), samples=(500, 1000, 3000)),
    )  # fmt: skip
    assert comparison.span == (1000, 5000)
    assert comparison.average("bay", "gpr", "smse").mean == pytest.approx(0.3)
    early, fewer = "GPR, seed 0: averaged up to its end at 3000", "GPR: 1 of 2 seeds"
    for note, expected in zip(notes(comparison), (fewer, early), strict=True):
        assert expected in note
        assert note in markdown_table(comparison)
    assert "over 1 to 2 seeds" in " ".join(caption(comparison))


def test_if_a_run_does_not_reach_the_papers_span_a_common_span_is_used(tmp_path):
    comparison = compare(
        tmp_path / "short",
        run("poam", 0, (0.6, 0.4, 0.2), samples=(300, 500, 700)),
        run("ovc", 0, (0.6, 0.4), samples=(500, 900)),
    )
    assert comparison.span == (500, 700)
    assert comparison.average("bay", "poam", "smse").mean == pytest.approx(0.3)
    assert comparison.average("bay", "ovc", "smse").mean == pytest.approx(0.55)
    assert "Averages from 500 to 700 samples." in markdown_table(comparison)
    ended = compare(tmp_path / "ended", run("poam", 0, 0.1, samples=(500, 1000, 2000, 3000)))
    assert ended.span == (1000, 3000)
    assert not notes(ended)
    late = compare(tmp_path / "late", run("poam", 0, (0.4, 0.2), samples=(1200, 5000)))
    assert late.span == (1200, 5000)


def test_without_a_common_span_the_last_values_count(tmp_path):
    comparison = compare(tmp_path, run("poam", 0, 0.1), run("ovc", 0, 0.2, samples=(400,)))
    assert comparison.average("bay", "ovc", "smse").mean == pytest.approx(0.2)
    assert "last epoch" in markdown_table(comparison)
