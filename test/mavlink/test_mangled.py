"""Whatever arrives on the link, well-formed or not: the mission goes on, every ping is counted."""

import math
import struct

import numpy as np
import pytest

from poam_ros.mavlink.link import library

KINDS = (
    "heartbeat", "attitude", "global_position_int", "gps_raw_int", "ekf_status_report",
    "gps_global_origin", "position_target_global_int", "distance_sensor", "water_depth",
    "rangefinder", "param_value", "statustext",
)  # fmt: skip
WORST = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e30, 90.0)


def mangled(boat, mavlink, kind, rng):
    """A message of a kind with values that a field can hold, and few vehicles send."""
    cls = getattr(mavlink, f"MAVLink_{kind}_message")
    values = []
    for name, form, count in zip(cls.fieldnames, cls.fieldtypes, cls.array_lengths, strict=True):
        if form == "char":
            values.append(rng.bytes(count or 1))
        elif form in ("float", "double"):
            numbers = rng.choice(WORST, max(1, count)).tolist()
            values.append(numbers if count else numbers[0])
        else:
            bits = int(form.removeprefix("u").removesuffix("_t").removeprefix("int"))
            low, high = (
                (0, 2**bits - 1) if form[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            )
            number = [low, high, 0, 1, 25][rng.integers(5)]
            values.append([number] * count if count else number)
        assert name
    return cls(*values).pack(boat._out)


@pytest.mark.parametrize("seed", range(3))
def test_messages_with_impossible_values(voyage, seed):
    v, rng = voyage().start(), np.random.default_rng(seed)
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


def test_bytes_that_are_no_messages(voyage):
    v, rng = voyage().explore(), np.random.default_rng(0)
    for _ in range(300):
        v.boat._transmit(rng.bytes(int(rng.integers(1, 300))))
        v.boat._transmit(b"\xfd" + rng.bytes(20))
        v.step()
    v.run(15)
    assert v.state in ("exploring", "paused")
    if v.state == "paused":  # half messages may take the bytes of heartbeats with them
        v.resume()
    assert v.run(5).state == "exploring"
    assert v.drive.link.left_out["unreadable or wrongly signed"]
