"""Shared by the commands: parser, options made from settings, Ctrl-C during imports."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ..core.errors import InputError, needs_extra
from ..core.settings import Setting, Table, Value, nearest, rows, unknown

#: Exit status of an interrupted command, as shells report SIGINT.
INTERRUPTED = 130


#: What the numbers of an option are, where its description does not say it.
PARTS = {
    "workspace": ("XMIN", "XMAX", "YMIN", "YMAX"),
    "workspace_degrees": ("SOUTH", "WEST", "NORTH", "EAST"),
    "origin": ("LAT", "LON"),
    "current": ("X", "Y"),
}


class Parser(argparse.ArgumentParser):
    """Reports a wrong argument in one line. Options are spelt in full.

    A command has few options of its own, which ``--help`` shows. All its other settings are given
    by ``--set NAME=VALUE``; ``takes`` declares them.
    """

    def __init__(self, **options: Any) -> None:
        # Lines of 80 columns, whatever the terminal's width: help is also read in files and pages.
        formatter: Any = partial(argparse.HelpFormatter, width=80)
        super().__init__(**options, allow_abbrev=False, formatter_class=formatter)
        self._settings: dict[str, Setting] = {}
        self._reads_files = False

    def takes(self, table: Iterable[Setting], files: bool = True) -> None:
        """Declare settings for ``--set`` and ``--params-file``, besides those that are options.

        ``files``: whether this parser reads parameter files; otherwise the command does.
        """
        if files and not self._reads_files:
            self._reads_files = True
            self.add_argument(
                "--params-file", default="", metavar="PATH[,PATH...]",
                help="ROS parameter files, or presets; later ones override earlier ones, and "
                "options all of them.",
            )  # fmt: skip
        if not self._settings:
            self.add_argument(
                "--set", action="append", default=[], metavar="NAME=VALUE",
                help="Any setting of docs/parameters.md; repeatable.",
            )  # fmt: skip
        self._settings |= {row.name: row for row in table}

    @property
    def settings(self) -> dict[str, Setting]:
        """All settings that the command takes, by name."""
        options = (vars(action)["row"] for action in self._actions if hasattr(action, "row"))
        return self._settings | {row.name: row for row in options}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, with the settings of ``--set`` and ``--params-file`` by their names, of
        which ``in_files`` has those of files; underscores in options become dashes."""
        words = [_spelt(word) for word in args or ()]
        values = self._of_files(words) if self._reads_files else {}
        # What is there before is the default of an option.
        parsed, rest = super().parse_known_args(words, argparse.Namespace(**values))
        for word in rest:
            if word.startswith("--"):
                self._refuse(word.partition("=")[0])
        for row in self.settings.values():
            if isinstance(given := vars(parsed).get(row.name), list):
                try:
                    setattr(parsed, row.name, row.convert(given))
                except InputError as error:
                    reason = str(error).removeprefix(f"{row.name}: ")
                    self.error(f"argument {spelling(row.name)}: {reason}")
        if self._settings:
            try:
                self._set(parsed)
            except InputError as error:
                self.error(f"argument --set: {error}")
        if self._reads_files:
            kept = (name for name, value in values.items() if vars(parsed)[name] is value)
            parsed.in_files = frozenset(kept)
        return parsed, rest

    def _of_files(self, words: Sequence[str]) -> dict[str, Any]:
        """The settings in the parameter files, by name.

        These are those of all nodes, of mapper, planner and simulator, and the command's own
        (``/**/drive:``). A later file overrides an earlier one, a node's section that of all nodes.
        Parameters of nodes that the command does not have are left out.

        Raises:
            InputError: a file cannot be read, a name is unknown, or a value is wrong; or two nodes
                have different values.
        """
        from ..ros.parameters import known_names
        from .graph import ROBOT_NODES, sections

        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        first.add_argument("--params-file", nargs="?")
        names = first.parse_known_args(words)[0].params_file
        read: dict[str, tuple[str, Any]] = {}
        nodes: dict[tuple[Path, str], Any] = {}  # values of single nodes
        readers = *ROBOT_NODES, "simulator", self.prog.rpartition(" ")[2]
        for path, key, found in sections(names or "", readers, "--params-file"):
            for name, value in found.items():
                if nodes.get((path, name), value) != value:
                    raise InputError(f"{path}: expected one value of {name} for all nodes")
                if not key.endswith("**"):
                    nodes[path, name] = value
                read[name] = f"{path}: {key}", value
        in_files: dict[str, Any] = {}
        own, others = self.settings, {"use_sim_time", *known_names()}
        for name, (where, value) in sorted(read.items(), key=lambda each: each[0] not in own):
            if name not in own:
                own |= {row.name: row for row in _external(own.values(), in_files)}
            if name in own:
                try:
                    in_files[name] = own[name].convert(value)
                except InputError as error:
                    raise InputError(f"{where}: {error}") from None
            elif name not in others:
                raise InputError(f"{where}: {unknown(name, own)}")
        return in_files

    def _refuse(self, option: str) -> NoReturn:
        """Refuse an option that is not there, and name the nearest option or setting."""
        name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
        if name in self.settings:
            self.error(f"{option}: expected --set {name}=VALUE")
        options = {each[2:].replace("-", "_"): each for each in self._option_string_actions}
        near = nearest(name, [*options, *self._settings])
        now = options.get(near, f"--set {near}=VALUE")
        self.error(f"{option}: no such option; the nearest is {now}")

    def _set(self, namespace: argparse.Namespace) -> None:
        """Read the settings of ``--set`` into the namespace.

        Raises:
            InputError: one is unknown, or its value is wrong.
        """
        given, own = [text.partition("=") for text in namespace.__dict__.pop("set")], self.settings
        # Those of a planner or a model of another package are known when it is.
        for name, equals, value in sorted(given, key=lambda each: each[0] not in own):
            if name not in own:
                own |= {row.name: row for row in _external(own.values(), vars(namespace))}
            if name not in own:
                raise InputError(unknown(name, own))
            row = own[name]
            if not equals:
                raise InputError(f"{name}: expected {name}=VALUE, with {row.expected}. {row.help}")
            setattr(namespace, name, row.read(value))

    def format_help(self) -> str:
        """The help text, whose usage names only what must be given."""
        needed = [
            " ".join([*action.option_strings[:1], str(action.metavar or action.dest)])
            + (" ..." if action.nargs == "+" else "")
            for action in self._actions
            if action.required
        ]
        self.usage = " ".join(["%(prog)s", *needed, "[OPTION ...]"])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _external(table: Iterable[Setting], values: Mapping[str, Any]) -> Iterator[Setting]:
    """The options of the planners and models of other packages among the values."""
    for row in table:
        if isinstance(row.choices, Table) and (name := values.get(row.name)) is not None:
            yield from rows(row.choices[name].options)


