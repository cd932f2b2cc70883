"""Settings, each declared once: a field of a frozen dataclass.

ROS parameters, command-line options, YAML files and docs derive from the rows of these dataclasses.
A dataclass names the group of its settings in its class attribute ``prefix``: the field
``enabled`` of one with the prefix ``screening`` is the setting ``screening.enabled``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import SequenceMatcher
from functools import reduce
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar, Union

from .errors import InputError

Value = Union[bool, int, float, str, "tuple[float, ...]"]
Kind = TypeVar("Kind")
Row = TypeVar("Row")

KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
_KEY = "setting"


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: of the ROS parameter and, with dashes, of the option: ``group.name``.
        default: its type is the setting's type; a tuple of floats has a fixed length.
        description: what it does, as an imperative or a noun; remarks follow as further sentences.
        unit: unit of the value, empty where it has none.
        minimum, maximum: inclusive bounds of a number, or of each number of a tuple.
        choices: allowed texts, such as the names of a table; empty: any text. A ``Table`` finds
            further ones.
        mutable: whether it can be changed while a node runs.
        check: further check of the converted value; raises ``InputError``.
    """

    name: str
    default: Value
    description: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: Collection[str] = ()
    mutable: bool = False
    check: Callable[[Any], object] | None = None

    @property
    def help(self) -> str:
        """The description with the unit, for users."""
        first, stop, rest = self.description.partition(". ")
        unit = f" ({self.unit})" if self.unit else ""
        return f"{first}{unit}{stop}{rest}".removesuffix(".") + "."

    @property
    def expected(self) -> str:
        """The expected value, as text."""
        if self.choices:
            others = ", or module:name" if hasattr(self.choices, "others") else ""
            return "one of " + ", ".join(self.choices) + others
        if isinstance(self.default, tuple):
            return f"{len(self.default)} numbers{self.interval}"
        return KINDS[type(self.default)] + self.interval

    @property
    def interval(self) -> str:
        """The bounds as text; empty without any."""
        match self.minimum, self.maximum:
            case None, None:
                return ""
            case None, high:
                return f" of at most {high:g}"
            case low, None:
                return f" of at least {low:g}"
            case low, high:
                return f" from {low:g} to {high:g}"

    def convert(self, value: Any) -> Value:
        """The value in the declared type: an integer becomes a float if the default is one.

        Raises:
            InputError: wrong type, length, range or choice, or a number that is not finite.
        """
        try:
            converted = self._converted(value)
            if self.check is not None:
                self.check(converted)
        except InputError as error:  # also: a row of the table cannot be loaded
            raise InputError(f"{self.name}: {error}") from None
        except (TypeError, ValueError):
            others = ", ".join(getattr(self.choices, "others", ()))
            installed = f" (installed: {others})" if others else ""
            plain = isinstance(value, (str, Mapping)) or not hasattr(value, "__len__")
            got = repr(value if plain else list(value))  # arrays, as ROS has them, as lists
            raise InputError(
                f"{self.name}: expected {self.expected}{installed}, got {got:.80}"
                + ("..." if len(got) > 80 else "")
            ) from None
        return converted

    def read(self, text: str) -> Value:
        """The value of a text; a tuple is ``0 1``, ``0,1`` or ``[0, 1]``.

        Raises:
            InputError: as ``convert``.
        """
        value: Any = text
        with suppress(ValueError):
            if isinstance(self.default, bool):
                value = {"true": True, "false": False}.get(text.lower(), text)
            elif isinstance(self.default, tuple):
                value = [float(part) for part in text.strip("[] ").replace(",", " ").split()]
            else:
                value = type(self.default)(text)
        return self.convert(value)

    def _converted(self, value: Any) -> Value:
        if isinstance(self.default, tuple):
            if isinstance(value, (str, bytes)) or len(value) != len(self.default):
                raise ValueError
            return tuple(float(self._number(item)) for item in value)
        if isinstance(self.default, float):
            return float(self._number(value))
        if type(value) is not type(self.default) or (self.choices and value not in self.choices):
            raise ValueError
        return self._number(value) if type(value) is int else value

    def _number(self, value: Any) -> float:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        # bool is an int to Python, and NaN fails no negative test.
        if isinstance(value, bool) or not (math.isfinite(value) and low <= value <= high):
            raise ValueError
        return value


class Settings:
    """The base of frozen dataclasses of settings: checks and converts the values.

    Raises:
        InputError: a value is wrong.
    """

    prefix = ""

    def __post_init__(self) -> None:
        check(self)

    def complete(self, name: str, kind: type, owner: str) -> None:
        """Set the field ``name`` to the defaults of ``kind`` if it is None.

        Raises:
            InputError: it is of another kind than the options of its ``owner``.
        """
        given = getattr(self, name)
        if given is None:
            object.__setattr__(self, name, kind())
        elif not isinstance(given, kind):
            got = type(given).__name__
            raise InputError(f"{name}: expected {kind.__name__} for {owner}, got {got}")


def setting(default: Value, *declared: Any, name: str = "", **more: Any) -> Any:
    """A field of a dataclass of settings; the arguments are those of ``Setting``.

    ``name``: the full name, if it is not the prefix and the field's name.
    """
    return field_of(Setting(name, default, *declared, **more))


def field_of(row: Setting) -> Any:
    """The field of a setting that several dataclasses have."""
    return field(default=row.default, metadata={_KEY: row})


