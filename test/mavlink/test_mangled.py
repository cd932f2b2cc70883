"""Whatever arrives on the link, well-formed or not: the mission goes on, every ping is counted."""

import math
import os
import socket
import struct
from collections import deque

import numpy as np
import pytest

from poam_ros.mavlink.link import library

KINDS = (
    "heartbeat", "attitude", "global_position_int", "gps_raw_int", "ekf_status_report",
    "position_target_global_int", "distance_sensor", "water_depth", "rangefinder", "param_value",
    "statustext",
)  # fmt: skip
WORST = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e30, 90.0)


def mangled(boat, mavlink, kind, rng):
    """A message of a kind with values that a field can hold, and few vehicles send."""
    cls = getattr(mavlink, f"MAVLink_{kind}_message")
    values = []
    for form, count in zip(cls.fieldtypes, cls.array_lengths, strict=True):
        if form == "char":
            values.append(rng.bytes(count or 1))
        elif form in ("float", "double"):
            numbers = rng.choice(WORST, max(1, count)).tolist()
            values.append(numbers if count else numbers[0])
        else:
            bits = int(form.removeprefix("u").removesuffix("_t").removeprefix("int"))
            low = 0 if form[0] == "u" else -(2 ** (bits - 1))
            high = low + 2**bits - 1
            number = [low, high, 0, 1, 25][rng.integers(5)]
            values.append([number] * count if count else number)
    return cls(*values).pack(boat._out)


def test_messages_with_impossible_values(voyage):
    v, rng = voyage().start(), np.random.default_rng(0)
    with library() as mavutil:
        mavlink = mavutil.mavlink
    for number in range(600):
        kind = KINDS[rng.integers(len(KINDS))]
        try:
            v.boat._transmit(mangled(v.boat, mavlink, kind, rng))
        except (struct.error, TypeError, ValueError):  # the library itself cannot send it
            continue
        if number % 5 == 0:
            v.step()
    v.run(20)
    counts = v.drive.session.ledger.counts()
    assert counts["received"] == sum(counts.values()) - counts["received"]
    v.boat.mode, v.boat.armed = "GUIDED", True
    v.run(30)  # the vehicle is itself again
    v.drive.command("resume" if v.state == "paused" else "start")
    v.run(10)
    assert v.state in ("pilot", "exploring"), v.said[-5:]


def flipped(frame, rng):
    changed = bytearray(frame)
    changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
    return bytes(changed)


@pytest.mark.parametrize(
    "steps",
    [54, pytest.param(int(os.environ.get("POAM_SOAK_FRAMES", "5000")), marks=pytest.mark.soak)],
)
def test_frames_that_are_cut_doubled_joined_or_foreign(voyage, steps):
    v = voyage({"max_samples": 10 * steps + 5000}).start().run(3)
    rng = np.random.default_rng(steps)
    frames, transmit = deque(maxlen=100), v.boat._transmit
    target = "127.0.0.1", int(v.values["mavlink.url"].rpartition(":")[2])
    v.boat._transmit = lambda data, kind="": (frames.append(data), transmit(data, kind))
    v.run(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        faults = (
            lambda frame: transmit(frame[: rng.integers(len(frame))]),  # cut
            lambda frame: stranger.sendto(frame[: rng.integers(len(frame))], target),
            lambda frame: [transmit(frame) for _ in range(10)],
            lambda frame: stranger.sendto(frame, target),  # replayed by another
            lambda _: transmit(b"".join(frames)),
            lambda frame: transmit(flipped(frame, rng)),
            lambda _: stranger.sendto(rng.bytes(20_000), target),
            lambda _: [stranger.sendto(rng.bytes(200), target) for _ in range(50)],  # a flood
            lambda _: stranger.sendto(b"", target),
        )
        for number in range(steps):
            faults[number % len(faults)](frames[rng.integers(len(frames))])
            v.step()
            counts = v.drive.session.ledger.counts()
            assert counts["received"] == sum(counts.values()) - counts["received"]
            if number % 50 == 49:  # by a person, who goes on whatever comes
                v.drive.command("resume")
    assert v.drive.link.left_out["unreadable or wrongly signed"] > steps
    v.boat.recover()
    v.run(30)
    if v.state == "paused":
        v.resume()
    sent, mapped = len(v.boat.targets), v.drive.session.samples
    v.until(lambda: len(v.boat.targets) > sent and v.drive.session.samples > mapped, 120)
    assert v.state in ("pilot", "exploring"), v.said[-5:]
