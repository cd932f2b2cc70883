"""Logs of ArduPilot and of ground stations: .bin, .tlog, and recordings of BlueOS."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.clock import SECOND
from ..core.errors import InputError, requires_extra
from ..core.reading import JSON_FACTOR, MemoryMeter, refuse_larger
from .bag_files import mcap_records
from .logs import PositionsAndDepths
from .raw import RawSoundings, ReadOptions

Fields = dict[str, Any]
#: A .bin begins with the description of a message; .tlog with a time (us) and a frame of MAVLink.
DATAFLASH, FRAMES = b"\xa3\x95\x80", (0xFD, 0xFE)
DOWN = 25  # MAV_SENSOR_ROTATION_PITCH_270
OFFSET_BYTES = 40  # of memory for each message of a .bin
VEHICLE = "its vehicle"  # our own field of a message: its system id
#: ArduPilot's status of a rangefinder with a reading.
GOOD = 4


def _whole_degrees(fields: Fields) -> tuple[float, float] | None:
    """Degrees from integers in 1e-7 degrees."""
    return _known(fields["lat"] / 1e7, fields["lon"] / 1e7)


def _known(latitude: float, longitude: float) -> tuple[float, float] | None:
    valid = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0.0, 0.0)
    return (float(latitude), float(longitude)) if valid else None


def _metres(value: float, valid: bool = True) -> float | None:
    return float(value) if valid and math.isfinite(value) and value > 0 else None


def _number(value: Any) -> Any:
    """The number of an enumeration, which JSON has as {"type": NAME}, if it is needed here."""
    name: Any = value.get("type") if isinstance(value, dict) else value
    return {"MAV_SENSOR_ROTATION_PITCH_270": DOWN, "GPS_FIX_TYPE_NO_GPS": 0,
            "GPS_FIX_TYPE_NO_FIX": 1, "GPS_FIX_TYPE_2D_FIX": 2}.get(name, name)  # fmt: skip


def _has_fix(value: Any) -> bool:
    number = _number(value)
    return number >= 2 if isinstance(number, int) else str(number).startswith("GPS_FIX_TYPE")


#: The position (degrees) in messages, the better kinds first; None: no position.
POSITIONS: dict[str, Callable[[Fields], tuple[float, float] | None]] = {
    "POS": lambda f: _known(f["Lat"], f["Lng"]),
    "GPS": lambda f: _known(f["Lat"], f["Lng"]) if f["Status"] >= 2 else None,
    "GLOBAL_POSITION_INT": _whole_degrees,
    "GPS_RAW_INT": lambda f: _whole_degrees(f) if _has_fix(f["fix_type"]) else None,
}
#: The depth below the sonar (m) in messages, the better kinds first; None: no depth.
DEPTHS: dict[str, Callable[[Fields], float | None]] = {
    "DPTH": lambda f: _metres(f["Depth"]),
    "RFND": lambda f: _metres(f["Dist"], f.get("Stat", GOOD) == GOOD),
    "WATER_DEPTH": lambda f: _metres(f["distance"]),
    "DISTANCE_SENSOR": lambda f: _metres(f["current_distance"] / 100),
    "RANGEFINDER": lambda f: _metres(f["distance"]),
}


def _beam(roll: float, pitch: float, yaw: float) -> tuple[float, float, float]:
    """The direction of a downward sonar (north, east, down), from angles in rad."""
    across, along = math.sin(roll), math.cos(roll) * math.sin(pitch)
    return (
        along * math.cos(yaw) + across * math.sin(yaw),
        along * math.sin(yaw) - across * math.cos(yaw),
        math.cos(roll) * math.cos(pitch),
    )


#: The attitude in messages, as the sonar's direction.
ATTITUDES: dict[str, Callable[[Fields], tuple[float, float, float]]] = {
    "ATT": lambda f: _beam(*(math.radians(f[name]) for name in ("Roll", "Pitch", "Yaw"))),
    "ATTITUDE": lambda f: _beam(*(float(f[name]) for name in ("roll", "pitch", "yaw"))),
}


WANTED = {*ATTITUDES, *POSITIONS, *DEPTHS}


def is_dataflash(path: Path, head: bytes) -> bool:
    """Whether a file is ArduPilot's own log."""
    return head.startswith(DATAFLASH)


def is_telemetry(path: Path, head: bytes) -> bool:
    """Whether a file is the log of a ground station: a time before each frame."""
    return path.suffix.lower() == ".tlog" or (
        len(head) > 9 and head[0] == 0 and head[1] < 8 and head[8] in FRAMES and b"\0" in head[:64]
    )


def is_json_recording(path: Path, head: bytes) -> bool:
    """Whether an MCAP file has messages in JSON, as BlueOS records them."""
    if path.suffix != ".mcap":
        return False
    try:
        _, encoding, _ = next(_records(path))
    except (StopIteration, ImportError):
        return False
    except Exception:  # whatever a torn file makes the library raise: its reader says so
        return False
    return encoding == "json"


