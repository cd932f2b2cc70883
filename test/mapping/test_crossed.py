"""Tables whose lines cross: what is left out of the map, crossings.csv and the sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poam_ros.core.geometry import map_grid
from poam_ros.core.samples import Samples
from poam_ros.mapping import crossed as module
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.sounding_map import learn, map_soundings, validate_fold
from poam_ros.mapping.soundings import Labels, SoundingMapSettings, Soundings
from poam_ros.models.registry import ModelSettings, NeighbourOptions
from poam_ros.outputs.crossings import COLUMNS, CrossingTable, biases
from poam_ros.outputs.folder import read_records
from poam_ros.screening import ScreeningSettings

MODEL = ModelSettings("nngp", NeighbourOptions(first_steps=20, early_steps=1, hidden=8, lattice=8))
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


def test_a_run_that_nothing_crosses_stays_and_is_named(tmp_path):
    survey = lake(doubles=False)
    alone = np.arange(300) * 1.5
    xy = np.concatenate((survey.xy, np.column_stack((500 + alone, 0 * alone))))
    z = np.r_[survey.z, -8 + 0.02 * np.random.default_rng(0).normal(size=300)]
    z[len(survey) + 100 : len(survey) + 160] *= 2
    group = np.r_[survey.group, np.full(300, len(survey.names))]
    whole = Soundings(
        1000 + np.arange(len(z)), xy, z, group, (*survey.names, "far"),
        stamp_ns=survey.stamp_ns[0] + np.arange(len(z)) * 1_000_000_000,
    )  # fmt: skip
    found = cross(whole, SETTINGS)
    assert not found.refused.any()
    first, last = 1000 + len(survey) + 100, 1000 + len(survey) + 159
    text = f"rows {first} to {last}: twice the depth beside it, and nothing crosses it"
    assert found.sentences("1a")[-1] == f"line far, {text}"
    found.write(tmp_path)  # from where the report has it
    rows = read_records(tmp_path / "lines.csv", ("line", "verdict"))
    assert {row["line"]: row["verdict"] for row in rows}["far"] == f"crosses no other line; {text}"


def test_a_line_with_few_multiples_is_judged_by_its_crossings(tmp_path):
    survey = lake(doubles=False)
    few = np.flatnonzero(survey.group == FALSE)[30:35]
    survey.z[few] *= 2
    found = cross(survey, SETTINGS)
    assert found.refused[few].all() and found.refused.sum() == 5
    found.write(tmp_path)
    verdicts = {
        row["line"]: row["verdict"] for row in read_records(tmp_path / "lines.csv", ("verdict",))
    }
    agrees = "agrees with the lines it crosses"
    assert verdicts.pop("L3") == f"{agrees}; double echoes, 5 soundings left out"
    assert set(verdicts.values()) == {agrees}
    assert found.sentences("1a")[1:] == ["5 single multiples on 1 line left out: see lines.csv"]


def test_a_line_of_double_echoes_is_left_out_and_reported(tmp_path):
    survey = lake()
    workspace = survey.workspace()
    mapped = map_soundings(survey, map_grid(workspace, 5.0), workspace, SETTINGS)
    mapped.write(tmp_path, tmp_path / "log.csv")
    out = len(mapped.echoes)
    count = int((survey.group == FALSE).sum())
    assert out >= count - 2 and mapped.samples == len(survey) - out
    refused = read_records(tmp_path / "left_out.csv", ("reason", "x"))
    assert len(refused) == out
    assert sum(float(row["x"]) == 50 for row in refused) >= count - 2
    assert {row["reason"] for row in refused} == {"false_echo"}
    survey_said, line_said, *_ = mapped.sentences()
    assert survey_said.startswith("12 crossings: median difference 0.0")
    assert survey_said.endswith("100.0 % within the limit of IHO S-44 order 1a")
    assert line_said.startswith("line L3: 3 crossings, median -") and (
        f"double echoes, {count} soundings left out" in line_said
    )
    verdicts = {
        row["line"]: row["verdict"] for row in read_records(tmp_path / "lines.csv", ("verdict",))
    }
    assert verdicts.pop("L3") == f"double echoes, {count} soundings left out"
    assert set(verdicts) == set(survey.names) - {"L3"} and set(verdicts.values()) == {
        "agrees with the lines it crosses"
    }
    lines = (tmp_path / "crossings.csv").read_text(encoding="utf-8").splitlines()
    assert tuple(lines[0].split(",")) == COLUMNS and len(lines) == 16
    assert all(line.split(",")[2] == "2023-11-14" for line in lines[1:])


def test_the_crossings_of_each_set_of_soundings_are_found_once(monkeypatch):
    survey, seen, find = lake(), [], module.find_crossings
    monkeypatch.setattr(
        module, "find_crossings", lambda xy, *args: seen.append(len(xy)) or find(xy, *args)
    )
    held, workspace = survey.group == 5, survey.workspace()
    map_soundings(survey, map_grid(workspace, 5.0), workspace, SETTINGS, held).sentences()
    assert seen == [(~held).sum(), len(survey)]  # the map's, and those of which all are mapped
    validate_fold(survey, held, 0, workspace, SETTINGS)
    assert seen[2:] == [(~held).sum()]


def test_a_clean_lake_loses_nothing_and_without_screening_nothing_is_refused():
    clean = cross(lake(doubles=False), SETTINGS)
    assert (
        not clean.refused.any() and len(clean.sentences("1a")) == 1 and len(clean.found.row) == 15
    )
    unscreened = cross(lake(), UNSCREENED)
    assert not unscreened.refused.any() and len(unscreened.table.xy) == 15


def test_lines_without_names_are_found_and_days_without_times_are_empty(tmp_path):
    survey = replace(lake(), names=(), group=np.arange(len(lake())), stamp_ns=None)
    crossed = cross(survey, SETTINGS)
    assert crossed.refused.sum() > 60 and "double echoes" in crossed.sentences("1a")[1]
    crossed.write(tmp_path)
    rows = (tmp_path / "crossings.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert all(row.split(",")[2] == "" and row.split(",")[0].isdigit() for row in rows)


@pytest.mark.parametrize("attribute", ["batch", "pings"])
def test_recordings_lose_no_soundings_but_have_crossings(attribute, tmp_path):
    survey = lake()
    value = (
        np.zeros(len(survey), dtype=np.int64)
        if attribute == "batch"
        else replace(Samples.of(survey.xy, survey.z), range=-survey.z)
    )
    crossed = cross(replace(survey, **{attribute: value}), SETTINGS)
    crossed.write(tmp_path)
    assert (
        not crossed.refused.any() and len(CrossingTable.read(tmp_path / "crossings.csv").xy) >= 15
    )


def test_held_out_soundings_are_not_screened_and_screen_nothing():
    """A fold's map is that of its own soundings; the held line of doubles is predicted in full."""
    survey = lake()
    held = survey.group == FALSE
    found = validate_fold(survey, held, 0, survey.workspace(), SETTINGS)
    assert len(found.row) == held.sum() and np.abs(found.mean - found.z).mean() > 5
    rest = survey[np.flatnonzero(~held)]
    assert len(learn(rest, survey.workspace(), SETTINGS)[1]) == 0


