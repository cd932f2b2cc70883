"""Constant errors that are planted in surveys are found at crossings, within their intervals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from surveyed_days import BEGIN, planted, survey

from poam_ros.core.samples import Samples
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.calibration import LEVELS, calibrate, calibrated, correct
from poam_ros.mapping.crossed import Divisions, cross, units
from poam_ros.mapping.exclusions import days
from poam_ros.mapping.soundings import LINE, Labels, SoundingMapSettings, Soundings
from poam_ros.mapping.survey_errors import Calibration, Effect, PositionError
from poam_ros.screening.lines import Motion

CAPUTH = Path(__file__).resolve().parents[3] / "shared" / "soundings" / "caputh.csv"
SETTINGS = SoundingMapSettings()


def found_in(whole: Soundings) -> Calibration:
    return calibrate(whole, Divisions.of(whole, whole.labels[LINE]), 0.0)


def applied(found: Calibration) -> dict[tuple[str, str], Effect]:
    return {of: each for of, each in found.effects.items() if each.sure}


def holds(each: Effect, truth: float) -> bool:
    return abs(each.value - truth) < 1.96 * each.std


def test_latency_level_and_sound_speed_are_estimated_together():
    """A latency is no antenna's offset; a scale is a level at the usual depth as well."""
    found = found_in(planted(survey(), 0.4, 0.1, 0.01))
    known = applied(found)
    second, third = days(survey()).names[1:]
    wanted = {
        ("level", second): 0.1, ("level", third): -0.01 * found.depth, ("scale", third): 0.01,
    }  # fmt: skip
    for name, truth in wanted.items():
        assert holds(known[name], truth), known[name]
    for kind, truth in (("along", 0.0), ("latency", 0.4)):
        assert holds(found.effects[kind, ""], truth), found.effects[kind, ""]
    together, speed, latency = together_in(found)
    assert (together / speed, latency) == pytest.approx((-0.4, 0.4), abs=0.1)
    assert not any(kind == "line" for kind, _ in known)


def together_in(found):
    """What a remark says of an antenna's offset and a latency together: m, m/s and s."""
    text = next(text for text in found.remarks if "an antenna's offset, or a latency" in text)
    speed, together, latency = map(float, re.findall(r"[-+]?\d+\.\d+", text))
    return together, speed, latency


def test_how_well_levels_are_known_is_found():
    """At the median depth of 10 to 15 m; a scale alone is a level there."""
    found = found_in(planted(survey(), level=0.1, scale=0.02))
    first, second, third = days(survey()).names
    assert found.levels()[first] == [0, 0]
    for name, truth in ((second, 0.1), (third, -0.02 * found.depth)):
        off, std = found.levels()[name]
        assert abs(off - truth) < 3 * std < 0.1, name
    effects = {("level", second): Effect(0.1, 0.02), ("level", third): Effect(0.0, 0.04)}
    assert list(replace(found, effects=effects).levels(0.03)) == [first, second]
    known, said = calibrated(planted(survey(), level=0.1), SETTINGS)
    assert second in known.source[LEVELS]
    assert 0 < said.levels()[second][1] < 0.05


def test_a_faulty_day_with_the_most_soundings_is_not_the_reference():
    day = days(survey())
    assert int(np.bincount(day.code).argmax()) == 0
    found = found_in(planted(survey(), level=0.1, days_of=(0, 2)))
    known = applied(found)
    assert [key for key in known if key[0] in ("level", "scale")] == [("level", day.names[0])], (
        known
    )
    assert holds(known["level", day.names[0]], 0.1)
    assert "levels and scales are relative to " + day.names[0] not in found.remarks


def test_a_sound_survey_is_not_changed():
    whole = survey()
    corrected, found = calibrated(whole, SETTINGS)
    assert not [of for of, each in applied(found).items() if abs(each.value) > 0.05]
    assert np.abs(corrected.z - whole.z).max() < 0.1
    assert np.hypot(*(corrected.xy - whole.xy).T).max() < 0.5
    assert all(np.hypot(*each.value) < 0.5 for each in found.positions.values())


def test_a_line_with_an_offset_is_corrected_alone():
    whole = survey()
    z = whole.z + 0.5 * (whole.labels[LINE].code == 18)
    known = applied(found_in(replace(whole, z=z)))
    assert holds(known["line", "L18"], 0.5)
    others = {
        name: each for (kind, name), each in known.items() if kind == "line" and name != "L18"
    }
    assert len(others) < 3 and all(abs(each.value) < 0.15 for each in others.values())


def test_an_offset_of_a_day_is_seen_at_the_crossings_alone():
    assert not [kind for kind, _ in cross(survey(), SETTINGS).offsets() if kind != LINE]
    offsets = cross(planted(survey(), level=0.2), SETTINGS).offsets()
    found = {bias.name: bias for kind, bias in offsets if kind != LINE}
    day = found["2023-11-15"]
    assert day.low < 0.2 and day.median == max(bias.median for bias in found.values()) > 0.1


