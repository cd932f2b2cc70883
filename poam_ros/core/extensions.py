"""Tables that other packages may add rows to, by an entry point or as ``module:name``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from .errors import InputError
from .settings import rows

Row = TypeVar("Row")


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
        from importlib.metadata import entry_points

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
            try:
                loaded = self._load(name)
            except Exception as error:  # of any type, raised on import
                reason = " ".join(str(error).split()) or type(error).__name__
                raise InputError(f"{name}: cannot be loaded ({reason})") from error
            if loaded is None:
                return None
            self._found[name] = self._row(name, loaded)
        return self._found[name]

    def _load(self, name: str) -> Any:
        module, colon, attribute = name.partition(":")
        if colon:
            return getattr(import_module(module), attribute)
        from importlib.metadata import entry_points

        points = [point for point in entry_points(group=self.group) if point.name == name]
        return points[0].load() if points else None

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