def read_mavlink(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths of ArduPilot (DPTH, RFND at POS, GPS), or of MAVLink (WATER_DEPTH, DISTANCE_SENSOR
    downward, RANGEFINDER at GLOBAL_POSITION_INT, GPS_RAW_INT), at positions that are interpolated.

    Of several vehicles, the one with the most depths is read; of several sonars, the first with a
    depth.
    Ranges become depths at the beam's end by the attitudes (ATT, ATTITUDE), interpolated to their
    times.

    Raises:
        InputError: the file cannot be read, a library is not installed, or there are no positions
            or no depths.
    """
    every = PositionsAndDepths(memory=MemoryMeter(f"{path}: its content"))
    vehicles: dict[Any, PositionsAndDepths] = {}
    sonars: dict[tuple[Any, str], Any] = {}  # the first with a reading
    read = _recorded if path.suffix == ".mcap" else _logged
    for seconds, kind, fields in read(path, every):
        every.hear(kind, kind in WANTED)
        try:
            vehicle = fields.get(VEHICLE, 0)
            if vehicle not in vehicles:
                vehicles[vehicle] = replace(every, positions={}, depths={}, beams=[])
            found = vehicles[vehicle]
            if kind in ATTITUDES:
                found.beams.append((seconds, *ATTITUDES[kind](fields)))
            elif kind in POSITIONS:
                if (place := POSITIONS[kind](fields)) is None:
                    found.refused["no_fix"] += 1
                else:
                    found.positions.setdefault(kind, []).append((seconds, *place))
            elif kind in DEPTHS:
                sonar = fields.get("id", fields.get("Instance", 0))
                facing = _number(fields.get("orientation", fields.get("Orient", DOWN)))
                depth, out = DEPTHS[kind](fields), ""
                if facing != DOWN:
                    found.refused["not_downward"] += 1  # as of an obstacle: no depth
                    continue
                if depth is None:
                    out = "no_reading"
                elif sonars.setdefault((vehicle, kind), sonar) != sonar:
                    out = "other_sonar"
                found.depths.setdefault(kind, []).append((seconds, depth or math.nan, out))
        except (KeyError, TypeError, ValueError):
            every.refused["bad_message"] += 1
    *others, own = sorted(vehicles.values(), key=_depth_count) or [every]
    for other in others:
        for kind, depths in other.depths.items():
            aside = [(seconds, depth, out or "other_vehicle") for seconds, depth, out in depths]
            own.depths.setdefault(kind, []).extend(aside)
    times = "below the sonar, time UTC where the log knows it"
    if own.beams:
        times += ", roll and pitch applied"
    return own.soundings(path, tuple(POSITIONS), tuple(DEPTHS), times)


def _depth_count(found: PositionsAndDepths) -> int:
    return sum(not out for depths in found.depths.values() for _, _, out in depths)


def _logged(path: Path, found: PositionsAndDepths) -> Iterator[tuple[float, str, Fields]]:
    """Messages of a .bin or .tlog: time in s since 1970 where it is known, kind, fields."""
    os.environ.setdefault("MAVLINK20", "1")
    os.environ.setdefault("PYMAVLINK_FAST_INDEX", "0")  # else C code prints
    with requires_extra(f"{path}: logs of ArduPilot", "pymavlink", "mavlink"):
        from pymavlink import DFReader, mavutil
    with _torn(path, found), open(os.devnull, "w") as nowhere:
        # The library prints what it does not understand.
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            own = _is_small_dataflash(path)
            log = DFReader.DFReader_binary(str(path)) if own else mavutil.mavlogfile(str(path))
        while True:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                message = log.recv_match() if own else log.recv_msg()
            if message is None:
                return
            kind = message.get_type()
            if kind == "BAD_DATA":
                found.refused["bad_message"] += 1
                continue
            fields = message.to_dict() if kind in WANTED else {}
            if not own:
                fields[VEHICLE] = message.get_srcSystem()
            yield float(message._timestamp), kind, fields


def _recorded(path: Path, found: PositionsAndDepths) -> Iterator[tuple[float, str, Fields]]:
    """Messages of a recording of BlueOS."""
    with _torn(path, found):
        for seconds, encoding, data in _records(path):
            if encoding != "json":
                continue
            try:
                tree = json.loads(data)
                fields = tree.get("message", tree)
                fields[VEHICLE] = str(tree.get("header", {}).get("system_id"))
                kind = str(fields.get("type", "without a type"))
            except (ValueError, AttributeError, RecursionError, TypeError):
                found.refused["bad_message"] += 1
                continue
            yield seconds, kind, fields


@contextlib.contextmanager
def _torn(path: Path, found: PositionsAndDepths) -> Iterator[None]:
    """Read up to where a file is torn; raises an ``InputError`` where it cannot be read at all."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except InputError:
        raise
    except Exception as error:  # each version of a library raises another
        found.refused["unreadable_rest"] += 1
        found.heard["nothing further: " + type(error).__name__] += 1


def _records(path: Path) -> Iterator[tuple[float, str, bytes]]:
    """Time in s since 1970, encoding and bytes of each message of an MCAP file, from the front."""
    with requires_extra(f"{path}: recordings", "mcap", "bags"):
        from mcap.records import Channel, Message
    encodings: dict[int, str] = {}
    try:
        with path.open("rb") as file:
            for record in mcap_records(file, path.stat().st_size):
                if isinstance(record, Channel):
                    encodings[record.id] = record.message_encoding
                elif isinstance(record, Message):
                    refuse_larger("a message", len(record.data), JSON_FACTOR)
                    yield record.log_time / SECOND, encodings[record.channel_id], record.data
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _is_small_dataflash(path: Path) -> bool:
    """Whether a file is a .bin, whose messages the library lists before it reads any.

    Raises:
        OSError: it cannot be read.
        InputError: the list takes too much memory.
    """
    with path.open("rb") as file:
        if file.read(3) != DATAFLASH:
            return False
        memory = MemoryMeter(f"{path}: the list of its messages")
        while part := file.read(2**20):
            memory.add(OFFSET_BYTES * part.count(DATAFLASH[:2]))
    return True
