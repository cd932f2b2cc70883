"""The input of `poam map`: tables, a recording, or a mission folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError, shown
from ..core.geometry import Extent
from ..core.reading import refuse_larger
from ..core.settings import instance, rows
from ..frontend.pings import FrontEndSettings
from ..importers.bags import BagSettings
from ..journal.folder import MAY_DIFFER, RecordedMission, read_mission
from ..mapping.soundings import LINE, MAP_DEFAULTS, SoundingMapSettings
from ..models.prior import PriorMap
from ..models.registry import ModelSettings, model_rows
from ..ros.parameters import VEHICLE
from ..screening import ScreeningSettings

if TYPE_CHECKING:
    from ..importers.readers import ReaderEntry
    from ..mapping.exclusions import Exclusion
    from ..mapping.soundings import Soundings

#: The settings of models, with the defaults of `poam map`.
MODEL = tuple(
    replace(row, default=MAP_DEFAULTS[row.name]) if row.name in MAP_DEFAULTS else row
    for row in model_rows()
)
#: Screening is on by default.
SCREENING = tuple(
    replace(row, default=True) if row.name == "screening.enabled" else row
    for row in rows(ScreeningSettings)
)
#: The front end's settings for recordings. `poam map` has a margin and a water level of its own for
#: every log; frames are looked up in tf2, which needs a live graph.
FRONT_END = tuple(
    row
    for row in rows(FrontEndSettings)
    if row.name not in ("odometry.max_outside", "sonar.base_frame", "water.level")
)
#: Settings of the front end that can be given for a table, and for a mission folder.
SPEEDS, CONFIDENCE = ("water.sound_speed", "sonar.sound_speed"), "sonar.min_confidence"
OF_TABLES, OF_MISSIONS = (*SPEEDS, CONFIDENCE), SPEEDS[:1]
#: Options of soundings that nobody has placed yet: their names here, and on the command line.
PLACED = {
    "draught": "--draught (sonar.offset)", "near": "--near", "levels": "--water-level FILE",
    "workspace_degrees": "--workspace-degrees",
}  # fmt: skip
CROP = ("start", "stop")
#: Settings with an option of their own, as it is typed.
TYPED = {
    "odom_topic": "--odom-topic", "range_topic": "--range-topic", CONFIDENCE: "--min-confidence",
}  # fmt: skip
CELL_BYTES = 48  # of a map in memory
#: For recordings and missions, so that the map is the same as on the vehicle.
LIVE_DEFAULTS: Mapping[str, Any] = {"stretches": 0}


@dataclass(frozen=True)
class MappingJob:
    """What is mapped, and how. ``resolution``: cell size of the mission's maps, in m, or None."""

    soundings: Soundings
    workspace: Extent
    settings: SoundingMapSettings
    resolution: float | None


def read(args: argparse.Namespace) -> MappingJob:
    """The soundings of the log and the settings of the map.

    Raises:
        InputError: options do not fit each other or the log, or the log cannot be read.
    """
    from ..importers.readers import MISSION, READERS, RECORDING, find_reader

    args.levels, args.exclusions = None, _exclusions(args)
    if isinstance(vars(args).get("water.level"), Path):
        args.levels = args.__dict__.pop("water.level")
    names = [find_reader(path, args.reader) for path in args.logs]
    mission, bag = names[0] == MISSION, names[0] == RECORDING
    if (mission or bag) and len(names) > 1:
        raise InputError(f"{args.logs[1]}: a {READERS[names[0]].kind} is mapped alone")
    readers = [READERS[name] for name in names]
    _check(args, mission, readers)
    past = read_mission(args.log) if mission else None
    values: Mapping[str, Any] = MAP_DEFAULTS
    if past is not None:
        values = {**LIVE_DEFAULTS, **past.mapper, **past.settings}
    elif bag:
        values = {**LIVE_DEFAULTS, "method": VEHICLE["method"]}
    settings = _settings({**values, **vars(args)}, args, past)
    soundings = _excluded(args, _read(args, settings, past))
    if past is not None and _changes_model(args, past):
        soundings = replace(soundings, steps=None)
    if vars(args).get("batch.first") or vars(args).get("batch.size"):  # else the live mapper's
        soundings = replace(soundings, batch=None)
    if args.by == LINE and not soundings.names:
        soundings = soundings.grouped_by_line()
    if args.workspace_degrees:
        args.workspace = _in_metres(args.workspace_degrees, soundings)
    bounds = args.workspace or (past.settings["workspace"] if past is not None else None)
    workspace = Extent.of(bounds) if bounds else soundings.workspace(args.map_margin)
    if not bag:  # the front end has done so for a recording, with its own margin
        soundings = _in_workspace(args, soundings, workspace)
    resolution = None if past is None else _resolution(args, past, workspace)
    return MappingJob(_calibrated(args, soundings, settings), workspace, settings, resolution)


