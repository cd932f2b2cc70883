"""Logs of ArduPilot and of ground stations for files of tests: a sounding each second."""

from __future__ import annotations

import math
import struct

#: Messages of a .bin: number, format of struct, format and columns of the log.
KINDS = {
    "GPS": (130, "<QBIHii", "QBIHLL", "TimeUS,Status,GMS,GWk,Lat,Lng"),
    "RFND": (131, "<QBfBB", "QBfBB", "TimeUS,Instance,Dist,Stat,Orient"),
}


def dataflash(path, at, begin):
    """Write a .bin; returns where its records begin behind the descriptions."""

    def record(name, *values):
        number, form, *_ = KINDS[name]
        return bytes([0xA3, 0x95, number]) + struct.pack(form, *values)

    head = _described(KINDS)
    parts = []
    for i, depth in enumerate(at.depth):
        us = 1_000_000 * (i + 5)
        place = round(1e7 * at.latitude[i]), round(1e7 * at.longitude[i])
        parts.append(record("GPS", us, 3, 1000 * i + 345_600_000, 2369, *place))
        parts.append(record("RFND", us + 500_000, 0, depth, 4, 25))
    path.write_bytes(head + b"".join(parts))
    return _begins(head, parts)


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


def write_dataflash(path, record):
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


def telemetry(path, at, begin):
    """Write a .tlog; returns where its records begin."""
    from pymavlink.dialects.v20 import ardupilotmega as dialect

    link, parts = dialect.MAVLink(None, srcSystem=1), []
    for i, depth in enumerate(at.depth):
        us = int(begin.timestamp() * 1e6) + 1_000_000 * i
        place = round(1e7 * at.latitude[i]), round(1e7 * at.longitude[i])
        for message in (
            dialect.MAVLink_global_position_int_message(1000 * i, *place, 0, 0, 0, 0, 0, 0),
            dialect.MAVLink_distance_sensor_message(
                1000 * i, 10, 5000, round(100 * depth), 0, 0, 25, 0
            ),
        ):
            parts.append(struct.pack(">Q", us) + message.pack(link))
    path.write_bytes(b"".join(parts))
    return _begins(b"", parts)


def _begins(head, parts):
    begins = [len(head)]
    for part in parts[:-1]:
        begins.append(begins[-1] + len(part))
    return begins if head else begins[1:]