def test_offsets_of_a_line_and_a_day_are_reported_with_intervals(tmp_path):
    survey = lake(doubles=False)
    late = survey.group >= 5
    stamps = survey.stamp_ns + np.where(late, 86_400_000_000_000, 0)
    z = survey.z + 0.4 * (survey.group == 1) - 0.2 * late
    crossed = cross(replace(survey, z=z, stamp_ns=stamps), SETTINGS)
    crossed.write(tmp_path)
    rows = read_records(tmp_path / "lines.csv", ("line", "day", "median", "low", "high"))
    lines = {row["line"]: row for row in rows if row["line"]}
    assert lines["L2"]["verdict"] == "shallower than the lines it crosses"
    assert float(lines["L2"]["low"]) < 0.6 < float(lines["L2"]["high"])
    said = crossed.sentences("1a")
    assert any(text.startswith("day 2023-11-14: 15 crossings, median +0.") for text in said), said
    assert any(text.startswith("line L2: 3 crossings, median +0.") for text in said), said
    first = next(row for row in rows if row["day"] == "2023-11-14")
    assert float(first["low"]) < 0.2 < float(first["high"])


def test_of_many_lines_with_soundings_left_out_those_with_the_most_are_named(monkeypatch):
    survey = lake(doubles=False)
    z = survey.z.copy()
    for line, share in ((0, 0.4), (2, 0.8)):
        own = np.flatnonzero(survey.group == line)
        z[own[: int(share * len(own))]] *= 2
    crossed = cross(replace(survey, z=z), SETTINGS)
    two = [text for text in crossed.sentences("1a") if "left out" in text]
    assert [text.split(":")[0] for text in two] == ["line L3", "line L1"]
    monkeypatch.setattr("poam_ros.mapping.crossed.WORST", 1)
    said = [text for text in crossed.sentences("1a") if "left out" in text]
    assert said == [two[0], "1 more line with soundings left out: see lines.csv"]