def declared(settings: Any) -> dict[str, Setting]:
    """The settings that a dataclass or an instance declares, by field, in order."""
    before = f"{getattr(settings, 'prefix', '')}.".removeprefix(".")
    own_rows = {f.name: f.metadata[_KEY] for f in fields(settings) if _KEY in f.metadata}
    return {own: row if row.name else at(before + own, row) for own, row in own_rows.items()}


def rows(*settings: Any) -> tuple[Setting, ...]:
    """The settings of dataclasses, or of instances, in order; each name once.

    Raises:
        ValueError: two dataclasses declare the same name differently.
    """
    by_name: dict[str, Setting] = {}
    for kind in settings:
        for row in declared(kind).values():
            if by_name.setdefault(row.name, row) != row:
                raise ValueError(f"{kind}: {row.name} is declared differently elsewhere")
    return tuple(by_name.values())


def instance(kind: type[Kind], values: Mapping[str, Any], **others: Any) -> Kind:
    """A dataclass of settings from values by name; other names are ignored.

    ``others``: fields that are not settings.

    Raises:
        InputError: a value is wrong.
    """
    named = declared(kind).items()
    return kind(**{own: values[row.name] for own, row in named if row.name in values}, **others)


def values_of(*settings: Any) -> dict[str, Any]:
    """The values of instances by the settings' names, as ``instance`` takes them."""
    return {
        row.name: getattr(kind, own) for kind in settings for own, row in declared(kind).items()
    }


def unknown(name: str, known: Iterable[str]) -> str:
    """The message about a setting that is not there; it names the nearest, or those of a group."""
    names = list(known)
    if group := [each for each in names if each.startswith(f"{name}.")]:
        return f"{name}: is a group; expected one of {', '.join(group)}"
    return f"{name}: no such setting; the nearest is {nearest(name, names)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that is most like this one, above all in its last part; empty if none is known."""

    def likeness(other: str) -> tuple[float, float]:
        own, end = (each.rpartition(".")[2] for each in (name, other))
        return SequenceMatcher(None, own, end).ratio(), SequenceMatcher(None, name, other).ratio()

    return max(known, key=likeness, default="")


def check(settings: Any) -> None:
    """Convert every declared field of a frozen dataclass in place, as ``Settings`` does.

    Raises:
        InputError: a value is wrong.
    """
    assert is_dataclass(settings)
    for own, row in declared(settings).items():
        object.__setattr__(settings, own, row.convert(getattr(settings, own)))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name as nested mappings: ``{"water.level": 1}`` as ``{"water": {"level": 1}}``."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *groups, own = name.split(".")
        reduce(lambda branch, group: branch.setdefault(group, {}), groups, tree)[own] = value
    return tree


def flat(tree: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """The values of nested mappings by name; the inverse of ``nested``."""
    values: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{before}{name}.")
        else:
            values[f"{before}{name}"] = value
    return values


def at(place: str, row: Setting) -> Setting:
    """The row under another name for messages: ``model.steps``, ``--steps``."""
    return replace(row, name=place)


class Table(dict[str, Row]):
    """Rows by name. Iteration gives the built-in rows only; looking up a name finds others too.

    A row of another package is found by its name among the entry points of ``group``, or as
    ``module:name`` in a module that Python can import. Built-in names take precedence.

    Args:
        group: group of entry points, such as ``poam_ros.models``.
        kind: class of the rows.
        built_in: the rows of this package.
        made: converts something else that a package may provide, such as a function, to a row.
    """

    def __init__(
        self,
        group: str,
        kind: type[Row],
        built_in: dict[str, Row],
        made: Callable[[Any], Row] | None = None,
    ) -> None:
        super().__init__(built_in)
        self.group, self._kind, self._made = group, kind, made
        self._found: dict[str, Row] = {}

    @property
    def others(self) -> list[str]:
        """Names of the rows that entry points add."""
        return sorted({point.name for point in entry_points(group=self.group)} - set(self))

    def __contains__(self, name: object) -> bool:
        """Whether there is a row by this name; a row of another package is loaded.

        Raises:
            InputError: it cannot be loaded, or is not a row.
        """
        if not isinstance(name, str):
            return False
        return super().__contains__(name) or self._find(name) is not None

    def __missing__(self, name: str) -> Row:
        if (row := self._find(name)) is None:
            raise KeyError(name)
        return row

    def _find(self, name: str) -> Row | None:
        if name not in self._found:
            module, colon, attribute = name.partition(":")
            points = [point for point in entry_points(group=self.group) if point.name == name]
            if not (colon or points):
                return None
            try:
                loaded = getattr(import_module(module), attribute) if colon else points[0].load()
            except Exception as error:  # of any type, raised on import
                reason = " ".join(str(error).split()) or type(error).__name__
                raise InputError(f"{name}: cannot be loaded ({reason})") from error
            self._found[name] = self._row(name, loaded)
        return self._found[name]

    def _row(self, name: str, loaded: Any) -> Row:
        if not isinstance(loaded, self._kind) and callable(loaded) and self._made is not None:
            loaded = self._made(loaded)
        if not isinstance(loaded, self._kind):
            raise InputError(
                f"{name}: expected a {self._kind.__name__} of {self._kind.__module__}, got "
                f"{type(loaded).__name__}"
            )
        for row in rows(loaded.options) if hasattr(loaded, "options") else ():
            if "." not in row.name:
                raise InputError(
                    f"{name}: expected options with a prefix (prefix = 'mine'), got {row.name}"
                )
        return loaded
