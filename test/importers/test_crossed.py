"""Tables whose lines cross: what is left out of the map, crossings.csv and the sentences."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from poam_ros.core.geometry import map_grid
from poam_ros.core.samples import Samples
from poam_ros.importers.crossed import COLUMNS, cross
from poam_ros.importers.mapping import learn, map_soundings, validate_fold
from poam_ros.importers.soundings import SoundingMapSettings, Soundings
from poam_ros.models.registry import ModelSettings
from poam_ros.screening.screen import ScreeningSettings

MODEL = ModelSettings.of(
    {
        "method": "nngp",
        "nngp.first_steps": 20,
        "nngp.early_steps": 1,
        "nngp.hidden": 8,
        "nngp.lattice": 8,
    }
)
SETTINGS = SoundingMapSettings(model=MODEL, first_batch=200, batch_size=100)
UNSCREENED = replace(SETTINGS, screening=ScreeningSettings(enabled=False))
FALSE = 2  # the line of double echoes


def lake(doubles: bool = True) -> Soundings:
    """Five lines north and three east over 100 m x 100 m; one of them says twice the depth."""
    along = np.arange(0.0, 100.0, 1.5)
    parts = [np.column_stack((np.full(len(along), x), along)) for x in (10, 30, 50, 70, 90)]
    parts += [np.column_stack((along, np.full(len(along), y))) for y in (20, 50, 80)]
    xy = np.concatenate([part[:: 1 - 2 * (i % 2)] for i, part in enumerate(parts)])
    group = np.repeat(np.arange(len(parts)), len(along))
    z = -10 - 2 * np.sin(xy[:, 0] / 30) - np.cos(xy[:, 1] / 25)
    z += np.random.default_rng(3).normal(0, 0.03, len(z))
    if doubles:
        z[group == FALSE] *= 2
    names = tuple(f"L{i + 1}" for i in range(len(parts)))
    stamps = 1_700_000_000_000_000_000 + np.arange(len(z)) * 1_000_000_000
    return Soundings(np.arange(len(z)), xy, z, group, names, stamp_ns=stamps)


def test_a_line_of_doubles_is_left_out_and_said(tmp_path):
    survey = lake()
    workspace = survey.workspace()
    mapped = map_soundings(
        tmp_path / "log.csv", survey, map_grid(workspace, 5.0), workspace, SETTINGS, tmp_path
    )
    count = int((survey.group == FALSE).sum())
    assert mapped.false_echoes >= count - 2 and mapped.samples == len(survey) - mapped.false_echoes
    with (tmp_path / "refused.csv").open(encoding="utf-8") as file:
        refused = list(csv.DictReader(file))
    assert len(refused) == mapped.false_echoes
    assert sum(float(row["x"]) == 50 for row in refused) >= count - 2
    assert {row["reason"] for row in refused} == {"false_echo"}
    assert len(mapped.sentences) == 1
    assert mapped.sentences[0].startswith("line L3: 3 crossings, median -") and (
        f"double echoes, {count} soundings left out" in mapped.sentences[0]
    )
    lines = (tmp_path / "crossings.csv").read_text(encoding="utf-8").splitlines()
    assert tuple(lines[0].split(",")) == COLUMNS and len(lines) == 16
    assert all(line.split(",")[2] == "2023-11-14" for line in lines[1:])


def test_a_clean_lake_loses_nothing_and_without_screening_nothing_is_judged():
    clean = cross(lake(doubles=False), SETTINGS)
    assert not clean.refused.any() and not clean.sentences() and len(clean.found.row) == 15
    believing = cross(lake(), UNSCREENED)
    assert not believing.refused.any() and believing.found is None


def test_lines_without_names_are_found_and_days_without_times_are_empty(tmp_path):
    survey = replace(lake(), names=(), group=np.arange(len(lake())), stamp_ns=None)
    crossed = cross(survey, SETTINGS)
    assert crossed.refused.sum() > 60 and "double echoes" in crossed.sentences()[0]
    crossed.write(tmp_path)
    rows = (tmp_path / "crossings.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert all(row.split(",")[2] == "" and row.split(",")[0].isdigit() for row in rows)


@pytest.mark.parametrize("attribute", ["batch", "taken"])
def test_recordings_are_not_judged(attribute, tmp_path):
    survey = lake()
    value = (
        np.zeros(len(survey), dtype=np.int64)
        if attribute == "batch"
        else replace(Samples.of(survey.xy, survey.z), range=-survey.z)
    )
    crossed = cross(replace(survey, **{attribute: value}), SETTINGS)
    crossed.write(tmp_path)
    assert not crossed.refused.any() and not list(tmp_path.iterdir())


def test_held_out_soundings_are_not_screened_and_judge_nothing():
    """A fold's map is that of its own soundings; the held line of doubles is predicted in full."""
    survey = lake()
    held = survey.group == FALSE
    found = validate_fold(survey, held, 0, survey.workspace(), SETTINGS)
    assert len(found.row) == held.sum() and np.abs(found.mean - found.z).mean() > 5
    rest = survey[np.flatnonzero(~held)]
    assert len(learn(rest, survey.workspace(), SETTINGS)[1]) == 0
