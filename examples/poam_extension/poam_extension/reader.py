"""A reader: records of 28 bytes after the word SLOG, as some sounder writes them."""

from pathlib import Path

import numpy as np

from poam_ros import InputError, RawSoundings, ReaderEntry, ReadOptions

MAGIC = b"SLOG"
RECORD = np.dtype([("time", "<f8"), ("latitude", "<f8"), ("longitude", "<f8"), ("depth", "<f4")])


def recognises(path: Path, head: bytes) -> bool:
    """By the first bytes of the file; also by ``path.suffix``, if you like."""
    return head.startswith(MAGIC)


def read(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths in m below the surface, at latitude and longitude; times in s since 1970."""
    try:
        data = path.read_bytes()[len(MAGIC) :]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    found = np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)  # a torn record is left out
    raw = RawSoundings(
        place=np.column_stack((found["latitude"], found["longitude"])),
        height=found["depth"].astype(float),
        stamp_ns=np.round(1e9 * np.nan_to_num(found["time"])).astype(np.int64),
        understood="latitude, longitude, depth (m) of SLOG, time UTC",
        layout=f"{len(found)} records",
    )
    return raw.without({"no_time": ~np.isfinite(found["time"])})


SLOG = ReaderEntry(read, "log of a SLOG sounder", recognises)
