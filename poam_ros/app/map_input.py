"""What `poam map` is given to map: a table, a recording, a mission's own log, or the last two."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geometry import Extent
from ..core.settings import instance, rows
from ..frontend.settings import GateSettings
from ..importers.bags import BagSettings
from ..importers.soundings import LINE, ON_MAP, SoundingMapSettings
from ..journal.folder import MAY_DIFFER, is_log
from ..journal.reader import RecordedMission, read_mission
from ..models.registry import ModelSettings
from ..ros.common.parameters import ON_ROBOT
from ..screening.screen import ScreeningSettings
from .map_options import GATE, MODEL
from .options import spelling

if TYPE_CHECKING:
    from ..importers.soundings import Soundings

#: What may be said anew of a table's soundings, and of a mission's pings; of a recording's all.
OF_TABLES, OF_MISSIONS = ("water.sound_speed", "sonar.sound_speed"), ("water.sound_speed",)
CROP = ("start", "stop")
#: A recording's map, and a mission's, is the one that the vehicle had.
AS_LIVE: Mapping[str, Any] = {"stretches": 0}


@dataclass(frozen=True)
class MappingJob:
    """What is mapped, and how; ``resolution``: of the mission's maps, in m, or None."""

    soundings: Soundings
    workspace: Extent
    settings: SoundingMapSettings
    resolution: float | None


def read(args: argparse.Namespace) -> MappingJob:
    """The log's soundings, whatever it is, and how they become a map.

    Raises:
        InputError: options do not go together or with the log, or it cannot be read.
    """
    from ..importers.bag_files import is_bag

    args.levels = None
    if isinstance(vars(args).get("water.level"), Path):
        args.levels = args.__dict__.pop("water.level")
    mission, bag = is_log(args.log), is_bag(args.log)
    _check(args, mission, bag)
    past = read_mission(args.log if mission else args.mission) if mission or args.mission else None
    if past is None:
        values: Mapping[str, Any] = {"method": ON_ROBOT["method"], **AS_LIVE} if bag else ON_MAP
        settings = _settings({**values, **vars(args)}, args)
        soundings = _recorded(args, {}) if bag else _tabled(args, settings)
        workspace = Extent.of(args.workspace) if args.workspace else soundings.workspace(args.room)
        if not bag:  # there the gate has done so, with a vehicle's margin
            soundings = _within(args, soundings, workspace)
        return MappingJob(soundings, workspace, settings, None)
    values = {**AS_LIVE, **past.mapper, **past.settings, **vars(args)}
    method = str(values["method"])
    if ":" in method and "method" not in args:  # Python's import of a module that a file names
        raise InputError(
            f"{past.path}: its model is {shown(method)}, of another package; to load it, name it: "
            f"--method {shown(method)}"
        )
    settings = _settings(values, args)
    if past.mapper.get("screening.enabled", True):  # they were screened when they were accepted
        settings = replace(settings, screening=ScreeningSettings())
    soundings = _lived(args, past) if mission else _both(args, past)
    workspace = Extent.of(values["workspace"] or past.settings["workspace"])
    if _anew(args, past):
        soundings = replace(soundings, steps=None)
    if _sized(args):
        soundings = replace(soundings, batch=None)
    if args.by:
        soundings = soundings.by_lines()
    return MappingJob(
        _within(args, soundings, workspace), workspace, settings, past.mapper.get("resolution")
    )


def _check(args: argparse.Namespace, mission: bool, bag: bool) -> None:
    """Which options go with this kind of log."""
    given = vars(args)
    recording = {row.name for row in (*GATE, *rows(BagSettings))} - set(CROP)
    allowed = recording if bag and not mission else OF_MISSIONS if mission else OF_TABLES
    for name in sorted(recording.difference(allowed).intersection(given)):
        raise InputError(f"{spelling(name)}: expected a recording with it, got {args.log}")
    if args.mission and (mission or not bag):
        raise InputError(f"--mission: expected a recording with it, got {args.log}")
    for name, value in (
        ("columns", args.columns), ("units", args.units), ("crs", args.crs),
        ("water-level", args.levels),
    ):  # fmt: skip
        if value and (mission or bag):
            raise InputError(f"--{name}: expected a table of soundings with it, got {args.log}")
    if args.by not in (None, LINE) and (mission or bag):
        raise InputError(
            f"--by: expected {LINE} (found in the track; {args.log} has no columns), got {args.by}"
        )
    if args.room is not None and (mission or args.mission):
        raise InputError("--margin: expected no mission with it, which has a workspace")


def _settings(values: Mapping[str, Any], args: argparse.Namespace) -> SoundingMapSettings:
    own = {name: values[name] for name in ("seed", "water.level") if name in values}
    return instance(
        SoundingMapSettings,
        {**vars(args), **own},
        model=ModelSettings.of(values),
        screening=instance(ScreeningSettings, {"screening.enabled": True, **values}),
    )


