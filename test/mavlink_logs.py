"""Logs of messages of MAVLink for files of tests: time (ns) and message each."""

from __future__ import annotations

import json
import math
import struct

import pytest

#: Messages of a .bin that are made of MAVLink's: number, format of struct, format and columns of
#: the log, and the values.
MADE = {
    "GPS": (130, "<QBIHii", "QBIHLL", "TimeUS,Status,GMS,GWk,Lat,Lng",
            lambda m: (m.fix_type, m.ms, m.week, m.lat, m.lon)),
    "POS": (131, "<Qiif", "QLLf", "TimeUS,Lat,Lng,RelHomeAlt",
            lambda m: (m.lat, m.lon, m.relative_alt / 1e3)),
    "ATT": (132, "<Qfff", "Qfff", "TimeUS,Roll,Pitch,Yaw",
            lambda m: tuple(math.degrees(each) for each in (m.roll, m.pitch, m.yaw))),
    "DPTH": (133, "<QBiiff", "QBLLff", "TimeUS,Inst,Lat,Lng,Depth,Temp",
             lambda m: (m.id, m.lat, m.lng, m.distance, 12.0)),
    "RFND": (134, "<QBHBB", "QBCBB", "TimeUS,Instance,Dist,Stat,Orient",
             lambda m: (m.id, m.current_distance,
                        3 if m.current_distance >= m.max_distance else 4, m.orientation)),
    "PARM": (135, "<Q16sf", "QNf", "TimeUS,Name,Value",
             lambda m: (m.param_id.encode(), m.param_value)),
}  # fmt: skip
GPS_EPOCH_NS, WEEK_NS, LEAP_NS = 315_964_800 * 10**9, 604_800 * 10**9, 18 * 10**9


def _write(path, record):
    """Write a .bin of messages of MAVLink: kind in ``MADE``, time (ns), message."""
    parts = [_described(MADE)]
    for kind, ns, message in record:
        number, form, _, _, values = MADE[kind]
        week, rest = divmod(ns - GPS_EPOCH_NS + LEAP_NS, WEEK_NS)
        message.week, message.ms = week, rest // 10**6
        us = (ns - record[0][1]) // 1000 + 60_000_000
        parts.append(bytes([0xA3, 0x95, number]) + struct.pack(form, us, *values(message)))
    path.write_bytes(b"".join(parts))


def _described(kinds):
    """The descriptions of messages, with that of a description."""
    described = [(128, "FMT", 89, "BBnNZ", "Type,Length,Name,Format,Columns")]
    described += [
        (number, name, 3 + struct.calcsize(form), letters, columns)
        for name, (number, form, letters, columns, *_) in kinds.items()
    ]
    return b"".join(
        bytes([0xA3, 0x95, 128])
        + struct.pack("<BB4s16s64s", number, size, *(each.encode() for each in texts))
        for number, name, size, letters, columns in described
        for texts in [(name, letters, columns)]
    )


#: MAVLink's messages as those of ArduPilot's own log, which has no RANGEFINDER.
DATAFLASH = {"GLOBAL_POSITION_INT": "POS", "GPS_RAW_INT": "GPS", "ATTITUDE": "ATT",
             "WATER_DEPTH": "DPTH", "DISTANCE_SENSOR": "RFND", "PARAM_VALUE": "PARM"}  # fmt: skip


def tlog(path, record):
    path.write_bytes(b"".join(
        struct.pack(">Q", ns // 1000) + bytes(message.get_msgbuf()) for ns, message in record
    ))  # fmt: skip


def blueos(path, record, change=lambda number, header, fields: None, video=False):
    """``change``: called with each message. ``video``: whether it is recorded, too."""
    writer_of = pytest.importorskip("mcap.writer").Writer
    with path.open("wb") as file:
        writer = writer_of(file)
        writer.start()
        pictures = writer.register_schema("foxglove_msgs/msg/CompressedVideo", "ros2msg", b"")
        channels: dict[str, int] = {"video": writer.register_channel("video", "cdr", pictures)}
        for number, (ns, message) in enumerate(record):
            if video and number % 5 == 0:
                writer.add_message(channels["video"], ns, bytes(99), ns)
            kind, fields = message.get_type(), message.to_dict()
            fields.pop("mavpackettype")
            if "orientation" in fields:
                fields["orientation"] = {"type": "MAV_SENSOR_ROTATION_PITCH_270"}
            if "flags" in fields:
                fields["flags"] = {"bits": fields["flags"]}
            fields["mavtype"] = fields.pop("type", None)
            header, fields = {"system_id": 1, "component_id": 1}, {**fields, "type": kind}
            change(number, header, fields)
            text = json.dumps({"header": header, "message": fields}, default=str)
            if kind not in channels:
                channels[kind] = writer.register_channel(f"mavlink/1/1/{kind}", "json", 0)
            writer.add_message(channels[kind], ns, text.encode(), ns)
        writer.finish()


def dataflash(path, record):
    _write(path, [
        (DATAFLASH[kind], ns, message) for ns, message in record
        if (kind := message.get_type()) in DATAFLASH
    ])  # fmt: skip
