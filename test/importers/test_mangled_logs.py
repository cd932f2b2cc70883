"""Logs of NMEA and ArduPilot, damaged in many ways: each sounding at its place, or none; never a
wrong map."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import numpy as np
import pytest
from mavlink_logs import dataflash, telemetry
from nmea_sentences import sentence, spelt

from poam_ros.core.errors import InputError
from poam_ros.importers.readers import read_soundings

COUNT, QUICK, ALL = 200, 24, 200
BEGIN = datetime(2025, 6, 1, 23, 58, 30, tzinfo=timezone.utc)
ENDINGS = {"nmea": "nmea", "bin": "dataflash", "tlog": "telemetry"}
#: Faults of every sentence: the log is as sound as that of a boat elsewhere.
UNDECIDABLE = ("all hemispheres", "all exchanged")


def lake(rng):
    """A track with a depth of its own for each sounding, by which it is known again."""
    t = np.arange(COUNT)
    south, west = rng.choice([-1, 1], 2)
    return SimpleNamespace(
        latitude=south * (33.1 + 2e-5 * t),
        longitude=west * (8.6 + 4e-5 * np.sin(t / 20)),
        depth=np.round(rng.choice([3.0, 8.0, 30.0]) + 0.01 * t, 2),
    )


def nmea(path, at, rng):
    """Epochs of a position, a depth and another position."""
    kind, talker = str(rng.choice(["DPT", "DBT", "DBS"])), str(rng.choice(["GP", "GN"]))
    lines = []
    for i in range(COUNT):
        when, depth = BEGIN + timedelta(seconds=i), at.depth[i]
        place = f"{spelt(at.latitude[i], 'NS')},{spelt(at.longitude[i], 'EW')}"
        feet = f"{depth / 0.3048:.2f},f,{depth:.2f},M,{depth / 1.8288:.2f},F"
        lines += [
            sentence(f"{talker}GGA,{when:%H%M%S}.00,{place},1,08,0.9,5.4,M,46.9,M,,"),
            sentence(f"SD{kind}," + (f"{depth:.2f},0.0" if kind == "DPT" else feet)),
            sentence(f"{talker}RMC,{when:%H%M%S}.00,A,{place},2.0,84.4,{when:%d%m%y},3.1,W"),
        ]
    return lines


def changed(line, edit):
    """A sentence with other fields, and its right checksum."""
    fields = line[1 : line.index("*")].split(",")
    edit(fields)
    return sentence(",".join(fields))


def hemisphere(fields):
    at = next(i for i, field in enumerate(fields) if field in ("N", "S"))
    fields[at] = "S" if fields[at] == "N" else "N"


def exchanged(fields):
    """Latitude and longitude in each other's fields, sides too."""
    at = next(i for i, field in enumerate(fields) if field in ("N", "S"))
    fields[at - 1 : at + 3] = [*fields[at + 1 : at + 3], *fields[at - 1 : at + 1]]


def values_exchanged(fields):
    at = next(i for i, field in enumerate(fields) if field in ("N", "S"))
    fields[at - 1], fields[at + 1] = fields[at + 1][1:], "0" + fields[at - 1]


def letters(fields):
    """Feet called metres, and metres feet."""
    fields[1:] = [{"f": "M", "M": "f"}.get(field, field) for field in fields[1:]]


def is_depth(line):
    return line[3:6] in ("DPT", "DBT", "DBS")


def some(lines, rng, edit, share, wanted=lambda line: not is_depth(line)):
    return [
        changed(line, edit) if wanted(line) and rng.random() < share else line for line in lines
    ]


def _positions(edit, share):
    return lambda lines, rng: some(lines, rng, edit, share)


def swapped(lines, rng):
    """Neighbours exchanged, some of them."""
    lines = list(lines)
    for i in rng.choice(len(lines) - 1, 20, replace=False):
        lines[i : i + 2] = lines[i + 1], lines[i]
    return lines


def bad_sums(lines, rng):
    """Digits changed without the checksum."""
    found = []
    for line in lines:
        if rng.random() < 0.2:
            digits = [m.start() for m in re.finditer(r"\d", line[7 : line.index("*")])]
            at = 7 + int(rng.choice(digits))
            line = line[:at] + str((int(line[at]) + 1 + rng.integers(8)) % 10) + line[at + 1 :]
        found.append(line)
    return found


def no_sums(lines, rng):
    return [line[: line.index("*")] + "\r\n" if rng.random() < 0.2 else line for line in lines]


def torn(lines, rng):
    """Parts of lines lost, with their ends."""
    return [line[: int(rng.integers(len(line)))] if rng.random() < 0.1 else line for line in lines]


def flipped(lines, rng):
    text = bytearray("".join(lines), "ascii")
    for at in rng.choice(len(text), 60, replace=False):
        text[at] ^= 1 << int(rng.integers(7))
    return [text.decode("ascii", "replace")]


def second_receiver(lines, rng):
    """Another talker, some metres or kilometres away, at every position."""
    north = float(rng.choice([2.0, 300.0])) / 111_320
    found = []
    for line in lines:
        found.append(line)
        if line[3:6] == "GGA":
            fields = line[1 : line.index("*")].split(",")
            degrees = float(fields[2][:2]) + float(fields[2][2:]) / 60 + north
            fields[0], fields[2] = "GLGGA", spelt(degrees, "NS").split(",")[0]
            found.append(sentence(",".join(fields)))
    return found


