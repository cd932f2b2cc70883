"""The table of readers: which kinds of files become soundings, and by which function."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, PoamError, Question
from ..core.settings import Table
from ..journal.folder import is_journal
from ..mapping.soundings import Soundings
from .bags import is_bag, read_recording
from .journals import read_journal
from .look import look
from .mavlink import is_mavlink, read_mavlink
from .nmea import is_nmea, read_nmea
from .options import ReadOptions, Unclear
from .points import is_features, is_gpx, is_signalk, read_features, read_gpx, read_signalk
from .raw import RawSoundings, place
from .tables import is_table, read_table

log = logging.getLogger(__name__)

#: Reads a file. It returns soundings as the file has them, or such as are placed in m already.
Read = Callable[[Path, ReadOptions], RawSoundings | Soundings]
#: Number of bytes at the beginning of a file by which readers recognise it.
HEAD = 65_536
#: What cannot be read, by the ending of its name, and how it becomes what can.
CONVERTED = {
    "xlsx xls ods numbers": "a spreadsheet: save its sheet as CSV",
    "sl2 sl3 slg": "a recording of Lowrance: install the reader of docs/extend.md, or convert it "
    "to CSV (by the Python library sonarlight)",
    "dat son idx": "a recording of Humminbird: export it as CSV (HumViewer, PyHum)",
    "rsd adm": "a file of Garmin: export tracks with depths as GPX (HomePort)",
    "xtf jsf s7k all kmall gsf hsx": "a survey of a multibeam or side-scan sonar: export soundings "
    "as x, y, z (MB-System: mblist)",
    "tif tiff nc grd asc": "a grid: convert it to points (gdal_translate -of XYZ)",
    "bag": "a recording of ROS 1 (rosbags-convert makes one of ROS 2), or a grid (gdal_translate "
    "-of XYZ)",
    "fit": "a file of Garmin FIT: convert it to GPX or CSV (gpsbabel)",
    "zip 7z rar gz bz2 xz zst zstd": "compressed: unpack it first (recordings of ROS 2: ros2 bag "
    "convert)",
}
#: The same by the first bytes. Of canboat: time, priority, PGN, source, destination, length, bytes.
NMEA_2000 = "a log of NMEA 2000: convert it to NMEA 0183 (canboat: n2kd)"
BYTES = {
    rb"[\d-]{10}[T-][\d:.,]+Z?,\d,\d{5,6},\d+,\d+,\d+(,[0-9a-fA-F]{2})+\s": NMEA_2000,
    rb"\(\d+\.\d+\) +\w+ +[0-9A-F]{8}(#| +\[)": NMEA_2000,  # candump
    rb"\d\d:\d\d:\d\d\.\d+ [RT] [0-9A-F]{8}( [0-9A-F]{2})+\s": NMEA_2000,  # Yacht Devices
    rb"[^\s,]+(,[^\s=,]+=[^\s=,]+)* [^\s=]+=\S+ \d{10,19}\s":
    "InfluxDB's line protocol: export it as CSV (influx query --raw)",
    rb"[\d-]+ [\d:.]+: \w+ \{": "what mavlogdump.py printed: give the .tlog or .bin itself",
    rb"ULog\x01": "a log of PX4: convert it to CSV (ulog2csv)",
    rb"\s*(<\?xml[^>]*>\s*)?<TrainingCenter": "a file of Garmin TCX, which has no depths",
    rb"\0\0\0.(\0P\0i\0n\0g\0V|PingV)": "a log of Ping Viewer, which has no positions: record "
    "telemetry (.tlog) or BlueOS's recording (.mcap)",
    rb"BR.*session_devices": "a log of Cerulean's SonarView: export its depths as CSV",
    rb"[\xfd\xfe][\x05-\xf0].{5,18}[\xfd\xfe\0]": "a stream of MAVLink without times: give the "
    ".tlog that was recorded beside it",
}  # fmt: skip
#: Further questions, whose first answers are tried with an answer.
FURTHER = 2
MISSION, RECORDING, TABLE = "mission", "recording", "table"
#: Options that say what a file means, so that not every kind has them. A reader finds their values
#: in ``ReadOptions``.
OPTIONS = ("columns", "units", "crs", "keel")
#: What readers whose pings pass through the live front end heed: its settings.
FRONT_END = "front_end"


@dataclass(frozen=True)
class ReaderEntry:
    """One row of the table.

    Attributes:
        read: returns the soundings of a file; raises ``InputError`` where it has none, or is no
            such file.
        kind: of file, in words.
        recognises: whether a file is of this kind, by its path and its first ``HEAD`` bytes (of a
            folder none). Without it the reader reads what ``--reader`` gives it.
        heeds: the options that it heeds, of ``OPTIONS``, and ``FRONT_END``.
    """

    read: Read
    kind: str = "file of another package's kind"
    recognises: Callable[[Path, bytes], bool] = lambda path, head: False
    heeds: tuple[str, ...] = ()


#: Every reader, by name, in the order in which they are asked whether a file is theirs.
READERS: Table[ReaderEntry] = Table(
    "poam_ros.readers",
    ReaderEntry,
    {
        MISSION: ReaderEntry(read_journal, "folder of a mission", lambda path, _: is_journal(path)),
        # Before recordings of ROS, as BlueOS's are MCAP, too. ``columns`` has the name of a sonar.
        "mavlink": ReaderEntry(read_mavlink, "log of MAVLink", is_mavlink, ("columns", FRONT_END)),
        RECORDING: ReaderEntry(
            read_recording, "rosbag2 recording (folder, .mcap, .db3)", lambda path, _: is_bag(path)
        ),
        "gpx": ReaderEntry(
            read_gpx, "file of GPX with depths", is_gpx, ("columns", "units", "keel")
        ),
        "features": ReaderEntry(
            read_features, "file of GeoJSON, GeoPackage or Shapefile", is_features, OPTIONS
        ),
        "signalk": ReaderEntry(
            read_signalk, "log of Signal K or InfluxDB", is_signalk, ("columns", "keel")
        ),
        "nmea": ReaderEntry(read_nmea, "log of NMEA 0183 sentences", is_nmea, ("columns", "keel")),
        TABLE: ReaderEntry(read_table, "table of text (CSV)", is_table, OPTIONS),
    },
    made=partial(ReaderEntry, heeds=OPTIONS),  # a function alone does not say which it heeds
)


def find_reader(path: Path, name: str = "") -> str:
    """The name of the reader of a file: the given one, or the first that recognises it.

    Readers of other packages are asked before that of tables, which takes all text.

    Raises:
        InputError: there is no such file or reader, or none recognises it.
    """
    others = f" (installed: {', '.join(READERS.others)})" if READERS.others else ""
    if name and name not in READERS:
        every = ", ".join(READERS)
        raise InputError(f"--reader: expected one of {every}, or module:name{others}, got '{name}'")
    if name:
        return name
    try:
        head = b""
        if not path.is_dir():
            with path.open("rb") as file:
                head = file.read(HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for begin, what in BYTES.items():
        if re.match(begin, head, re.DOTALL):
            raise InputError(f"{path}: cannot be read, as it is {what}")
    for each in (*(own for own in READERS if own != TABLE), *READERS.others, TABLE):
        try:
            if READERS[each].recognises(path, head):
                return each
        except InputError as error:  # of a package whose reader cannot be loaded
            log.warning("reader %s", error)
    for endings, what in CONVERTED.items():
        if path.suffix[1:].lower() in endings.split():
            raise InputError(f"{path}: cannot be read, as it is {what}")
    kinds = "; ".join(f"{own}: {READERS[own].kind}" for own in READERS)
    raise InputError(
        f"{path}: no reader recognises this file ({kinds}). To choose one, also from another "
        f"package: --reader NAME, or --reader module:name{others}"
    )


def read_soundings(
    paths: Path | Sequence[Path], options: ReadOptions | None = None, reader: str = ""
) -> Soundings:
    """The soundings of one or more files as one record.

    Args:
        paths: of the files, in order.
        options: how they are read.
        reader: name of a row of ``READERS``, or module:name; empty: as each file is recognised.

    Raises:
        Question: names or values of a file leave open what they mean, or cannot be right.
        InputError: a file cannot be read, has no soundings, or does not go with the others.
    """
    paths, options = [paths] if isinstance(paths, Path) else paths, options or ReadOptions()
    found: dict[Path, RawSoundings] = {}
    for path in paths:
        name = find_reader(path, reader)
        if path in found:
            raise InputError(f"{path}: this file was given twice")
        if found and options.near is None and (first := found[paths[0]]).degrees:
            latitude, longitude = np.median(first.place[first.kept], axis=0).tolist()
            options = replace(options, near=(latitude, longitude))
        soundings, _ = _understood(path, options, name)
        if isinstance(soundings, Soundings):
            if len(paths) > 1:
                raise InputError(f"{path}: a {READERS[name].kind} is mapped alone")
            return soundings
        found[path] = soundings
    return place(found, options)


def _understood(
    path: Path, options: ReadOptions, name: str, tried: int = 0
) -> tuple[Any, ReadOptions]:
    """The soundings of a file, if they can be right, and how they are read. Answers are ``tried``
    with the first answers to so many further questions; then only the options count.

    Raises:
        Question: with those answers by which the file becomes a map.
    """
    try:
        found = _read(path, options, name)
        if tried and isinstance(found, RawSoundings):
            place({path: found}, options)
        return found, options
    except Unclear as error:
        asked = error
    every = {when: options.answered(fields) for when, fields in asked.answers.items()}
    right, readers = dict[str, ReadOptions](), logging.getLogger(__package__)
    level, most = readers.level, 1 if tried else asked.most
    for when, own in every.items() if tried <= FURTHER else ():
        if tried and (own.trusted or not options.columns.items() <= own.columns.items()
                      or options.near not in (None, own.near)):  # fmt: skip
            continue
        try:
            readers.setLevel(logging.ERROR)  # what is only tried warns of nothing
            right[when] = _understood(path, own, name, tried + 1)[1]
        except InputError:
            continue
        finally:
            readers.setLevel(level)
        if len(right) == most:
            break
    if tried:
        for own in right.values():
            return None, own
        raise asked
    if asked.guess and len(left := right or every) == 1:
        ((when, own),) = left.items()
        if own is every[when]:  # what is wrong with it is asked
            return _understood(path, own, name)
    raise Question(asked.text, {
        when + f", in {found.units}" * (found.units != every[when].units): found.words
        for when, found in right.items()
    })  # fmt: skip


def _read(path: Path, options: ReadOptions, name: str) -> RawSoundings | Soundings:
    """As a row of the table reads it, as far as these are readings. What another package's reader
    does wrong is an ``InputError``."""
    try:
        found = READERS[name].read(path, options)
    except PoamError:
        raise
    except Exception as error:
        if name in list(READERS):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"{path}: cannot be read by the reader {name} ({reason})") from error
    if isinstance(found, RawSoundings):
        return found.checked(path, options)
    if not isinstance(found, Soundings):
        raise InputError(f"{name}: expected RawSoundings, got {type(found).__name__}")
    ranges = found.samples(0.0).range
    known = np.isfinite(ranges)  # of tables that another program wrote, none may be
    try:
        if not options.trusted:
            look(str(path), found.xy[known], ranges[known])
    except Unclear as asked:  # a vehicle's log is not read again for its answers
        words = {when: options.answered(each).words for when, each in asked.answers.items()}
        raise Question(asked.text, words) from None
    return found