def in_three_recordings(whole: Soundings) -> Soundings:
    """The same lines, without a pause but at two places."""
    count = len(whole.labels[LINE].names)
    recording = 3 * whole.labels[LINE].code // count
    return replace(
        whole, stamp_ns=BEGIN + (np.arange(len(whole)) + 600 * recording) * 1_000_000_000
    )


@pytest.mark.parametrize("kind", ["line", "recording"])
def test_positions_that_are_off_are_found_at_crossings(kind):
    whole = in_three_recordings(survey())
    divisions = Divisions.of(whole, whole.labels[LINE])
    assert len(divisions.recording.names) == 3
    part = getattr(divisions, kind)
    off = np.random.default_rng(7).normal(0, 4, (len(part.names), 2))
    found = found_in(replace(whole, xy=whole.xy + off[part.code]))
    errors = {name: each for (of, name), each in found.positions.items() if of == kind}
    assert set(errors) == set(part.names)
    moved = correct(whole, found, divisions, 0.0).xy - whole.xy
    left = moved + off[part.code]  # what all lines share, cannot be seen
    assert (left - left.mean(0)).std() < 0.4 * off[part.code].std()
    size = np.hypot(*np.array([each.value for each in errors.values()]).T).max()
    assert f"at most {size:.1f} m: corrected" in " ".join(found.sentences())


def star(seed: int) -> Soundings:
    """Sixteen lines of 240 m through one place, without errors but noise."""
    rng, lines = np.random.default_rng(seed), 16
    along = np.arange(-120, 120, 1.4)
    angle = np.pi * np.arange(lines) / lines
    xy = (along[:, None] * np.column_stack((np.cos(angle), np.sin(angle)))[:, None]).reshape(-1, 2)
    z = -12 - 3 * np.sin(xy[:, 0] / 40) - 2 * np.cos(xy[:, 1] / 30)
    line = np.repeat(np.arange(lines), len(along))
    names = tuple(f"L{i}" for i in range(lines))
    row = np.arange(len(z))
    z += rng.normal(0, 0.15, len(z))
    return Soundings(row, xy, z, row, labels={LINE: Labels(line, names)})


@pytest.mark.parametrize("seed", range(4))
def test_lines_through_one_place_are_not_changed(seed):
    """Their 120 crossings hold 16 depths, which say nothing of their lines."""
    whole = star(seed)
    assert not applied(found_in(whole))
    said = cross(whole, SETTINGS).sentences("1a")
    assert not any("than the lines it crosses" in text for text in said), said


def test_corrected_soundings_agree_at_crossings():
    faulty = planted(survey(), 0.6, 0.2, 0.02)
    before = np.abs(cross(faulty, SETTINGS).table.difference)
    corrected, found = calibrated(faulty, SETTINGS)
    after = np.abs(cross(corrected, SETTINGS).table.difference)
    assert np.median(after) < 0.7 * np.median(before)
    assert corrected.source["calibration"] == found.sentences()


def test_the_day_with_the_most_soundings_is_corrected_if_another_is_the_reference():
    whole = survey()
    day = days(whole)
    most = int(np.bincount(day.code).argmax())
    found = Calibration({("level", day.names[most]): Effect(0.3, 0.05)})
    moved = whole.z - correct(whole, found, Divisions.of(whole, whole.labels[LINE]), 0.0).z
    np.testing.assert_allclose(moved, np.where(day.code == most, 0.3, 0.0), atol=1e-12)


def test_a_boat_with_an_offset_is_told_from_another_on_the_same_days():
    whole = survey()
    second = whole.labels[LINE].code % 2
    labels = {**whole.labels, "Boat": Labels(second, ("Ann", "Bo"))}
    two = replace(whole, labels=labels, z=whole.z + 0.3 * second)
    order = np.argsort(second, kind="stable")  # or each in a file of its own
    in_files = replace(
        whole[order], row=whole.row, files=(("Ann", 0), ("Bo", int(sum(second == 0))))
    )
    assert set(units(two).names) == set(units(in_files).names) > {"2023-11-14 Ann", "2023-11-14 Bo"}
    corrected, found = calibrated(two, SETTINGS)
    off = corrected.z - whole.z
    assert np.median(off[second == 1]) == pytest.approx(np.median(off[second == 0]), abs=0.1)
    assert any(name.endswith(" Bo") for kind, name in applied(found) if kind == "level")


def test_files_of_one_name_in_several_folders_are_told_apart():
    whole = replace(survey(), stamp_ns=None)
    boat = whole.labels[LINE].code % 3
    order = np.argsort(boat, kind="stable")
    begins = np.searchsorted(boat[order], range(3)).tolist()
    three = replace(
        whole[order], row=whole.row, z=(whole.z + np.array([0.0, 0.3, -0.3])[boat])[order],
        files=tuple(zip(("a/log.csv", "b/log.csv", "c/log.csv"), begins, strict=True)),
    )  # fmt: skip
    known = applied(calibrated(three, SETTINGS)[1])
    levels = {name: effect.value for (kind, name), effect in known.items() if kind == "level"}
    assert levels == {
        "b/log.csv": pytest.approx(0.3, abs=0.1), "c/log.csv": pytest.approx(-0.3, abs=0.1)
    }  # fmt: skip


