"""A reader of Lowrance's .sl2 and .sl3, by the library sonarlight (MIT)."""

from pathlib import Path

import numpy as np

from poam_ros import InputError, RawSoundings, ReaderEntry, ReadOptions


def recognises(path: Path, head: bytes) -> bool:
    """By the ending."""
    return path.suffix.lower() in (".sl2", ".sl3")


def read(path: Path, options: ReadOptions) -> RawSoundings:
    """Depths of the primary sonar below the transducer."""
    try:
        from sonarlight import Sonar
    except ImportError:
        raise InputError(f"{path}: needs sonarlight (pip install sonarlight)") from None
    try:
        table = Sonar(str(path)).df.query("survey == 'primary'")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except Exception as error:  # whatever the library raises at bytes of something else
        raise InputError(f"{path}: no file of Lowrance ({error})") from None
    return RawSoundings(
        place=table[["latitude", "longitude"]].to_numpy(float),
        height=table["water_depth"].to_numpy(float),
        stamp_ns=table["datetime"].to_numpy("datetime64[ns]").astype(np.int64),
        understood="positions and depths (m) of the primary sonar",
        layout=f"{len(table)} frames",
    )


LOWRANCE = ReaderEntry(read, "log of a Lowrance sounder (.sl2, .sl3)", recognises)
