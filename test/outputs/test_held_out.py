"""Held-out soundings: how they are chosen, how they are scored, what is written."""

import json
import math
from dataclasses import asdict, replace
from statistics import NormalDist

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.outputs import figures
from poam_ros.outputs.folder import read_table
from poam_ros.outputs.held_out import (
    COLUMNS,
    HeldOut,
    Validation,
    log_loss,
    score,
    split_folds,
    split_off,
    write_validation,
)
from poam_ros.outputs.recorder import GridScorer
from poam_ros.outputs.run import Run


@pytest.fixture
def held():
    rng = np.random.default_rng(1)
    count = 4000
    z, std = rng.normal(-10, 3, count), rng.uniform(0.5, 1.5, count)
    mean = z + std * rng.standard_normal(count)
    naive = log_loss(z, -10.0, 9.0)
    place = rng.uniform(0, 10, (count, 2))
    every = np.ones(count, dtype=bool)
    return HeldOut(
        np.arange(count), place, z, mean, std, 1.5 * std, np.arange(count) % 5, naive, every, every
    )


def test_scores_are_those_of_a_normal_distribution(held):
    scores = score(held)
    error = held.mean - held.z
    assert scores.count == 4000
    assert scores.rmse == pytest.approx(np.sqrt((error**2).mean()))
    assert scores.mae == pytest.approx(np.abs(error).mean())
    one = NormalDist(held.mean[7], held.std[7])
    assert log_loss(held.z, held.mean, held.std**2)[7] == pytest.approx(
        -math.log(one.pdf(held.z[7]))
    )
    assert scores.coverage95 == pytest.approx(0.95, abs=0.015)
    assert scores.coverage95_other_survey == pytest.approx(0.9967, abs=0.003)
    assert scores.msll == pytest.approx(scores.nlpd - held.naive.mean())
    assert scores.msll < -0.5  # much better than the naive one


def test_files_have_the_documented_columns(held, tmp_path):
    scores = write_validation(tmp_path, held).accepted
    found = json.loads((tmp_path / "validation.json").read_text())
    names = ["count", "rmse", "mae", "msll", "nlpd", "coverage95", "coverage95_other_survey"]
    assert list(found) == [*names, "all", "shown"] and list(found["shown"]) == names
    assert found["rmse"] == scores.rmse and found["count"] == found["all"]["count"] == 4000
    header = "row,x,y,z,mean,std,fold,accepted,std_other_survey,shown"
    assert (tmp_path / "held_out.csv").read_text().startswith(f"{header}\n0,")
    table = read_table(tmp_path / "held_out.csv", COLUMNS)
    np.testing.assert_allclose(table["std"], held.std, rtol=1e-8)
    np.testing.assert_array_equal(table["fold"], held.fold)


def test_the_headline_is_of_what_the_map_accepts(held, tmp_path):
    """False echoes that the screening leaves out are named beside it."""
    z, false = held.z.copy(), np.arange(4000) % 20 == 0
    z[false] -= 40.0
    found = write_validation(tmp_path, replace(held, z=z, accepted=~false))
    sound = score(held[np.flatnonzero(~false)])
    assert found.accepted == sound and found.left_out == 200
    assert found.every.mae > sound.mae + 1.5
    written = json.loads((tmp_path / "validation.json").read_text())
    assert written["mae"] == sound.mae and written["all"]["mae"] == found.every.mae
    assert Validation.read(tmp_path / "validation.json") == found
    assert "with the 200 that the screening leaves out of the map among them" in found.beside
    table = read_table(tmp_path / "held_out.csv", COLUMNS)
    np.testing.assert_array_equal(table["accepted"], ~false)


def test_what_lies_in_cells_that_the_map_shows_is_scored_beside_all(held, tmp_path):
    """A quarter of them lies in a bay that the map does not show, and is off by five deviations."""
    shown, accepted = np.arange(4000) % 4 > 0, np.arange(4000) % 10 > 0
    mean = np.where(shown, held.mean, held.z + 5 * held.std)
    found = write_validation(tmp_path, replace(held, mean=mean, shown=shown, accepted=accepted))
    assert found.shown == score(replace(held, mean=mean)[np.flatnonzero(shown & accepted)])
    assert found.accepted.coverage95 < 0.75 < 0.94 < found.shown.coverage95
    assert Validation.read(tmp_path / "validation.json") == found
    table = read_table(tmp_path / "held_out.csv", COLUMNS)
    np.testing.assert_array_equal(table["shown"], shown)
    share = (shown & accepted).sum() / accepted.sum()
    said = f"{100 * share:.1f} % of them in cells that the map without them shows: there mean "
    assert found.where.startswith(f"{said}absolute error {found.shown.mae:.3g} m, RMSE ")
    assert found.where.endswith(found.shown.covered)