def _resolution(args: argparse.Namespace, past: RecordedMission, workspace: Extent) -> float | None:
    """The cell size of the mission's maps, in m; None: unknown.

    Raises:
        InputError: such a map would take more memory than allowed, and no other size is given.
    """
    size = past.mapper.get("resolution")
    if size and not args.resolution:
        cells = float((workspace.size / size).prod())
        refuse_larger(f"{past.path}: a map with its resolution of {size:g} m", cells, CELL_BYTES)
    return size


def _prior(
    args: argparse.Namespace, past: RecordedMission, values: Mapping[str, Any]
) -> PriorMap | None:
    """The prior that the mission had, unless another is given.

    Raises:
        InputError: it is missing or damaged.
    """
    if "prior" in vars(args) or not values.get("prior"):
        return None
    folder = past.path.parent
    prior = PriorMap.of_folder(folder)
    if prior is None and folder.name.startswith("reset-"):
        prior = PriorMap.of_folder(folder.parent)
    if prior is None:
        raise InputError(
            f"{folder}: expected the prior of the mission, prior.npz, which is not there; to map "
            "without one, give --prior ''"
        )
    return prior


def _check(args: argparse.Namespace, mission: bool, readers: Sequence[ReaderEntry]) -> None:
    """Refuse options that do not fit this kind of log.

    Raises:
        InputError: one does not.
    """
    from ..importers.readers import FRONT_END as LIVE
    from ..importers.readers import OPTIONS, READERS, RECORDING

    kind, bag = readers[0].kind, readers[0] is READERS[RECORDING]
    heeded = {name for reader in readers for name in reader.heeds}
    useless = {name: f"--{name}" for name in OPTIONS if name not in heeded}
    if mission or bag:
        useless |= PLACED
    for name, option in useless.items():
        if getattr(args, name):
            raise InputError(f"{option}: does not apply to a {kind} ({args.log})")
    given = vars(args).keys() - args.in_files  # a vehicle's file has what its recordings need
    settings = {row.name for row in (*FRONT_END, *rows(BagSettings))} - set(CROP)
    if bag or all(LIVE in reader.heeds for reader in readers):
        settings = set()
    for name in sorted(settings.difference(OF_MISSIONS if mission else OF_TABLES) & given):
        option = TYPED.get(name, f"--set {name}")
        raise InputError(f"{option}: does not apply to a {kind} ({args.log})")
    if args.by not in (None, LINE) and (mission or bag):
        raise InputError(
            f"--by: expected {LINE} (lines found in the track), as {args.log} has no columns; got "
            f"{args.by}"
        )
    if args.map_margin is not None and mission:
        raise InputError("--margin: not allowed with a mission, which has its own workspace")


def _settings(
    values: Mapping[str, Any], args: argparse.Namespace, past: RecordedMission | None
) -> SoundingMapSettings:
    """The settings of the map; ``past``: the mission, if it is one's."""
    method = str(values["method"])
    if past and ":" in method and "method" not in args:  # an import of what a file names
        raise InputError(
            f"{past.path}: its model {shown(method)} comes from another package; to load it, give "
            f"--method {shown(method)}"
        )
    own = {name: values[name] for name in ("seed", "water.level") if name in values}
    settings = instance(
        SoundingMapSettings,
        {**vars(args), **own},
        model=ModelSettings.of(values),
        screening=instance(ScreeningSettings, {"screening.enabled": True, **values}),
    )
    if past is None:
        return settings
    if past.mapper.get("screening.enabled", True):  # screened when accepted
        settings = replace(settings, screening=ScreeningSettings())
    return replace(settings, prior=_prior(args, past, values))