def test_the_offset_of_one_of_two_boats_is_reported_once():
    survey = lake(doubles=False)
    second = survey.group >= 5
    two = replace(
        survey,
        z=survey.z + 0.24 * second,
        files=(("a/one.csv", 0), ("b/two.csv", int((~second).sum()))),
    )
    said = cross(two, SETTINGS).sentences("1a")
    found = [text for text in said if text.startswith("file two.csv: 15 crossings, median +0.2")]
    assert len(found) == 1 and found[0].endswith("shallower than the other files"), said
    alike = replace(two, labels={"boat": Labels(second.astype(np.int64), ("Ann", "Bo"))})
    assert cross(alike, SETTINGS).sentences("1a") == said
    sound = cross(replace(two, z=survey.z), SETTINGS).sentences("1a")
    assert not any(text.startswith("file") for text in sound), sound


def test_statistics_follow_hydrographic_practice():
    """Of amounts; the limit is sqrt(2) times the TVU; a multiple counts for its line only."""
    difference = np.array([0.1, -0.2, 0.3, -0.4, 0.75, -9.0])
    names = np.array([["A", "B"]] * 5 + [["C", "A"]], dtype=object)
    left_out = np.arange(6) == 5
    depth = np.column_stack((np.full(6, 5.0), 5.0 + difference))
    table = CrossingTable(names, names, np.zeros((6, 2)), difference, depth, left_out)
    found = table.statistics("1a")
    assert found.crossings == 5 and found.median == pytest.approx(0.3)
    assert found.within == pytest.approx(4 / 5)  # sqrt(2 (0.25 + 0.065^2)) = 0.71
    assert table.statistics("exclusive").within == pytest.approx(2 / 5)
    a, b, c = biases(names, difference, left_out, np.ones(6))
    assert (a.crossings, b.crossings, c.crossings) == (5, 5, 1)
    assert a.median == pytest.approx(0.1) == pytest.approx(-b.median) and c.median == -9.0


def test_intervals_of_biases_cover_the_truth():
    """Of 400 lines with an offset of 0.1 m, about 95 % of the intervals have it."""
    rng = np.random.default_rng(0)
    names = np.array([[f"L{i}", f"M{i}"] for i in range(400) for _ in range(12)], dtype=object)
    difference = 0.1 + rng.normal(0, 0.2, len(names))
    none, alone = np.zeros(len(names), bool), np.ones(len(names))
    found = [b for b in biases(names, difference, none, alone) if b.name[0] == "L"]
    assert 0.88 < np.mean([b.low < 0.1 < b.high for b in found]) < 0.99
    assert sum(b.offset for b in found) < 60


def test_a_line_of_false_echoes_without_crossings_is_reported():
    survey = lake()
    keep = np.flatnonzero(survey.group < 5)  # those north alone
    said = [text for text in cross(survey[keep], SETTINGS).sentences("1a") if "L3" in text]
    assert not said  # without crossings nothing is said of the survey
    crossed = cross(survey, SETTINGS)
    alone = replace(crossed, table=CrossingTable.read(Path("nothing")), parts={})
    [(bias, count, verdict)] = list(alone._lines)
    assert (bias.crossings, count) == (0, 67) and verdict == "double echoes, 67 soundings left out"
    assert "line L3, by the lines beside it: double echoes, 67 " in "".join(alone.sentences("1a"))