@pytest.mark.parametrize(("shown", "word"), [(1, "all"), (0, "none")])
def test_all_or_nothing_in_cells_that_the_map_shows_is_said(held, tmp_path, shown, word):
    found = write_validation(tmp_path, replace(held, shown=np.full(4000, shown, dtype=bool)))
    assert found.where == f"{word} of them in cells that the map without them shows"
    assert found.shown == (found.every if shown else None)
    assert Validation.read(tmp_path / "validation.json") == found


def test_the_figure_shows_what_the_map_accepts(held, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(
        figures, "save_figure", lambda figure, path, dpi: drawn.append(figure) or path
    )
    for accepted in (np.arange(4000) >= 40, np.zeros(4000, dtype=bool)):
        found = write_validation(tmp_path, replace(held, accepted=accepted))
        figures.draw_validation(Run.open(tmp_path))
    counts = [len(figure.axes[1].collections[0].get_offsets()) for figure in drawn]
    assert counts == [3960, 4000]  # all where none is accepted
    assert found.accepted is None and found.left_out == 4000
    assert Validation.read(tmp_path / "validation.json") == found


def test_scores_that_are_none_are_refused(held, tmp_path):
    path = tmp_path / "validation.json"
    assert Validation.read(path) is None
    scores = asdict(score(held))
    both = {"all": scores, "shown": scores}
    path.write_text(json.dumps({**scores, **both}))
    assert asdict(Validation.read(path).accepted) == scores
    for broken in (scores, {**scores, **both, "all": {"count": 3}}, {"count": 3, **both}):
        path.write_text(json.dumps(broken))
        with pytest.raises(InputError, match=r"validation\.json: expected scores"):
            Validation.read(path)


def test_folds_take_whole_groups_each_once():
    group = np.repeat(np.arange(12), 5)
    fold = split_folds(group, 5, seed=0)
    assert set(fold) == set(range(5))
    assert all(len(set(fold[group == g])) == 1 for g in range(12))
    # Sorted groups are permuted, and every fifth goes to a fold.
    permuted = np.random.default_rng(0).permutation(12)
    assert set(group[fold == 1]) == set(permuted[1::5])
    assert not np.array_equal(fold, split_folds(group, 5, seed=1))


def test_a_share_is_held_out_in_whole_groups():
    group = np.repeat(np.arange(10), 7)
    held = split_off(group, 0.25, seed=3)
    assert held.sum() == 21 and len(set(group[held]) & set(group[~held])) == 0
    assert split_off(np.arange(100), 0.2, seed=0).sum() == 20
    assert split_off(np.arange(10), 0.01, seed=0).sum() == 1


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1, float("nan")])
def test_a_share_must_be_between_0_and_1(fraction):
    with pytest.raises(InputError, match="between 0 and 1"):
        split_off(np.arange(10), fraction, 0)


def test_too_few_groups_are_refused():
    with pytest.raises(InputError, match="takes all 2 groups"):
        split_off(np.array([0, 1, 1, 1]), 0.9, 0)
    with pytest.raises(InputError, match="expected 2 to 3"):
        split_folds(np.array([0, 1, 2]), 4, 0)


def test_metrics_equal_their_definitions():
    def log_density(x, mean, variance):
        return -0.5 * np.log(2 * np.pi * variance) - (x - mean) ** 2 / (2 * variance)

    rng = np.random.default_rng(0)
    truth, mean = rng.normal(size=(2, 2500))
    variance = rng.uniform(0.5, 2, size=2500)
    scorer = GridScorer(Extent(0, 9, 0, 9), lambda xy: truth)
    metrics = scorer.score(mean, variance, 0.3, 1.7)
    nlpd = -np.mean(log_density(truth, mean, variance))
    assert metrics == pytest.approx({
        "smse": np.mean((mean - truth) ** 2) / np.var(truth), "nlpd": nlpd,
        "rmse": np.sqrt(np.mean((mean - truth) ** 2)), "mae": np.mean(np.abs(mean - truth)),
        "msll": nlpd + np.mean(log_density(truth, 0.3, 1.7)),
    })  # fmt: skip
    with pytest.raises(InputError, match="positive variances"):
        scorer.score(mean, 0 * variance, 0.3, 1.7)
