"""Logs of ArduPilot and of ground stations for files of tests: a sounding each second."""

from __future__ import annotations

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

    described = [(128, "FMT", 89, "BBnNZ", "Type,Length,Name,Format,Columns")]
    described += [
        (number, name, 3 + struct.calcsize(form), letters, columns)
        for name, (number, form, letters, columns) in KINDS.items()
    ]
    head = b"".join(
        bytes([0xA3, 0x95, 128])
        + struct.pack("<BB4s16s64s", number, size, *(each.encode() for each in texts))
        for number, name, size, letters, columns in described
        for texts in [(name, letters, columns)]
    )
    parts = []
    for i, depth in enumerate(at.depth):
        us = 1_000_000 * (i + 5)
        place = round(1e7 * at.latitude[i]), round(1e7 * at.longitude[i])
        parts.append(record("GPS", us, 3, 1000 * i + 345_600_000, 2369, *place))
        parts.append(record("RFND", us + 500_000, 0, depth, 4, 25))
    path.write_bytes(head + b"".join(parts))
    return _begins(head, parts)


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
