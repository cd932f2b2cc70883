"""A survey as a page: one document for the server and for a single file. Needs bokeh."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from contextlib import suppress
from html import escape
from typing import Any

import numpy as np

from ..core.errors import InputError, quantity
from ..frontend.refused_pings import MAX_PER_REASON, RefusedPings
from .html import numbers as numbers_of
from .html import table
from .picture import FONT, MapPicture, drawn_refused_pings
from .scene import BAD, GOOD, NOTE, Notice, Scene

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


#: Conditions that are areas, and their units.
AREAS = {"polygon": "m", "polygon_degrees": "degrees"}
#: Maximum number of corners of a lasso, and characters of a text.
CORNERS, LONGEST = 200, 200
HOW = "<h2>Edit</h2><small>select with box or lasso, or tap a sounding for its line</small>"


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
        self._which = "", ""  # condition that is selected, and its value
        wide = {"sizing_mode": "stretch_width", "margin": (3, 0, 3, 0)}
        self.who = TextInput(title="Who", max_length=LONGEST, name="who", **wide)
        with suppress(OSError, KeyError):  # a process without a user's name
            self.who.value = getpass.getuser()
        self.why = TextInput(title="Why", max_length=LONGEST, name="why", **wide)
        self.out = Button(name="leave-out", **wide)
        self.listed = Select(title="Left out", name="edits", **wide)
        self.back = Button(label="Take back", name="take-back", **wide)
        self.root = column(block, self.who, self.why, self.out, self.listed, self.back)
        self.out.on_click(lambda: self._do(self._leave_out))
        self.back.on_click(lambda: self._do(self._take_back))
        picture.on_selection(self._select_area, lambda line: self._choose("line", line))
        self._written: tuple[Notice, ...] = ()
        self._show()

    def _select_area(self, corners: np.ndarray) -> None:
        chart = self._picture.chart
        if chart is not None and chart.place is not None:
            corners = chart.place.to_map(corners)
        corners = corners[:: -(-len(corners) // CORNERS)]
        self._choose("polygon", " ".join(f"{value:.2f}" for value in corners.ravel()))

    def _choose(self, column: str, value: str) -> None:
        self._which = column, value
        self._show()

    def _do(self, what: Callable[[], None]) -> None:
        try:
            what()
        except (InputError, OSError) as error:
            self._show(Notice(f"not done: {error}", "", BAD))
            return
        command = f"for the new map run: {self._edits.command}"
        self._written = (Notice(f"written to {self._edits.path}", command, NOTE),)
        self._picture.clear_selection()
        self._choose("", "")

    def _leave_out(self) -> None:
        who, why = (part.value.strip()[:LONGEST] for part in (self.who, self.why))
        if not (who and why):
            raise InputError("enter who leaves these soundings out, and why")
        self._edits.leave_out(*self._which, who, why)

    def _take_back(self) -> None:
        rows = {_words(row): row for row in self._edits.rows()}
        if self.listed.value in rows:
            self._edits.take_back(rows[self.listed.value])

    def _show(self, *notices: Notice) -> None:
        names: list[str] = []
        try:
            names = [_words(row) for row in self._edits.rows()]
        except (InputError, OSError) as error:
            notices = *notices, Notice(str(error), "", BAD)
        self.listed.update(options=names, value=names[-1] if names else "")
        column, value = self._which
        what = f"line {value}" if column == "line" else "the selected area" if column else ""
        self.out.update(label=f"Leave out {what}".strip(), disabled=not value)
        self.back.disabled = not names
        self._block.update(text=HOW + _items((*notices, *self._written)), visible=True)


def _words(row: Any) -> str:
    """A row in a list: what, why, who and when."""
    which = ", ".join(
        f"area at {' '.join(value.split()[:2])} {AREAS[column]}" if column in AREAS else
        f"{column} {value}" for column, value in row.which
    )  # fmt: skip
    return " · ".join(part for part in (which, row.why, row.who, row.when) if part)


SIDE = 400  # px, width of the column beside the map
#: On a phone the column comes below the map, and the page scrolls.
NARROW = "@media (max-width: 800px){{:host{{height:auto !important;{}}}}}"
WHOLE = "width:100% !important;flex:none !important;align-self:auto !important;"
#: Height of the map there: no more than it needs beside the axes and below the buttons (px, about).
NARROW_MAP = (
    "height:min(88vh,max(450px,calc((100vw - 180px)*{:.3f} + 310px))) !important;"
    f"box-sizing:border-box;{WHOLE}"
)
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
        picture: of the map.
        editing: of the soundings; None where they cannot be edited.

    Args:
        edits: a ``mapping.exclusions.Edits``, if a person's edits may be changed on the page.
    """

    def __init__(self, edits: Any = None) -> None:
        from bokeh.layouts import column, row
        from bokeh.models import Div, InlineStyleSheet

        self.picture = picture = MapPicture()
        sheet = InlineStyleSheet(css=STYLE)
        wide: dict[str, Any] = {"sizing_mode": "stretch_width"}
        self._texts = {  # else "$$" in a name would load MathJax from the network
            name: Div(text="", name=name, disable_math=True, stylesheets=[sheet], visible=False,
                margin=0, styles=styles, **wide)
            for name, styles in (("head", {}), ("waiting", {"height": "100%"}), ("remarks", _CARD),
                ("numbers", _CARD), ("provenance", _CARD), ("edit", {}))
        }  # fmt: skip
        head, waiting, *facts, edit = self._texts.values()
        waiting.sizing_mode = "stretch_both"
        self._choice = row(picture.buttons, picture.shading, spacing=14,
            stylesheets=[":host{flex-wrap:wrap !important;max-width:100%}"])  # fmt: skip
        self._narrow = InlineStyleSheet(css=NARROW.format(NARROW_MAP.format(9.0)))
        whole: dict[str, Any] = {"sizing_mode": "stretch_both", "spacing": 12}
        chart = column(self._choice, picture.figure, waiting, sizing_mode="stretch_both",
            styles=_CARD, stylesheets=[self._narrow])  # fmt: skip
        self.editing = None if edits is None else EditPanel(picture, edits, edit)
        if self.editing is not None:
            self.editing.root.update(styles=_CARD, **wide)
        side = column(*([self.editing.root] if self.editing else []), *facts,
            width=SIDE, sizing_mode="stretch_height", spacing=12,
            styles={"overflow-y": "auto"}, stylesheets=[NARROW.format(WHOLE)])  # fmt: skip
        beside = f"flex-direction:column !important;{WHOLE}"
        below = row(chart, side, stylesheets=[NARROW.format(beside)], **whole)
        self.root = column(head, below, name="page", stylesheets=[NARROW.format("")], **whole)
        self._scene: Scene | None = None

    def show(self, scene: Scene) -> None:
        """Show a scene; unchanged parts are not sent to the browser again."""
        before, self._scene = self._scene, scene
        if scene is before:
            return
        self.picture.show(scene)
        chart, pings = scene.chart, len(scene.pings)
        made = {} if chart is None else dict(chart.provenance)
        count = made.pop("samples", "")
        details = [f"map of {quantity(int(count), 'ping')}"] if count else []
        if pings and str(pings) != count:
            details.append(f"{quantity(pings, 'ping')} so far")
        title = f"<h1>{escape(scene.title)}</h1><small>{escape(' · '.join(details))}</small>"
        status = _items((*scene.remarks, *refused(scene.refused)))
        texts = {
            "head": f'<div class="head">{title}</div>',
            "remarks": f"<h2>Status</h2>{status}" if status else "",
            "waiting": f'<div class="wait">{escape(scene.waiting)}</div>' if chart is None else "",
            "numbers": "",
            "provenance": "",
        }
        if chart is not None:
            folded = f"<details><summary>show</summary>{table(made)}</details>"
            texts["numbers"] = f"<h2>The map</h2>{table(numbers_of(chart))}"
            texts["provenance"] = f"<h2>Provenance</h2>{folded}"
            width, height = chart.grid.borders.size
            self._narrow.css = NARROW.format(NARROW_MAP.format(height / width))
        for name, text in texts.items():  # unchanged texts keep their open details
            self._texts[name].update(text=text, visible=bool(text))
        self._choice.visible = chart is not None
        self.picture.figure.visible = scene.somewhere or len(scene.refused.placed) > 0