def spelling(name: str) -> str:
    """The option of a setting: ``--max-samples``. The switch of a group is ``--screening``."""
    return "--" + name.removesuffix(".enabled").replace("_", "-").replace(".", "-")


def _spelt(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def log_name(path: Path) -> str:
    """The name of a log for a folder of results; a folder's dots are part of its name."""
    whole = path.resolve()
    return whole.name if whole.is_dir() else whole.stem


def add_settings(parser: argparse._ActionsContainer, table: Iterable[Setting]) -> None:
    """Add an option for each setting, checked as the setting is; absent if it is not given."""
    for row in table:
        add_setting(parser, row)


def add_setting(
    parser: argparse._ActionsContainer, row: Setting, option: str = "", text: str = "",
    metavar: str = "",
) -> None:  # fmt: skip
    """Add the option of a setting.

    Args:
        parser: or a group of it.
        row: the setting.
        option: spelling of the option; by default that of the setting.
        text: help; by default the setting's description, choices and default.
        metavar: of the value in the help.
    """
    kind = "NAME" if row.choices else {int: "N", float: "X"}.get(type(row.default), "TEXT")
    form: dict[str, Any] = {"metavar": metavar or kind, "type": reader(row)}
    if isinstance(row.default, bool):
        form = {"action": argparse.BooleanOptionalAction}
    elif isinstance(row.default, tuple):  # the parser checks them together
        parts = PARTS.get(row.name, ("X",) * len(row.default))
        form = {"metavar": parts, "type": float, "nargs": len(parts)}
    help_text = (text or _help(row)).replace("%", "%%")
    action = parser.add_argument(
        option or spelling(row.name), dest=row.name, default=argparse.SUPPRESS, help=help_text,
        **form,
    )  # fmt: skip
    vars(action)["row"] = row


def _help(row: Setting) -> str:
    installed = list(getattr(row.choices, "others", ()))
    choices = f" One of: {', '.join([*row.choices, *installed])}." if row.choices else ""
    usual = text_of(row.default)
    if isinstance(row.default, bool):
        usual = "yes" if row.default else "no"
    return f"{row.help}{choices}" + (f" (default: {usual})" if usual not in ("", "0 0 0 0") else "")


def text_of(value: Value) -> str:
    """A value as ``Setting.read`` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)


def reader(row: Setting) -> Callable[[str], Value]:
    """A function that reads the text of an option as its setting does."""

    def read(text: str) -> Value:
        try:
            return row.read(text)
        except InputError as error:
            reason = str(error).removeprefix(f"{row.name}: ")
            raise argparse.ArgumentTypeError(reason) from None

    return read


@contextmanager
def figures(extra: str = "sim") -> Iterator[None]:
    """Draw in this context; without matplotlib it prints the extra that installs it."""
    try:
        yield
    except ImportError:
        print(f"no figures: {needs_extra('drawing', 'matplotlib', extra)}")


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
