"""Shared by the commands: parser, options made from settings, Ctrl-C during imports."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import Any, NoReturn

from ..core.errors import InputError, needs_extra
from ..core.extensions import Table
from ..core.renames import RENAMED
from ..core.settings import Setting, Value, rows

#: Default of a rectangle that is not given.
NO_RECTANGLE = (0.0,) * 4
#: Exit status of an interrupted command, as shells report SIGINT.
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Reports a wrong argument in one line.

    Options are spelt in full, with dashes or underscores. If ``common`` names options, ``--help``
    shows these and ``--help-all`` shows all.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self.common: Collection[str] = ()
        self.add_argument("--help-all", action=_HelpAll, help="show all options and exit")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; underscores in option names become dashes."""
        words = [_spelt(word) for word in args or ()]
        self._add_external_options(words)
        words = [part for word in self._several(words) for part in word]
        found, rest = super().parse_known_args(words, namespace)
        for word in rest:
            old = word.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")
            if word.startswith("--") and old in RENAMED:
                known = [
                    new for new in RENAMED[old] if spelling(new) in self._option_string_actions
                ]
                now = " or ".join(spelling(new) for new in known or RENAMED[old])
                self.error(f"{word.partition('=')[0]} is now {now}")
        return found, rest

    def _several(self, words: Sequence[str]) -> Iterator[Sequence[str]]:
        """The words, where one word may hold all numbers of an option: ``'0 120 -40 40'``."""
        before = None
        for word in words:
            count = before.nargs if before is not None else None
            yield word.split() if isinstance(count, int) and count > 1 else (word,)
            before = self._option_string_actions.get(word)

    def _add_external_options(self, words: Sequence[str]) -> None:
        """Add the options of planners and models of other packages that are named in the words."""
        for action in list(self._actions):
            table = getattr(getattr(action.type, "row", None), "choices", None)
            if not isinstance(table, Table):
                continue
            for word, after in zip_longest(words, words[1:], fillvalue=""):
                name, equals, value = word.partition("=")
                if name not in action.option_strings:
                    continue
                with suppress(InputError):  # reported when the option is read
                    if (value if equals else after) in table:
                        known = self._option_string_actions
                        own = rows(table[value if equals else after].options)
                        add_settings(self, [row for row in own if spelling(row.name) not in known])

    def format_help(self, everything: bool = False) -> str:
        """The help text: by default only the common options, if there are any."""
        shown = {*self.common, "help", argparse.SUPPRESS}
        hidden = [
            action
            for action in self._actions
            if (not self.common and isinstance(action, _HelpAll))
            or (self.common and not everything and action.option_strings
                and action.dest not in shown)
        ]  # fmt: skip
        before, usage = [action.help for action in hidden], self.usage
        try:
            for action in hidden:
                action.help = argparse.SUPPRESS
            if self.common:
                positional = [
                    str(a.metavar or a.dest) for a in self._actions if not a.option_strings
                ]
                self.usage = " ".join(["%(prog)s", *positional, "[OPTION ...]"])
            return super().format_help()
        finally:
            self.usage = usage
            for action, text in zip(hidden, before, strict=True):
                action.help = text

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _HelpAll(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_help(everything=True), end="")
        parser.exit()


def spelling(name: str) -> str:
    """The option of a setting: ``--batch.size``. The switch of a group is ``--screening``."""
    return "--" + name.removesuffix(".enabled").replace("_", "-")


def _spelt(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def add_settings(parser: argparse._ActionsContainer, table: Iterable[Setting], *also: str) -> None:
    """Add an option for each setting, checked as the setting is; absent if it is not given.

    ``also``: further spellings of each of them.
    """
    for row in table:
        installed = list(getattr(row.choices, "others", ()))
        choices = f" One of: {', '.join([*row.choices, *installed])}." if row.choices else ""
        form: dict[str, Any] = {
            "type": reader(row),
            "metavar": "NAME" if row.choices else {int: "N", float: "X"}.get(type(row.default)),
        }
        if isinstance(row.default, bool):
            form = {"action": argparse.BooleanOptionalAction}
        elif isinstance(row.default, tuple):
            form["metavar"] = "'X ...'"
        elif not row.choices and isinstance(row.default, str):
            form["metavar"] = "TEXT"
        default = f" (default: {_shown(row.default)})"
        if row.default in ("", NO_RECTANGLE):
            default = ""
        parser.add_argument(
            spelling(row.name),
            *also,
            dest=row.name,
            default=argparse.SUPPRESS,
            help=f"{row.help}{choices}{default}".replace("%", "%%"),
            **form,
        )


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)


class reader:
    """A function that reads the text of an option as its setting does."""

    def __init__(self, row: Setting) -> None:
        self.row = row

    def __call__(self, text: str) -> Value:
        try:
            return self.row.read(text)
        except InputError as error:
            reason = str(error).removeprefix(f"{self.row.name}: ")
            raise argparse.ArgumentTypeError(reason) from None


@contextmanager
def figures(extra: str = "sim") -> Iterator[None]:
    """Draw in this context; without matplotlib it prints the extra that installs it."""
    try:
        yield
    except ImportError:
        print(f"no figures: {needs_extra('drawing', 'matplotlib', extra)}")


def print_wrapped(text: str) -> None:
    """Print a line; on a terminal, wrap it between words."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text)


@contextmanager
def exit_on_interrupt(command: str) -> Iterator[None]:
    """Until the block ends, Ctrl-C ends the process with one line. For imports.

    An exception would be raised inside modules of other packages, which may swallow it or turn it
    into another error. Nothing is lost: the command has not started.
    """
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread can set handlers. A handler that somebody else has set is kept.
    in_main_thread = threading.current_thread() is threading.main_thread()
    if before is not signal.default_int_handler or not in_main_thread:
        yield
        return

    def end(*_: object) -> None:
        report_interrupted(command)
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def report_interrupted(command: str) -> None:
    """Print the last line of an interrupted command."""
    line = f"{command}: interrupted\n"
    sys.stderr.write(f"\n{line}" if sys.stderr.isatty() else line)  # a terminal shows ^C before
    sys.stderr.flush()