def test_without_times_an_antenna_offset_is_estimated_and_reported():
    whole = replace(survey(), stamp_ns=None)
    motion = Motion(whole.xy, whole.labels[LINE].code, None)
    shifted = replace(whole, xy=whole.xy - 0.8 * motion.heading)
    found = found_in(shifted)
    along = applied(found)["along", ""]
    assert holds(along, 0.8)
    assert "without times, a latency cannot be told from an antenna's offset" in found.remarks


def test_at_one_speed_a_latency_may_be_an_antenna_s_offset():
    whole = survey()
    step = np.r_[0, np.hypot(*np.diff(whole.xy, axis=0).T)]
    stamps = BEGIN + (1e9 * np.cumsum(step) / 1.5).astype(np.int64)
    found = found_in(planted(replace(whole, stamp_ns=stamps), 0.4))
    assert not {("along", ""), ("latency", "")} & applied(found).keys()
    assert together_in(found) == pytest.approx((-0.6, 1.5, 0.4), abs=0.1)


def test_a_vehicle_s_pings_are_corrected_with_their_ranges():
    whole = planted(survey(), level=0.3)
    taken = replace(Samples.of(whole.xy, whole.z), range=-whole.z, stamp_ns=whole.stamp_ns)
    vehicle = Soundings.of(taken, labels=whole.labels)
    corrected, _ = calibrated(vehicle, SETTINGS)
    assert corrected.pings is not None and np.array_equal(corrected.pings.z, corrected.z)
    assert corrected.pings.range == pytest.approx(-corrected.z) and corrected.steps is None


def test_a_latency_is_worded_without_a_double_negation():
    words = "+0.20 s (95 %: +0.10 to +0.30): corrected"
    for value, age in ((0.2, "older"), (-0.2, "newer")):
        said = Effect(value, 0.1 / 1.96).sentence("latency", "")
        assert said == f"latency: depths are {age} than their positions by {words}"


def test_an_error_of_positions_is_worded_in_the_map_s_coordinates():
    """Its x need not point east; a region that is long need not hold 0."""
    error = PositionError(np.array([-2.0, 0.1]), np.diag([0.25, 4.0]))
    wanted = "line L1: its positions are off by -2.0 m in x and +0.1 m in y (95 %: within "
    assert error.sentence("line", "L1") == wanted + "1.2 to 4.9 m of that)" and error.sure


def test_of_many_lines_the_largest_estimates_are_printed_and_all_are_kept():
    effects = {("level", "day"): Effect(0.1, 0.02)}
    effects |= {("line", f"L{i}"): Effect(off, 0.01) for i, off in enumerate((0.1, -3, 2, 0.2))}
    found = {
        ("line", f"L{i}"): PositionError(np.array([3.0 + i, 0.0]), np.eye(2) / 9) for i in range(3)
    }
    calibration = Calibration(effects, found, ("a remark",))
    many = calibration.sentences()
    assert len(many) == 1 + 4 + 1 + 3 + 1 and many[-1] == "a remark"
    kept = [many[i] for i in (0, 2, 3, 5, 7, 8)]
    more = [f"{count}: see calibration in config.yaml" for count in ("2 more lines", "1 more line")]
    assert calibration.sentences(2) == [*kept[:3], more[0], *kept[3:], more[1], "a remark"]


def test_too_few_crossings_are_reported():
    lonely = survey()[np.arange(300)]
    assert found_in(lonely).sentences() == ["too few crossings of lines to calibrate"]


@pytest.mark.skipif(not CAPUTH.exists(), reason="the recorded survey is not here")
def test_errors_planted_in_a_recorded_survey_are_found():
    """Once what the record has of its own is corrected."""
    whole = replace(read_soundings(CAPUTH, ReadOptions(times=True)), labels={})
    whole, _ = calibrated(whole.with_lines()[np.arange(0, len(whole), 2)], SETTINGS)
    names = days(whole).names
    before, after = found_in(whole), found_in(planted(whole, 0.4, 0.1, 0.01, (3, 2)))
    assert holds(after.effects["latency", ""], 0.4)
    for name, error in ((names[3], 0.1), (names[2], -0.01 * after.depth)):
        assert holds(applied(after)["level", name], error)
    own, scale = (found.effects["scale", names[2]] for found in (before, after))
    assert holds(scale, 0.01) and scale.value - own.value == pytest.approx(0.01, abs=2e-3)


@pytest.mark.skipif(not CAPUTH.exists(), reason="the recorded survey is not here")
def test_recordings_whose_positions_are_off_agree_once_they_are_corrected():
    whole = read_soundings(CAPUTH, ReadOptions(times=True))
    whole = whole[np.arange(0, len(whole), 2)]
    before = np.abs(cross(whole, SETTINGS).table.difference)
    corrected, found = calibrated(whole, SETTINGS)
    after = np.abs(cross(corrected, SETTINGS).table.difference)
    assert np.median(after) < 0.5 * np.median(before)
    assert np.quantile(after, 0.95) < 0.4 * np.quantile(before, 0.95)
    assert len(found.positions) == 16 and "positions of 16 lines" in " ".join(found.sentences())