def _tabled(args: argparse.Namespace, settings: SoundingMapSettings) -> Soundings:
    """Of a CSV file."""
    from ..importers.columns import read_mapping
    from ..importers.levels import WaterLevels
    from ..importers.tables import TableFormat, read_soundings

    given = vars(args)
    scale = instance(GateSettings, {name: given[name] for name in OF_TABLES if name in given})
    crop = {name: given[name] for name in CROP if name in given}
    mapping = read_mapping(args.columns)
    levels = None if args.levels is None else WaterLevels.read(args.levels)
    table = TableFormat(
        mapping, args.by, settings.water_level, levels, scale.sound_scale, **crop,
        units=args.units or "", crs=args.crs,
    )  # fmt: skip
    found = read_soundings(args.log, table)
    print(f"{args.log.name}: {found.source['said']}; {found.source['layout']}")
    if levels is not None:
        print(f"water level: {levels.said}")
    return found


def _recorded(args: argparse.Namespace, known: Mapping[str, Any], crop: bool = True) -> Soundings:
    """Of a recording; ``known``: how the mission's mapper placed pings."""
    from ..importers.bags import read_bag

    given = {**known, **vars(args)}
    bounds = args.workspace or known.get("workspace")
    gate = instance(
        GateSettings,
        {name: value for name, value in given.items() if name != "sonar.base_frame"},
        workspace=Extent.of(bounds) if bounds else None,
    )
    names = [row.name for row in rows(BagSettings) if crop or row.name not in CROP]
    heard = BagSettings(**{name: given[name] for name in names if name in given})
    soundings, reach = read_bag(args.log, heard, gate)
    for name, reason in reach.torn.items():
        print(f"{name} ends before its end ({reason}): what stands before was read")
    print(f"{100 * reach.share:.0f} % of {reach.size / 1e6:.1f} MB could be read")
    if _sized(args):
        soundings = replace(soundings, batch=None)
    return soundings.by_lines() if args.by and not known else soundings


def _lived(args: argparse.Namespace, past: RecordedMission) -> Soundings:
    """Of a mission's own log."""
    from ..importers.journals import of_log

    given = vars(args)
    soundings = of_log(past, given.get("water.sound_speed"), given.get("water.level"))
    _tell(past)
    return soundings.between(given.get("start", 0.0), given.get("stop", 0.0))


def _both(args: argparse.Namespace, past: RecordedMission) -> Soundings:
    """Of a recording of a mission, with its log."""
    from ..importers.journals import as_recorded

    given, offset = vars(args), "sonar.time_offset"
    if past.mapper.get("sonar.base_frame") and not ({"sonar.offset", "sonar.tilt"} & {*given}):
        raise InputError(
            "--sonar.offset, --sonar.tilt: expected how the sonar was mounted; the mission's "
            "mapper had it from tf2"
        )
    known = {**past.mapper, "workspace": past.settings["workspace"]}
    recorded = _recorded(args, known, crop=False)
    then, now = (float(values.get(offset, 0.0)) for values in (past.mapper, {**known, **given}))
    soundings, agreed = as_recorded(past, recorded, round((now - then) * SECOND))
    _tell(past)
    print(
        f"{agreed.shared} of these pings are in the recording, at most {agreed.farthest:.3g} m "
        f"from where the log has them; {agreed.missing} are in the log alone, {agreed.beyond} in "
        "the recording alone"
    )
    return soundings.between(given.get("start", 0.0), given.get("stop", 0.0))


def _tell(past: RecordedMission) -> None:
    pings, steps = past.logged.samples, past.logged.steps
    print(f"{past.path}: {len(pings)} accepted pings, {len(steps)} steps of its model")


def _anew(args: argparse.Namespace, past: RecordedMission) -> bool:
    """Whether something was said by which the mission's model would have gone another way."""
    model = {row.name for row in MODEL} - set(MAY_DIFFER)
    said = model.union(("seed", "batch.first", "batch.size")).intersection(vars(args))
    others = [name for name in said if vars(args)[name] != past.settings.get(name)]
    return bool(others or args.workspace)


def _sized(args: argparse.Namespace) -> bool:
    """Whether batches are of given sizes, not those of a live mapper."""
    given = vars(args)
    return bool(given.get("batch.first") or given.get("batch.size"))


def _within(args: argparse.Namespace, soundings: Soundings, workspace: Extent) -> Soundings:
    """Those that ``--workspace`` asks for."""
    if not args.workspace:
        return soundings
    soundings = soundings.within(workspace)
    if not len(soundings):
        raise InputError(f"--workspace: expected one with soundings of {args.log}, got none")
    return soundings
