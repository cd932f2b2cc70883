"""Held-out errors and coverage of maps as `poam map` makes them, beside linear interpolation and an
exact Gaussian process from the same soundings: no change narrows an interval unseen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted import simulated
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.sounding_map import validate_fold
from poam_ros.mapping.soundings import LINE, Labels, SoundingMapSettings, Soundings
from poam_ros.outputs.held_out import HeldOut, score

METZABOK = Path(__file__).resolve().parents[3] / "shared" / "soundings" / "metzabok.csv"
#: Folds of whole lines, of which the first are measured; blocks of an exact process, in m.
FOLDS, MEASURED, BLOCK = 5, 2, 10.0


def made_lake() -> Soundings:
    """16 lines one way and 5 across; positions of each off by 0.3 m. No other test has its seed."""
    record = simulated("rough", 8101, 0.3)
    row = np.arange(len(record.z))
    line = Labels(record.line, tuple(f"L{i}" for i in range(record.line.max() + 1)))
    return Soundings(row, record.xy, record.z, row, labels={LINE: line})


def metzabok() -> Soundings:
    """Every third sounding of a recorded lake, without its false echoes."""
    whole = read_soundings(METZABOK, ReadOptions())
    whole = whole[np.flatnonzero(~cross(whole, SoundingMapSettings()).refused)]
    return whole[np.arange(0, len(whole), 3)]


def blocks(xy: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians of blocks of soundings."""
    _, own = np.unique(np.floor(xy / BLOCK), axis=0, return_inverse=True)
    parts = [np.flatnonzero(own.ravel() == i) for i in range(own.max() + 1)]
    return np.array([np.median(xy[p], 0) for p in parts]), np.array(
        [np.median(z[p]) for p in parts]
    )


def exact(xy: np.ndarray, z: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The mean of a Gaussian process with an exponential covariance, by the greatest likelihood."""
    xy, z = blocks(xy, z)
    middle, distance = z.mean(), cdist(xy, xy)

    def covariance(p: np.ndarray) -> np.ndarray:
        K: np.ndarray = np.exp(p[1]) * np.exp(-distance / np.exp(p[0]))
        K[np.diag_indices(len(K))] += np.exp(p[2])
        return K

    def loss(p: np.ndarray) -> float:
        factor = cho_factor(covariance(p), lower=True)
        half = 0.5 * (z - middle) @ cho_solve(factor, z - middle)
        return float(half + np.log(np.diag(factor[0])).sum())

    start = np.log([distance.max() / 5, z.var(), z.var() / 50])
    p = minimize(loss, start, method="Nelder-Mead", options={"maxfev": 60}).x
    weight = cho_solve(cho_factor(covariance(p), lower=True), z - middle)
    found: np.ndarray = middle + np.exp(p[1]) * np.exp(-cdist(at, xy) / np.exp(p[0])) @ weight
    return found


def linear(xy: np.ndarray, z: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Linear interpolation, and the nearest beyond the outermost soundings."""
    places, first = np.unique(xy, axis=0, return_index=True)
    inside = LinearNDInterpolator(places, z[first])(at)
    return np.where(np.isnan(inside), NearestNDInterpolator(places, z[first])(at), inside)


@pytest.mark.slow
@pytest.mark.parametrize(("record", "least"), [(made_lake, 0.93), (metzabok, 0.82)])
def test_held_out_lines_are_predicted_as_well_as_by_an_exact_process(record, least):
    """``least``: coverage; of the record's two folds it was 0.85 when this was written."""
    if record is metzabok and not METZABOK.exists():
        pytest.skip("the recorded survey is not here")
    whole = record()
    line = whole.labels[LINE]
    fold = (np.random.default_rng(0).permutation(len(line.names)) % FOLDS)[line.code]
    settings = SoundingMapSettings()
    maps, peers = [], {linear: [], exact: []}
    for number in range(MEASURED):
        held = fold == number
        maps.append(validate_fold(whole, held, number, whole.workspace(), settings))
        xy, z, at = whole.xy[~held], whole.z[~held], whole.xy[held]
        for peer, errors in peers.items():
            errors.append(np.abs(peer(xy, z, at) - whole.z[held]))
    found = score(HeldOut.joined(maps))
    by_linear, by_exact = (float(np.concatenate(errors).mean()) for errors in peers.values())
    said = f"{found}; linear {by_linear:.3f} m, exact {by_exact:.3f} m"
    assert found.mae < 0.98 * by_linear, said
    assert found.mae < 1.15 * by_exact, said
    assert least < found.coverage95 < 0.999, said
    assert found.coverage95_other_survey >= found.coverage95, said