def refused(pings: RefusedPings) -> tuple[Notice, ...]:
    """How many pings were refused, and which of them are drawn; empty without any."""
    counts = pings.counts
    if not counts:
        return ()
    reasons = ", ".join(f"{counts[reason]:,} {reason}" for reason in sorted(counts))
    total = sum(counts.values())
    details = f"{len(drawn_refused_pings(pings)):,} of them are drawn at their places"
    if len(pings) < total and max(counts.values()) > MAX_PER_REASON:
        details += f"; only the newest {MAX_PER_REASON:,} of each reason are known"
    return (Notice(f"{total:,} pings refused: {reasons}", details, NOTE),)


def _items(notices: Iterable[Notice]) -> str:
    """The messages as a list, the worst first; empty without any."""
    lines = [
        f'<li class="{each.mark}">{escape(each.text)}'
        + (f"<br><small>{escape(each.advice)}</small>" if each.advice else "")
        + "</li>"
        for each in sorted(notices, key=lambda each: (BAD, NOTE, GOOD).index(each.mark))
    ]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


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

    page, chart = Page(), scene.chart
    page.show(scene)
    texts = {} if chart is None else numbers_of(chart) | dict(chart.provenance)
    plain = f"<noscript><h1>{escape(scene.title)}</h1>{table(texts)}</noscript>"
    # As a variable: text in a template would be executed.
    template = TEMPLATE + "{% block contents %}{{ super() }}{{ plain }}{% endblock %}"
    more: dict[str, Any] = {"template": template, "template_variables": {"plain": plain}}
    return file_html(page.root, INLINE, scene.title, **more)
