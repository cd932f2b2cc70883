"""Settings as options of a command: name, type, choices, help and default of each from its row."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NoReturn

from ..core.errors import InputError
from ..core.settings import Setting, Value


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, as everything here does; ``--help`` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_settings(parser: argparse._ActionsContainer, table: Iterable[Setting]) -> None:
    """An option for each setting, checked as the setting is. One that is not given is absent."""
    for row in table:
        unit = f" in {row.unit}" if row.unit else ""
        choices = f", one of: {', '.join(row.choices)}" if row.choices else ""
        parser.add_argument(
            f"--{row.name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            type=_reader(row),
            metavar="NAME" if row.choices else {int: "N", float: "X"}.get(type(row.default)),
            help=f"{row.description}{unit}{choices} (default: {row.default})".replace("%", "%%"),
        )


def _reader(row: Setting) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        try:
            return row.read(text)
        except InputError as error:
            reason = str(error).removeprefix(f"{row.name}: ")
            raise argparse.ArgumentTypeError(reason) from None

    return read
