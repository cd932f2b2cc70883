"""A survey as a page: one document for the server and for a single file. Needs bokeh."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.geodesy import GeoReference
from ..html import table as table_of
from . import texts
from .picture import MapPicture
from .scene import BAD, NOTE, Curves, Notice, Scene

TIMES = "Time"
COLOURS = ("#1f6f9f", "#d9822b")


class CurvePicture:
    """Tabs of small figures.

    Attributes:
        root: Bokeh's model.
        source: the data: ``samples``, and a column for each curve.
    """

    def __init__(self) -> None:
        from bokeh.models import ColumnDataSource, Tabs

        self.source = ColumnDataSource({"samples": []})
        self.root = Tabs(tabs=[], sizing_mode="stretch_width", name="curves", margin=0)
        self._shown: tuple[list[str], list[str]] = ([], [])

    def show(self, curves: Curves) -> None:
        """Show new curves, or longer ones."""
        names = list(curves.metrics), list(curves.seconds)
        columns = {"samples": curves.samples, **curves.metrics, **curves.seconds}
        self.source.data = {name: np.asarray(column, float) for name, column in columns.items()}
        if names != self._shown:
            self._shown = names
            metrics, seconds = names
            tabs = [self._tab(name, [name]) for name in metrics]
            self.root.tabs = [*tabs, *([self._tab(TIMES, seconds)] if seconds else [])]

    def _tab(self, title: str, names: list[str]) -> Any:
        from bokeh.models import HoverTool, TabPanel
        from bokeh.plotting import figure

        drawn = figure(height=190, sizing_mode="stretch_width", tools="", toolbar_location=None,
            x_axis_label="pings", y_axis_label="s" if title == TIMES else None)  # fmt: skip
        for name, colour in zip(names, COLOURS, strict=False):
            style = {"legend_label": name} if title == TIMES else {}
            drawn.line("samples", name, source=self.source, color=colour, width=1.8, **style)
            dots = drawn.scatter("samples", name, source=self.source, color=colour, size=4, **style)
            tooltips = [("pings", "@samples{0}"), (name, f"@{{{name}}}{{0.000}}")]
            drawn.add_tools(HoverTool(renderers=[dots], tooltips=tooltips, mode="vline"))
        drawn.grid.grid_line_color = "#e3e9ee"
        drawn.outline_line_color = None
        if title == TIMES:
            drawn.legend.update(location="top_left", background_fill_alpha=0.7,
                border_line_color=None)  # fmt: skip
        return TabPanel(title=title, child=drawn)


#: Conditions that are areas, and their units.
AREAS = {"polygon": "m", "polygon_degrees": "degrees"}
#: Maximum number of corners of a lasso, and characters of a text.
CORNERS, LONGEST = 200, 200


class EditPanel:
    """A selection on the map becomes a row of ``edits.csv``, and a row is taken back.

    A box or a lasso is a ``polygon`` in m of the map, which the file has in degrees where they are
    known; a tap on a sounding is its ``line``.

    Args:
        picture: in which a selection is made.
        edits: a ``mapping.exclusions.Edits``.
        block: of text, for the messages.

    Attributes:
        root: Bokeh's model.
    """

    def __init__(self, picture: MapPicture, edits: Any, block: Any) -> None:
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
        self.listed = Select(title="Left out", options=[], name="edits", **wide)
        self.back = Button(label="Take back", name="take-back", disabled=True, **wide)
        self.root = column(self._block, self.who, self.why, self.out, self.listed, self.back)
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
        if self.listed.value in rows:
            self._edits.take_back(rows[self.listed.value])

    def _show(self, *notices: Notice) -> None:
        shown = list(notices)
        try:
            rows = list(self._edits.rows())
        except (InputError, OSError) as error:
            rows = []
            shown.append(Notice(str(error), "", BAD))
        names = [_words(row) for row in rows]
        self.listed.options = names
        self.listed.value = names[-1] if names else ""
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


def _words(row: Any) -> str:
    """A row in a list: what, why, who and when."""
    which = ", ".join(
        f"area at {' '.join(value.split()[:2])} {AREAS[column]}" if column in AREAS else
        f"{column} {value}" for column, value in row.which
    )  # fmt: skip
    return " · ".join(part for part in (which, row.why, row.who, row.when) if part)


SIDE = 400  # px, width of the column beside the map
#: On a phone the column comes below the map, and the page scrolls.
NARROW = "@media (max-width: 800px){{:host{{{}}}}}"
_WHOLE = "width:100% !important;flex:none !important;align-self:auto !important;"
NARROW_PAGE = NARROW.format("height:auto !important")
NARROW_ROW = NARROW.format(f"flex-direction:column !important;height:auto !important;{_WHOLE}")
NARROW_MAP = "height:min(88vh,{}) !important;box-sizing:border-box;" + _WHOLE
#: px, about: what is beside the map on a phone, what is above and below it, and the lowest it gets.
BESIDE, ABOVE, LOWEST = 180, 310, 450
NARROW_SIDE = NARROW.format(f"height:auto !important;{_WHOLE}")
#: Style of the page, as blocks of Bokeh's template.
TEMPLATE = (
    '{% block preamble %}<meta name="viewport" content="width=device-width, initial-scale=1">'
    "{% endblock %}"
    "{% block postamble %}<style>"
    f"html,body{{background:#f2f5f7;{texts.FONT}}}"
    "body{padding:14px;box-sizing:border-box}"
    "</style>{% endblock %}"
)
_CARD = {
    "background": "#ffffff", "border": "1px solid #dde4ea", "border-radius": "8px",
    "padding": "12px 14px",
}  # fmt: skip


class Page:
    """The models of a page, which shows one scene after another.

    Attributes:
        root: of the document.
        picture, curves: of the map, and over the samples.
        editing: of the soundings; None where they cannot be edited.

    Args:
        edits: a ``mapping.exclusions.Edits``, if a person's edits may be changed on the page.
    """

    def __init__(self, edits: Any = None) -> None:
        from bokeh.layouts import column, row
        from bokeh.models import InlineStyleSheet

        self.picture, self.curves = MapPicture(), CurvePicture()
        sheet = InlineStyleSheet(css=texts.STYLE)
        self._head = _text_block(sheet, name="head")
        self._waiting = _text_block(sheet, name="waiting")
        self._waiting.update(sizing_mode="stretch_both", styles={"height": "100%"})
        self._remarks = _text_block(sheet, name="remarks", styles=_CARD)
        self._numbers = _text_block(sheet, name="numbers", styles=_CARD)
        self._provenance = _text_block(sheet, name="provenance", styles=_CARD)
        self._choice = row(
            self.picture.buttons, self.picture.shading, spacing=14,
            stylesheets=[":host{flex-wrap:wrap !important;max-width:100%}"],
        )  # fmt: skip
        self._curves = column(
            self.curves.root, sizing_mode="stretch_width", styles=_CARD, visible=False
        )
        self._narrow = InlineStyleSheet(css=NARROW.format(NARROW_MAP.format("88vh")))
        chart = column(
            self._choice, self.picture.figure, self._waiting, sizing_mode="stretch_both",
            styles=_CARD, stylesheets=[self._narrow],
        )  # fmt: skip
        parts = [self._remarks, self._curves, self._numbers, self._provenance]
        self.editing = None
        if edits is not None:
            self.editing = EditPanel(self.picture, edits, _text_block(sheet, name="edit"))
            self.editing.root.update(sizing_mode="stretch_width", styles=_CARD)
            parts.insert(0, self.editing.root)
        side = column(
            *parts, width=SIDE, sizing_mode="stretch_height", spacing=12,
            styles={"overflow-y": "auto"}, stylesheets=[NARROW_SIDE],
        )  # fmt: skip
        below = row(chart, side, sizing_mode="stretch_both", spacing=12, stylesheets=[NARROW_ROW])
        self.root = column(
            self._head, below, sizing_mode="stretch_both", spacing=10, name="page",
            stylesheets=[NARROW_PAGE],
        )  # fmt: skip
        self._scene: Scene | None = None

    def show(self, scene: Scene) -> None:
        """Show a scene; unchanged parts are not sent to the browser again."""
        before, self._scene = self._scene, scene
        if scene is before:
            return
        self.picture.show(scene)
        if self.editing is not None:
            self.editing.show(scene)
        if before is None or scene.curves is not before.curves:
            self.curves.show(scene.curves)
            self._curves.visible = len(scene.curves.samples) > 0
        _set_text(self._head, texts.head(scene))
        _set_text(self._remarks, texts.remarks(scene.remarks))
        chart = scene.chart
        if before is None or chart is not before.chart:
            _set_text(self._numbers, "" if chart is None else texts.map_numbers(chart))
            _set_text(self._provenance, "" if chart is None else texts.provenance(chart))
            self._choice.visible = chart is not None
            if chart is not None:  # no higher than the map needs
                width, height = chart.grid.borders.size
                own = f"calc((100vw - {BESIDE}px)*{height / width:.3f} + {ABOVE}px)"
                need = f"max({LOWEST}px,{own})"
                self._narrow.css = NARROW.format(NARROW_MAP.format(need))
        _set_text(self._waiting, "" if chart is not None else texts.waiting(scene))
        anything = scene.somewhere or len(scene.refused.placed) > 0
        if self.picture.figure.visible != anything:
            self.picture.figure.visible = anything


def _text_block(sheet: Any, **options: Any) -> Any:
    from bokeh.models import Div

    # Otherwise "$$" in a name would load MathJax from the network.
    return Div(text="", disable_math=True, stylesheets=[sheet], sizing_mode="stretch_width",
        visible=False, margin=0, **options)  # fmt: skip


def _set_text(part: Any, text: str) -> None:
    """Set a text; an empty one hides the part. Unchanged texts keep their open details."""
    if part.text != text:
        part.text = text
    if part.visible != bool(text):
        part.visible = bool(text)


def document(page: Page, title: str, into: Any = None) -> Any:
    """A Bokeh document with the page; ``into``: an existing one to use."""
    from bokeh.document import Document

    made = Document() if into is None else into
    made.title = title
    made.template = TEMPLATE
    made.add_root(page.root)
    return made


def standalone(scene: Scene) -> str:
    """A self-contained HTML page: scripts and data are embedded, nothing is fetched.

    Without scripts, the numbers and the provenance can still be read.
    """
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    page = Page()
    page.show(scene)
    chart = scene.chart
    table = "" if chart is None else table_of(texts.numbers(chart) | dict(chart.provenance))
    plain = f"<noscript><h1>{texts.escape(scene.title)}</h1>{table}</noscript>"
    # As a variable: text in a template would be executed.
    block = "{% block contents %}{{ super() }}{{ plain }}{% endblock %}"
    return file_html(
        page.root, INLINE, title=scene.title, template=TEMPLATE + block,
        template_variables={"plain": plain},
    )  # fmt: skip
