"""A reader of Lowrance's .sl2 and .sl3, by the library sllib (MIT)."""

from pathlib import Path

import numpy as np

from poam_ros import InputError, RawSoundings, ReaderEntry, ReadOptions

PRIMARY = 0  # channel of the downward sonar


def recognises(path: Path, head: bytes) -> bool:
    """By the ending."""
    return path.suffix.lower() in (".sl2", ".sl3")


def read(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths of the primary sonar below the transducer; times in s since the start."""
    try:
        from sllib import create_reader
    except ImportError:
        raise InputError(f"{path}: needs sllib (pip install sllib)") from None
    rows = []
    try:
        with create_reader(path) as frames:
            for frame in frames:
                if frame.channel == PRIMARY and frame.has_position:
                    place = frame.latitude, frame.longitude
                    rows.append((frame.time1 / 1000, *place, frame.water_depth_m))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except Exception as error:  # what the library raises at a torn end
        if not rows:
            raise InputError(f"{path}: no file of Lowrance ({error})") from None
    found = np.array(rows).reshape(-1, 4)
    return RawSoundings(
        place=found[:, 1:3],
        height=found[:, 3],
        stamp_ns=np.round(1e9 * found[:, 0]).astype(np.int64),
        understood="positions and depths (m) of the primary sonar, time from the start",
        layout=f"{len(found)} frames",
    )


LOWRANCE = ReaderEntry(read, "log of a Lowrance sounder (.sl2, .sl3)", recognises)