def _read(
    args: argparse.Namespace, settings: SoundingMapSettings, past: RecordedMission | None
) -> Soundings:
    """The soundings of the logs; ``past``: the mission, if the log is one's."""
    from ..importers.levels import WaterLevels
    from ..importers.options import read_mapping
    from ..importers.raw import ReadOptions
    from ..importers.readers import read_soundings
    from ..mapping.crossed import BOATS
    from ..mapping.exclusions import DAY, needed

    options_given = vars(args)
    scale = instance(
        FrontEndSettings, {name: options_given[name] for name in SPEEDS if name in options_given}
    )
    crop = {name: options_given[name] for name in CROP if name in options_given}
    mapping = read_mapping(args.columns)
    levels = None if args.levels is None else WaterLevels.read(args.levels)
    options = ReadOptions(
        mapping, args.by, settings.water_level, levels, args.draught, scale.sound_scale, **crop,
        units=args.units or "", crs=args.crs, settings={**options_given, "mission": past},
        labels=needed(args.exclusions) | (BOATS if args.calibrate else frozenset()),
        times=args.calibrate or DAY in needed(args.exclusions),
        trusted=args.trusted, min_confidence=options_given.get(CONFIDENCE), keel=args.keel,
        near=tuple(args.near) if args.near else None,
    )  # fmt: skip
    records = read_soundings(args.logs, options, args.reader)
    for line in records.source.get("files", [records.source]):
        said = "; ".join(filter(None, map(line.get, ("understood", "written"))))
        print(f"{line.get('file', args.log.name or args.log)}: {said}")
    if levels is not None:
        print(f"water level: {levels.description}")
    return records


def _exclusions(args: argparse.Namespace) -> list[Exclusion]:
    """Those of ``--exclude``, and of ``edits.csv`` in or beside each log or in the run's folder."""
    from ..mapping.exclusions import EDITS, read_edits, read_option

    folders = [path if path.is_dir() else path.parent for path in args.logs]
    edits = dict.fromkeys((folder / EDITS).resolve() for folder in (*folders, args.folder))
    rules = [read_option(text) for text in args.exclude]
    return rules + [each for path in edits for each in read_edits(path)]


def _calibrated(
    args: argparse.Namespace, soundings: Soundings, settings: SoundingMapSettings
) -> Soundings:
    """The soundings without what crossings show to be constant errors, with ``--calibrate``."""
    if not args.calibrate:
        return soundings
    from ..mapping.calibration import calibrated
    from ..mapping.crossed import WORST

    soundings, estimates = calibrated(soundings, settings)
    for sentence in estimates.sentences(WORST):
        print(f"calibration: {sentence}")
    return soundings


def _excluded(args: argparse.Namespace, soundings: Soundings) -> Soundings:
    """The soundings without those that a person left out."""
    from ..mapping.exclusions import exclude

    soundings = soundings.with_lines()  # what is left out does not renumber the others
    if not args.exclusions:
        return soundings
    soundings = exclude(soundings, args.exclusions, args.logs)
    for sentence in soundings.excluded:
        print(sentence)
    return soundings


def _changes_model(args: argparse.Namespace, past: RecordedMission) -> bool:
    """Whether an option changes what the mission's model learned."""
    model = {row.name for row in MODEL} - set(MAY_DIFFER)
    given = model.union(("seed", "batch.first", "batch.size")).intersection(vars(args))
    others = [name for name in given if vars(args)[name] != past.settings.get(name)]
    return bool(others or args.workspace)


def _in_metres(degrees: list[float], soundings: Soundings) -> tuple[float, ...]:
    """The limits of ``--workspace-degrees`` as those of ``--workspace``."""
    from ..mavlink.frame import extent_of

    if soundings.projection is None:
        raise InputError("--workspace-degrees: expected soundings in degrees, got metres")
    return extent_of(soundings.projection, degrees, "--workspace-degrees").bounds


def _in_workspace(args: argparse.Namespace, soundings: Soundings, workspace: Extent) -> Soundings:
    """The soundings within ``--workspace``, if it is given."""
    if not args.workspace:
        return soundings
    soundings = soundings.within(workspace)
    if not len(soundings):
        raise InputError(f"--workspace: no soundings of {args.log} lie inside it")
    return soundings
