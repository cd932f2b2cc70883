"""`poam repair`: check a mission folder and repair what can be repaired."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...core.errors import InputError, pasted, quantity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mission", type=Path, metavar="DIR",
        help="Mission folder that no node is using, or a folder of results. Files are copied to a "
        "folder damaged-... in it before they are changed.")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Check and repair; returns the exit status."""
    from ...core.files import CHECKSUMS
    from ...journal.folder import MissionFolder, is_journal
    from ...mission.guidance import MISSION, repair

    path: Path = args.mission.expanduser()
    if not is_journal(path) and not any((path / name).is_file() for name in (MISSION, CHECKSUMS)):
        raise InputError(f"{path}: expected a mission folder, or one with {CHECKSUMS}")
    damage, pings = [], 0
    if is_journal(path):
        folder = MissionFolder(path, {}, salvage=True)
        damage, pings = folder.damage, folder.most
        folder.close()
    if (path / MISSION).is_file():
        damage += repair(path, pings if is_journal(path) else 2**63)
    for listing in sorted(path.rglob(CHECKSUMS)):
        damage += _remove_damaged(listing.parent)
    for text in damage:
        print(text)
    counted = f"{quantity(pings, 'ping')}, " if is_journal(path) else ""
    print(f"{path}: {counted}{'repaired' if damage else 'nothing is damaged'}")
    return 0


def _remove_damaged(folder: Path) -> list[str]:
    """Set aside the files that differ from the folder's checksums; returns which, as text."""
    from ...core.files import damaged_files
    from ...journal.database import set_aside
    from ...journal.folder import is_journal

    damaged = damaged_files(folder)
    place = set_aside(folder, damaged) if damaged else folder
    for file in damaged:
        file.unlink()
    again = "make these results again"
    if is_journal(folder):
        again = f"the results again from the journal: {pasted('map', folder)}"
    return [f"{file} was damaged and is in {place}; {again}" for file in damaged]
