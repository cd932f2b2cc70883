"""A survey as a page: one document for the server and for a single file. Needs bokeh."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from contextlib import suppress
from html import escape
from typing import Any

import numpy as np

from ..core.errors import InputError, quantity
from .html import numbers as numbers_of
from .html import table
from .picture import FONT, MapPicture
from .scene import BAD, GOOD, NOTE, TIMES, Curves, Notice, Scene

#: Style of the parts made here; each is in a shadow DOM of its own.
STYLE = (
    f":host{{{FONT};color:#1c2733;font-size:14px;line-height:1.45}}"
    "h1{font-size:20px;margin:0;font-weight:650;overflow-wrap:anywhere}"
    "h2{font-size:12px;letter-spacing:.06em;text-transform:uppercase;color:#5b6b7b;"
    "margin:0 0 6px;font-weight:650}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:3px 0;border-bottom:1px solid #e7ecf0;"
    "overflow-wrap:anywhere;font-weight:400}"
    "th{color:#5b6b7b;padding-right:12px;width:38%}"
    "ul{list-style:none;margin:0;padding:0}li{padding:3px 0 3px 18px;position:relative;"
    "overflow-wrap:anywhere}"
    "li::before{content:'';position:absolute;left:2px;top:9px;width:8px;height:8px;"
    "border-radius:50%;background:#2f9e62}"
    "li.note::before{background:#c9a227}li.bad::before{background:#c8372d}"
    "small{color:#5b6b7b;font-size:13px}"
    ".head{display:flex;align-items:baseline;gap:12px;flex-wrap:wrap}"
    ".wait{display:flex;height:100%;align-items:center;justify-content:center;text-align:center;"
    "font-size:17px;color:#44525f;padding:0 2em}"
    "details{margin-top:4px}summary{cursor:pointer;color:#5b6b7b}"
)
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
        self._shown: dict[str, list[str]] = {}

    def show(self, curves: Curves) -> None:
        """Show new curves, or longer ones."""
        values = {name: own for tab in curves.tabs.values() for name, own in tab.items()}
        columns = {"samples": curves.samples, **values}
        self.source.data = {name: np.asarray(column, float) for name, column in columns.items()}
        names = {title: [*tab] for title, tab in curves.tabs.items()}
        if names != self._shown:
            self._shown = names
            self.root.tabs = [self._tab(title, own) for title, own in names.items()]

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
        picture.on_selection(self._select_area, lambda line: self._choose("line", line))
        self._show()

    def _select_area(self, corners: np.ndarray) -> None:
        chart = self._picture.chart
        if chart is not None and chart.place is not None:
            corners = chart.place.to_map(corners)
        corners = corners[:: -(-len(corners) // CORNERS)]
        self._choose("polygon", " ".join(f"{value:.2f}" for value in corners.ravel()))

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
        self._block.text = f"<h2>Edit</h2><small>{text}</small>" + _items(shown)
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
    f"html,body{{background:#f2f5f7;{FONT}}}"
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
        from bokeh.models import Div, InlineStyleSheet

        self.picture, self.curves = MapPicture(), CurvePicture()
        sheet = InlineStyleSheet(css=STYLE)
        self._texts = {  # else "$$" in a name would load MathJax from the network
            name: Div(text="", name=name, disable_math=True, stylesheets=[sheet], visible=False,
                sizing_mode="stretch_width", margin=0, styles=styles)
            for name, styles in (("head", {}), ("waiting", {"height": "100%"}), ("remarks", _CARD),
                ("numbers", _CARD), ("provenance", _CARD), ("edit", {}))
        }  # fmt: skip
        head, waiting, remarks, numbers, provenance, edit = self._texts.values()
        waiting.sizing_mode = "stretch_both"
        self._choice = row(
            self.picture.buttons, self.picture.shading, spacing=14,
            stylesheets=[":host{flex-wrap:wrap !important;max-width:100%}"],
        )  # fmt: skip
        self._curves = column(
            self.curves.root, sizing_mode="stretch_width", styles=_CARD, visible=False
        )
        self._narrow = InlineStyleSheet(css=NARROW.format(NARROW_MAP.format("88vh")))
        chart = column(
            self._choice, self.picture.figure, waiting, sizing_mode="stretch_both",
            styles=_CARD, stylesheets=[self._narrow],
        )  # fmt: skip
        parts = [remarks, self._curves, numbers, provenance]
        self.editing = None
        if edits is not None:
            self.editing = EditPanel(self.picture, edits, edit)
            self.editing.root.update(sizing_mode="stretch_width", styles=_CARD)
            parts.insert(0, self.editing.root)
        side = column(
            *parts, width=SIDE, sizing_mode="stretch_height", spacing=12,
            styles={"overflow-y": "auto"}, stylesheets=[NARROW_SIDE],
        )  # fmt: skip
        below = row(chart, side, sizing_mode="stretch_both", spacing=12, stylesheets=[NARROW_ROW])
        self.root = column(
            head, below, sizing_mode="stretch_both", spacing=10, name="page",
            stylesheets=[NARROW_PAGE],
        )  # fmt: skip
        self._scene: Scene | None = None

    def show(self, scene: Scene) -> None:
        """Show a scene; unchanged parts are not sent to the browser again."""
        before, self._scene = self._scene, scene
        if scene is before:
            return
        self.picture.show(scene)
        if before is None or scene.curves is not before.curves:
            self.curves.show(scene.curves)
            self._curves.visible = len(scene.curves.samples) > 0
        chart, head = scene.chart, f"<h1>{escape(scene.title)}</h1>"
        made = {} if chart is None else dict(chart.provenance)
        count = made.pop("samples", "")
        details = [f"map of {quantity(int(count), 'ping')}"] if count else []
        if scene.samples and str(scene.samples) != count:
            details.append(f"{quantity(scene.samples, 'ping')} so far")
        worst_first = sorted(scene.remarks, key=lambda each: (BAD, NOTE, GOOD).index(each.mark))
        listed = _items(worst_first)
        texts = {
            "head": f'<div class="head">{head}<small>{escape(" · ".join(details))}</small></div>',
            "remarks": f"<h2>Status</h2>{listed}" if listed else "",
            "waiting": f'<div class="wait">{escape(scene.waiting)}</div>' if chart is None else "",
        }
        if before is None or chart is not before.chart:
            texts |= {"numbers": "", "provenance": ""}
            self._choice.visible = chart is not None
            if chart is not None:
                texts["numbers"] = f"<h2>The map</h2>{table(numbers_of(chart))}"
                folded = f"<details><summary>show</summary>{table(made)}</details>"
                texts["provenance"] = f"<h2>Provenance</h2>{folded}"
                width, height = chart.grid.borders.size  # no higher than the map needs
                own = f"calc((100vw - {BESIDE}px)*{height / width:.3f} + {ABOVE}px)"
                self._narrow.css = NARROW.format(NARROW_MAP.format(f"max({LOWEST}px,{own})"))
        for name, text in texts.items():
            part = self._texts[name]
            if part.text != text:  # unchanged texts keep their open details
                part.update(text=text, visible=bool(text))
        anything = scene.somewhere or len(scene.refused.placed) > 0
        if self.picture.figure.visible != anything:
            self.picture.figure.visible = anything


def _items(notices: Iterable[Notice]) -> str:
    """The messages in this order as a list; empty without any."""
    lines = "".join(
        f'<li class="{remark.mark}">{escape(remark.text)}'
        + (f"<br><small>{escape(remark.advice)}</small>" if remark.advice else "")
        + "</li>"
        for remark in notices
    )
    return f"<ul>{lines}</ul>" if lines else ""


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
    shown = "" if chart is None else table(numbers_of(chart) | dict(chart.provenance))
    plain = f"<noscript><h1>{escape(scene.title)}</h1>{shown}</noscript>"
    # As a variable: text in a template would be executed.
    block = "{% block contents %}{{ super() }}{{ plain }}{% endblock %}"
    return file_html(
        page.root, INLINE, title=scene.title, template=TEMPLATE + block,
        template_variables={"plain": plain},
    )  # fmt: skip
