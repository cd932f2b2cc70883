"""Tables whose rows other packages may add to, by an entry point or by ``module:name``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from .errors import InputError
from .settings import rows

Row = TypeVar("Row")


class Table(dict[str, Row]):
    """Rows by name. Iteration gives the built-in ones alone; looking a name up finds others too.

    Another package's row is looked for under its name among the entry points of ``group``, and
    under ``module:name`` in a module that Python can import. Built-in names come first.

    Args:
        group: of the entry points, such as ``poam_ros.models``.
        kind: class of the rows.
        built_in: the rows of this package.
        made: makes a row of something else that a package may give, such as a function.
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
        """The names that entry points give to rows of other packages."""
        from importlib.metadata import entry_points

        return sorted({point.name for point in entry_points(group=self.group)} - set(self))

    def __contains__(self, name: object) -> bool:
        """Whether there is such a row; one of another package is loaded.

        Raises:
            InputError: it cannot be loaded, or is no row.
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
            except Exception as error:  # whatever another's module raises when it is imported
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

        found = [point for point in entry_points(group=self.group) if point.name == name]
        return found[0].load() if found else None

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