def second_sounder(lines, rng):
    ratio = float(rng.choice([1.01, 1.5, 3.28]))

    def other(fields):
        fields[0] = "II" + fields[0][2:]
        for i in range(1, len(fields)):
            if re.fullmatch(r"\d+\.\d\d", fields[i]):
                fields[i] = f"{ratio * float(fields[i]):.2f}"

    return [every for line in lines for every in ([line, changed(line, other)] if is_depth(line)
                                                  else [line])]  # fmt: skip


NMEA = {
    "none": lambda lines, rng: lines,
    "truncated": lambda lines, rng: ["".join(lines)[: int(rng.integers(200, 20_000))]],
    "swapped": swapped,
    "bad sums": bad_sums,
    "no sums": no_sums,
    "torn": torn,
    "flipped": flipped,
    "twice": lambda lines, rng: [*lines, *lines],
    "each twice": lambda lines, rng: [each for line in lines for each in (line, line)],
    "reversed": lambda lines, rng: lines[::-1],
    "some hemispheres": _positions(hemisphere, 0.3),
    "all hemispheres": _positions(hemisphere, 1.0),
    "half hemispheres": lambda lines, rng: [*some(lines[:300], rng, hemisphere, 1), *lines[300:]],
    "GGA hemispheres": lambda lines, rng: some(
        lines, rng, hemisphere, 1, lambda line: line[3:6] == "GGA"
    ),
    "exchanged with sides": _positions(exchanged, 1.0),
    "some exchanged": _positions(values_exchanged, 0.3),
    "all exchanged": _positions(values_exchanged, 1.0),
    "letters": lambda lines, rng: some(lines, rng, letters, 1, is_depth),
    "some letters": lambda lines, rng: some(lines, rng, letters, 0.3, is_depth),
    "second receiver": second_receiver,
    "second sounder": second_sounder,
}  # fmt: skip


def cut(data, rng, begins):
    return data[: int(rng.integers(400, len(data)))]


def bits(data, rng, begins):
    data = bytearray(data)
    for at in rng.integers(600, len(data), 20):
        data[at] ^= 1 << int(rng.integers(8))
    return bytes(data)


def lost_part(data, rng, begins):
    begin = int(rng.integers(600, len(data) - 500))
    return data[:begin] + data[begin + int(rng.integers(1, 400)) :]


def records(data, begins):
    return [data[a:b] for a, b in zip([0, *begins], [*begins, len(data)], strict=True)]


def swapped_records(data, rng, begins):
    every = records(data, begins)
    for i in rng.choice(np.arange(1, len(every) - 1), 20, replace=False):
        every[i : i + 2] = every[i + 1], every[i]
    return b"".join(every)


BINARY = {
    "none": lambda data, rng, begins: data,
    "truncated": cut,
    "flipped": bits,
    "lost part": lost_part,
    "swapped": swapped_records,
    "twice": lambda data, rng, begins: data + data,
    "rest twice": lambda data, rng, begins: data + data[begins[0] :],
    "zeros": lambda data, rng, begins: data + bytes(3000),
    "noise": lambda data, rng, begins: data + rng.bytes(3000),
}  # fmt: skip


def check(seed, folder) -> str:
    """Write a log, damage it, read it: what is accepted is the truth. Returns what became of it."""
    rng = np.random.default_rng(seed)
    at, kind = lake(rng), str(rng.choice(["nmea", "nmea", "bin", "tlog"]))
    path = folder / f"log.{kind}"
    fault = str(rng.choice(list(NMEA if kind == "nmea" else BINARY)))
    if kind == "nmea":
        path.write_text("".join(NMEA[fault](nmea(path, at, rng), rng)), newline="")
    else:
        begins = {"bin": dataflash, "tlog": telemetry}[kind](path, at, BEGIN)
        path.write_bytes(BINARY[fault](path.read_bytes(), rng, begins))
    what = f"{seed}: {kind}, {fault}"
    try:
        found = read_soundings(path)
    except InputError as error:
        assert str(path) in str(error) and "\n" not in str(error), what
        assert fault != "none", f"{what}: {error}"
        return "question"
    depth = -found.z
    which = np.abs(depth[:, None] - at.depth).argmin(1)
    off = np.abs(depth - at.depth[which])
    true = found.projection.metres(at.latitude, at.longitude)[which]
    far = np.hypot(*(found.xy - true).T)
    right = off.max() < 0.04 and far.max() < 12.0
    if not right and fault in UNDECIDABLE:
        return "as it says"
    # A .bin has no checksums, nor has the time of a frame in a .tlog: a flipped one is a value.
    if kind != "nmea" and fault == "flipped":
        right = ((off > 0.04) | (far > 12.0)).sum() <= 0.03 * COUNT
    assert right, f"{what}: {(off > 0.04).sum()} depths, {(far > 12).sum()} places of {len(found)}"
    assert len(found) <= COUNT, f"{what}: {len(found)} soundings"
    return "map"


def outcomes(seeds, folder) -> dict[str, int]:
    counts = dict.fromkeys(("map", "question", "as it says"), 0)
    for seed in seeds:
        counts[check(seed, folder)] += 1
    return counts


@pytest.fixture(autouse=True)
def libraries():
    pytest.importorskip("pynmeagps")
    pytest.importorskip("pymavlink")


def test_no_mangled_log_becomes_a_wrong_map(tmp_path):
    counts = outcomes(range(QUICK), tmp_path)
    assert counts["map"] > QUICK / 3 and counts["question"] and counts["as it says"] < 0.15 * QUICK


@pytest.mark.soak
def test_none_of_two_hundred_mangled_logs_becomes_a_wrong_map(tmp_path):
    counts = outcomes(range(ALL), tmp_path)
    print(counts)
    assert counts["as it says"] <= 0.1 * ALL
