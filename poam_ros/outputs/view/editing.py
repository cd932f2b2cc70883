"""Soundings that are left out, and taken back, on the page. Needs bokeh."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...core.errors import InputError
from ...core.geodesy import GeoReference
from . import texts
from .picture import MapPicture
from .scene import BAD, NOTE, Notice, Scene

#: Conditions that are areas, and their units.
AREAS = {"polygon": "m", "polygon_degrees": "degrees"}
#: Maximum number of corners of a lasso, and characters of a text.
CORNERS, LONGEST = 200, 200


class Edit(Protocol):
    """A row of ``edits.csv``."""

    which: tuple[tuple[str, str], ...]
    who: str
    when: str
    why: str


class Edits(Protocol):
    """The file of a person's edits; each method raises InputError or OSError."""

    path: Path
    command: str

    def rows(self) -> Sequence[Any]:
        """All of them."""

    def leave_out(self, column: str, value: str, who: str, why: str) -> None:
        """Add one."""

    def take_back(self, row: Any) -> None:
        """Remove one."""


class EditPanel:
    """A selection on the map becomes a row of ``edits.csv``, and a row is taken back.

    A box or a lasso is a ``polygon`` in m of the map, which the file has in degrees where they are
    known; a tap on a sounding is its ``line``.

    Attributes:
        root: Bokeh's model.
    """

    def __init__(self, picture: MapPicture, edits: Edits, block: Any) -> None:
        from bokeh.layouts import column
        from bokeh.models import Button, Select, TextInput

        self._edits, self._picture, self._block = edits, picture, block
        self._which: tuple[str, str] | None = None
        self._place: GeoReference | None = None
        wide = {"sizing_mode": "stretch_width", "margin": (3, 0, 3, 0)}
        self.who = TextInput(title="Who", max_length=LONGEST, name="who", **wide)
        with suppress(OSError, KeyError):  # a process without a user's name
            self.who.value = getpass.getuser()
        self.why = TextInput(title="Why", max_length=LONGEST, name="why", **wide)
        self.out = Button(label="Leave out", name="leave-out", disabled=True, **wide)
        self.known = Select(title="Left out", options=[], name="edits", **wide)
        self.back = Button(label="Take back", name="take-back", disabled=True, **wide)
        self.root = column(self._block, self.who, self.why, self.out, self.known, self.back)
        self.out.on_click(lambda: self._do(self._leave_out))
        self.back.on_click(lambda: self._do(self._take_back))
        self._changed = False
        picture.on_selection(self._select_area, self._select_line)
        self._show()

    def show(self, scene: Scene) -> None:
        """Follow a scene: its georeference."""
        self._place = None if scene.chart is None else scene.chart.place

    def _select_area(self, corners: np.ndarray) -> None:
        if self._place is not None:
            corners = self._place.to_map(corners)
        corners = corners[:: -(-len(corners) // CORNERS)]
        self._choose("polygon", " ".join(f"{value:.2f}" for value in corners.ravel()))

    def _select_line(self, line: str) -> None:
        self._choose("line", line)

    def _choose(self, column: str, value: str) -> None:
        self._which = (column, value) if value else None
        self._show()

    def _do(self, what: Callable[[], None]) -> None:
        try:
            what()
        except (InputError, OSError) as error:
            self._show(Notice(f"not done: {error}", "", BAD))
            return
        self._which, self._changed = None, True
        self._picture.clear_selection()
        self._show()

    def _leave_out(self) -> None:
        if self._which is None:
            raise InputError("expected a selection on the map")
        who, why = (part.value.strip()[:LONGEST] for part in (self.who, self.why))
        if not (who and why):
            raise InputError("enter who leaves these soundings out, and why")
        self._edits.leave_out(*self._which, who, why)

    def _take_back(self) -> None:
        rows = {_words(row): row for row in self._edits.rows()}
        if self.known.value in rows:
            self._edits.take_back(rows[self.known.value])

    def _show(self, *notices: Notice) -> None:
        shown = list(notices)
        try:
            rows = list(self._edits.rows())
        except (InputError, OSError) as error:
            rows = []
            shown.append(Notice(str(error), "", BAD))
        names = [_words(row) for row in rows]
        self.known.options = names
        self.known.value = names[-1] if names else ""
        self.back.disabled, self.out.disabled = not names, self._which is None
        column, value = self._which or ("", "")
        self.out.label = {"": "Leave out", "line": f"Leave out line {value}"}.get(
            column, "Leave out the selected area"
        )
        if self._changed:
            shown.append(Notice(f"written to {self._edits.path}",
                f"for the new map run: {self._edits.command}", NOTE))  # fmt: skip
        text = "select with box or lasso, or tap a sounding for its line"
        self._block.text = f"<h2>Edit</h2><small>{text}</small>" + texts.items(shown)
        self._block.visible = True


def _words(row: Edit) -> str:
    """A row in a list: what, why, who and when."""
    which = ", ".join(
        f"area at {' '.join(value.split()[:2])} {AREAS[column]}" if column in AREAS else
        f"{column} {value}" for column, value in row.which
    )  # fmt: skip
    return " · ".join(part for part in (which, row.why, row.who, row.when) if part)
