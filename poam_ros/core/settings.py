"""Settings, each declared once: a field of a frozen dataclass.

ROS parameters, command-line options, YAML files and docs derive from the rows of these dataclasses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar, Union

from .errors import InputError

Value = Union[bool, int, float, str, "tuple[float, ...]"]
Settings = TypeVar("Settings")

KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
_KEY = "setting"
_OWN_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: of the field, the ROS parameter and, with dashes, the option.
        default: its type is the setting's type; a tuple of floats has a fixed length.
        description: one sentence.
        unit: unit of the value, empty where it has none.
        minimum, maximum: inclusive bounds of a number, or of each number of a tuple.
        choices: the words a text may be, such as the names of a table; empty for any text.
        mutable: whether a running node takes another value.
        check: a further check of the converted value, raising ``InputError``.
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
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if isinstance(self.default, tuple):
            return f"{len(self.default)} numbers{self.interval}"
        return KINDS[type(self.default)] + self.interval

    @property
    def interval(self) -> str:
        """The bounds, in words; empty where there are none."""
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            return f" from {low:g} to {high:g}"
        if low is not None:
            return f" of at least {low:g}"
        return f" of at most {high:g}" if high is not None else ""

    def convert(self, value: Any) -> Value:
        """The value in the declared type: an integer becomes a float where a float is meant.

        Raises:
            InputError: wrong type, length, range or choice, or a number that is not finite.
        """
        try:
            converted = self._converted(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name}: expected {self.expected}, got {_shown(value)}"
            ) from None
        if self.check is not None:
            try:
                self.check(converted)
            except InputError as error:
                raise InputError(f"{self.name}: {error}") from None
        return converted

    def read(self, text: str) -> Value:
        """The value that a text stands for: of a tuple ``0 1``, ``0,1`` or ``[0, 1]``.

        Raises:
            InputError: as of ``convert``.
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


def setting(default: Value, *declared: Any, **more: Any) -> Any:
    """A field of a dataclass of settings; the arguments are those of ``Setting`` after its name."""
    return field(default=default, metadata={_KEY: Setting("", default, *declared, **more)})


def rows(settings: Any, called: Mapping[str, str] = _OWN_NAMES) -> tuple[Setting, ...]:
    """The settings that a dataclass, or an instance of one, declares with ``setting``, in order.

    ``called``: the names of those that are called otherwise where all settings lie flat.
    """
    declared = {f.name: f.metadata[_KEY] for f in fields(settings) if _KEY in f.metadata}
    return tuple(at(called.get(name, name), row) for name, row in declared.items())


def joined(*kinds: Any) -> tuple[Setting, ...]:
    """The settings of several dataclasses, each name once, such as the options of a table's rows.

    Raises:
        ValueError: two declare a name differently; it would not mean the same to both.
    """
    found: dict[str, Setting] = {}
    for kind in kinds:
        for row in rows(kind):
            if found.setdefault(row.name, row) != row:
                raise ValueError(f"{kind.__name__}.{row.name}: declared otherwise elsewhere")
    return tuple(found.values())


def instance(
    kind: type[Settings],
    values: Mapping[str, Any],
    called: Mapping[str, str] = _OWN_NAMES,
    **others: Any,
) -> Settings:
    """A dataclass of settings from values by name, which may hold other names as well.

    ``called``: as for ``rows``. ``others``: fields that are no settings.

    Raises:
        InputError: a value is wrong.
    """
    names = {row.name: called.get(row.name, row.name) for row in rows(kind)}
    given = {own: values[name] for own, name in names.items() if name in values}
    return kind(**given, **others)


def check(settings: Any) -> None:
    """Convert every declared field of a frozen dataclass in place; for its ``__post_init__``.

    Raises:
        InputError: a value is wrong.
    """
    assert is_dataclass(settings)
    for row in rows(settings):
        object.__setattr__(settings, row.name, row.convert(getattr(settings, row.name)))


def at(place: str, row: Setting) -> Setting:
    """The row as messages name it at some place: ``model.steps``, ``--steps``."""
    return replace(row, name=place)


def _shown(value: Any) -> str:
    # Arrays, as ROS hands them over, are shown as lists.
    plain = isinstance(value, (str, Mapping)) or not hasattr(value, "__len__")
    text = repr(value if plain else list(value))
    return text if len(text) <= 80 else f"{text[:80]}..."
