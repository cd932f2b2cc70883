"""Pictures of a map: its layers side by side, and printed maps with contours, track, scale bar,
north arrow and graticule. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..planning.tvu import LEVEL_NAMES
from .exports.chart import Chart
from .exports.vectors import levels_of
from .figures import (
    DPI,
    WIDTH,
    blank_figure,
    draw_layer,
    draw_soundings,
    is_under_water,
    outline_cells,
    plain,
    save_figure,
)
from .view.layers import RELIEF, UNCERTAINTY, mixed

#: Aspect ratio of a map above which panels are stacked.
WIDE = 2.5
#: Width of a page of panels, of a colour bar with its labels, and height of a panel's title and
#: labels, in inches.
PAGE, BAR, TITLES = 14.0, 1.7, 0.9
#: Maximum height of a plate in inches; sizes of its text in points.
HEIGHT = 6.2
TEXT, SMALL = 9, 7.5
#: Width over height from which the colour bar is below the map.
BELOW = 1.2
INK = "#16283c"
FALSE_COLOUR = "#c8102e"  # of false echoes
#: Opacity of the soundings under contours.
FAINT = 0.5
#: Minimum distance of two labels of one depth, of any two, and of a label from the map's edge, as
#: shares of the map's longer side.
APART, CROWDED, EDGE = 0.12, 0.035, 0.015
#: Room above the frame for the scale bar, and for the north arrow as well, in points.
BAR_ROOM, NORTH_ROOM = 13, 28
#: Line labels: maximum number of characters, and where along a line they are tried, in this order.
LETTERS, ALONG = 16, (0.5, 0.3, 0.7, 0.12, 0.88)
#: Thousandths of an arc second in a degree.
UNITS = 3_600_000
#: Lines of a graticule in each direction, about.
LINES = 4


def draw_chart(chart: Chart) -> Any:
    """Depth or elevation with the soundings, uncertainty, ping density and TVU, side by side, or
    one below the other if the map is wide. Returns the figure."""
    width, height = chart.grid.borders.size
    rows, columns = (4, 1) if width > WIDE * height else (2, 2)
    panel = (PAGE / columns - BAR) * height / width + TITLES  # height set by the map's aspect
    figure = blank_figure((PAGE, float(np.clip(rows * panel, 8.0, 16.0))))
    figure.set_layout_engine("compressed")  # the other one cuts titles of axes of equal aspect
    figure.suptitle(plain(chart.provenance["title"]))
    relief = {"cmap": "viridis_r" if chart.settings.depth else "viridis"}
    counts = np.where(chart.density > 0, chart.density, np.nan)
    panels: tuple[tuple[np.ndarray, str, dict[str, Any]], ...] = (
        (chart.height, f"{chart.height_name} (m)", relief),
        (chart.uncertainty, "uncertainty, 95 % (m)", {"cmap": "magma"}),
        (counts, "density (pings per cell); white: interpolated", {"cmap": "cividis", "vmin": 0}),
        (chart.tvu, "TVU within (S-44 ed. 6)", {"cmap": "RdYlGn", "vmin": -0.5, "vmax": 4.5}),
    )
    # Not shared: shared axes of equal aspect get wider limits, and white borders, in a wide figure.
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, (values, title, style) in zip(axes.flat, panels, strict=True):
        image = draw_layer(axis, chart.grid, values, title, shrink=1.0, **style)
    image.colorbar.set_ticks(range(len(LEVEL_NAMES)), labels=LEVEL_NAMES)
    draw_soundings(axes[0, 0], chart.track)
    east, north = ("x (m)", "y (m)") if chart.place is None else ("east (m)", "north (m)")
    for axis in axes[-1]:
        axis.set_xlabel(east)
    for axis in axes[:, 0]:
        axis.set_ylabel(north)
    return figure


def draw_layers(chart: Chart, folder: Path) -> Path:
    """Draw a map as ``draw_chart`` does, but as elevations if most of it is above the water:
    maps.png."""
    if not is_under_water(chart.elevation, chart.settings.water_level):
        chart = replace(chart, settings=replace(chart.settings, depth=False))
    return save_figure(draw_chart(chart), folder / "maps.png")


def contour_levels(chart: Chart) -> list[float]:
    """Depths of the contours in m: of the interval that the map was made with, or a round one (also
    if that makes too many)."""
    depths = chart.depth[np.isfinite(chart.depth)]
    if not len(depths):
        return []
    try:
        return levels_of(depths, chart.settings.contour_interval)
    except InputError:
        return levels_of(depths, 0.0)


def chart_plate(chart: Chart) -> bytes:
    """The map with contours, track, scale bar, north arrow and graticule, as PNG."""
    figure, axis = _page(chart)
    image = draw_layer(axis, chart.grid, chart.depth, cmap=_mixed(RELIEF[::-1]))
    draw_soundings(axis, chart.track, FAINT)
    shore = _shore(axis, chart)
    _clipped(image, shore)
    _draw_contours(axis, chart, shore)
    _draw_decorations(axis, chart)
    bar = _colour_bar(figure, image, "depth (m)")
    if bar.orientation == "vertical":
        bar.ax.invert_yaxis()
    return _png(figure)


def uncertain(chart: Chart) -> np.ndarray:
    """Cells whose 95 % uncertainty is over half the contour interval [rows, columns]."""
    levels = contour_levels(chart)
    return chart.uncertainty > (levels[1] - levels[0] if len(levels) > 1 else np.inf) / 2


def _draw_contours(axis: Any, chart: Chart, shore: Any) -> None:
    """Draw the contours with their depths, dashed over cells that are ``uncertain``."""
    from scipy.ndimage import binary_dilation

    doubtful = uncertain(chart)
    # The dashed ones reach the next certain cell, where the others begin.
    parts = ((~doubtful, "solid"), (binary_dilation(doubtful), "dashed"))
    for cells, style in parts:
        lines = _contours(axis, chart, cells, linewidths=0.5, linestyles=style)
        if lines is not None:
            _clipped(lines, shore)
    _label_contours(axis, chart)


def _contours(axis: Any, chart: Chart, cells: np.ndarray, **style: Any) -> Any:
    """The contours over ``cells`` [rows, columns], boolean; None if there are none."""
    depth = np.ma.masked_invalid(np.where(cells, chart.depth, np.nan))
    levels = [at for at in contour_levels(chart) if depth.min() < at < depth.max()]
    if not levels:
        return None
    return axis.contour(chart.grid.x, chart.grid.y, depth, levels, colors=INK, **style)


def _label_contours(axis: Any, chart: Chart) -> None:
    """Write the depths of contours on them, upright: along a contour a 6 might be read as a 9.

    They are placed on whole contours, as solid and dashed parts would each have labels of their
    own; of two of one depth that are close, or of any two that would overlap, one is kept, and none
    that the map's edge would cut.
    """
    whole = _contours(axis, chart, np.isfinite(chart.depth), linewidths=0.0)
    if whole is None:
        return
    borders = chart.grid.borders
    near, crowded, edge = (share * float(borders.size.max()) for share in (APART, CROWDED, EDGE))
    kept: list[tuple[str, Any]] = []
    for label in axis.clabel(whole, fontsize=SMALL, fmt="%g", inline=False):
        place = np.array([label.get_position()])
        close = any(
            np.hypot(*(place[0] - at)) < (near if text == label.get_text() else crowded)
            for text, at in kept
        )
        if close or not borders.contains(place, slack=-edge)[0]:
            label.remove()
            continue
        kept.append((label.get_text(), label.get_position()))
        label.set(rotation=0, path_effects=_halo())


def uncertainty_plate(chart: Chart) -> bytes:
    """The 95 % uncertainty with the soundings, as PNG."""
    figure, axis = _page(chart, 0.75)
    halves = chart.uncertainty[np.isfinite(chart.uncertainty)]
    # A few very uncertain places must not take up the whole colour scale.
    high = float(np.quantile(halves, 0.98)) if len(halves) else 1.0
    style = {"vmin": 0.0, "vmax": high, "cmap": _mixed(UNCERTAINTY)}
    image = draw_layer(axis, chart.grid, chart.uncertainty, **style)
    draw_soundings(axis, chart.track)
    _clipped(image, _shore(axis, chart))
    _draw_decorations(axis, chart)
    _colour_bar(figure, image, "95 % uncertainty (m)", extend="max")
    return _png(figure)


def crossings_plate(chart: Chart) -> bytes:
    """The crossings of survey lines, coloured by their difference, over the lines, as PNG; crosses
    where one of the two soundings is left out."""
    figure, axis = _page(chart, 0.75)
    axis.plot(*chart.track.T, ".", color="#9aa7b2", markersize=1.2, markeredgewidth=0)
    crossings = chart.crossings
    kept = ~crossings.left_out
    xy, amount = crossings.xy[kept], np.abs(crossings.difference[kept])
    order = np.argsort(amount, kind="stable")  # the largest on top
    high = float(np.quantile(amount, 0.98)) if kept.any() else 1.0
    axis.plot(*crossings.xy[~kept].T, "x", color=FALSE_COLOUR, markersize=5, zorder=2.9)
    drawn = axis.scatter(
        *xy[order].T, s=26, c=amount[order], cmap=_mixed(UNCERTAINTY), vmin=0.0,
        vmax=max(high, 1e-3), edgecolors=INK, linewidths=0.4, zorder=3,
    )  # fmt: skip
    _shore(axis, chart)
    _draw_decorations(axis, chart)
    _colour_bar(figure, drawn, "difference at the crossing (m)", extend="max")
    _label_lines(figure, axis, chart)
    return _png(figure)


def lines_plate(chart: Chart, out: np.ndarray) -> bytes:
    """The survey lines with their names, and the soundings that screening left out, at ``out``
    [N, 2], as PNG."""
    figure, axis = _page(chart, 0.75, bar=False)
    for number, (_, places) in enumerate(chart.lines or [("", chart.track)]):
        axis.plot(*places.T, ".", color=f"C{number % 10}", markersize=1.8, markeredgewidth=0)
    size = float(np.clip(4 * np.sqrt(300 / max(1, len(out))), 2.0, 4))  # points
    axis.plot(
        *out.T, "x", color=FALSE_COLOUR, markersize=size, markeredgewidth=0.2 * size, zorder=2.5
    )
    _shore(axis, chart)
    _draw_decorations(axis, chart)
    _label_lines(figure, axis, chart)
    return _png(figure)


def _label_lines(figure: Any, axis: Any, chart: Chart) -> None:
    """Write the names of the survey lines beside them, where there is room; long lines first."""
    lines = chart.lines
    if not lines:
        return
    figure.draw_without_rendering()  # the layout fixes the size of the axis
    figure.set_layout_engine("none")
    points = 72 / figure.dpi
    corners = axis.transData.transform(np.reshape(chart.grid.borders.bounds, (2, 2)).T) * points
    taken = np.empty((0, 4))
    for name, places in sorted(lines, key=lambda line: -len(line[1])):
        text = name if len(name) <= LETTERS else f"{name[:LETTERS]}\u2026"
        half = np.array([0.34 * SMALL * len(text), 0.75 * SMALL])
        for share in ALONG:
            place = places[int(share * (len(places) - 1))]
            middle = axis.transData.transform(place) * points
            box = np.concatenate((middle - half, middle + half))
            apart = (box[:2] >= taken[:, 2:]) | (box[2:] <= taken[:, :2])
            inside = (box[:2] > corners[0]).all() and (box[2:] < corners[1]).all()
            if inside and apart.any(1).all():
                taken = np.vstack((taken, box))
                axis.text(
                    *place, plain(text), fontsize=SMALL, ha="center", va="center", color=INK,
                    path_effects=_halo(), zorder=4,
                )  # fmt: skip
                break


def _halo() -> list[Any]:
    """A white edge around text, so that it can be read over a map."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=1.8, foreground="white")]


def _colour_bar(figure: Any, drawn: Any, label: str, extend: str = "neither") -> Any:
    """A colour bar beside the map; of a wide map, below it."""
    axis = figure.axes[0]
    (xmin, xmax), (ymin, ymax) = axis.get_xlim(), axis.get_ylim()
    below = xmax - xmin > BELOW * (ymax - ymin)
    bar = figure.colorbar(
        drawn, ax=axis, location="bottom" if below else "right", shrink=0.8, aspect=30,
        extend=extend, pad=0.03,
    )  # fmt: skip
    bar.set_label(label, fontsize=TEXT)
    bar.ax.tick_params(labelsize=SMALL)
    return bar


def _page(chart: Chart, part: float = 1.0, bar: bool = True) -> tuple[Any, Any]:
    """A figure that fits the page and ``part`` of its height, with room for a colour bar if there
    is one, and its axis."""
    width, height = chart.grid.borders.size
    wide = width > BELOW * height
    beside, above = (0.5, 1.3) if wide and bar else (1.2, 0.6) if bar else (0.5, 0.6)
    above += 0.0 if chart.place is None else 0.35  # the north arrow
    inches = (WIDTH - beside) * height / width + above
    figure = blank_figure((WIDTH, float(np.clip(inches, 2.0, HEIGHT * part))))
    axis = figure.subplots()
    axis.set_aspect("equal")
    axis.tick_params(labelsize=SMALL)
    return figure, axis


def _mixed(anchors: Sequence[str]) -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(mixed(anchors))


def _shore(axis: Any, chart: Chart) -> Any:
    """Draw the outline, and return it as a patch; without one draw the border between cells with
    and without a value, and return None."""
    mapped = np.isfinite(chart.depth)
    if chart.outline:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        rings = [np.concatenate((ring, ring[:1])) for ring in chart.outline]
        codes = [[Path.MOVETO, *[Path.LINETO] * (len(ring) - 2), Path.CLOSEPOLY] for ring in rings]
        path = Path(np.concatenate(rings), np.concatenate(codes))
        return axis.add_patch(PathPatch(path, fill=False, edgecolor=INK, linewidth=0.9))
    if not mapped.all():
        outline_cells(axis, chart.grid, mapped)
    return None


def _clipped(drawn: Any, shore: Any) -> None:
    """Draw nothing of it outside the outline, if there is one."""
    if shore is not None:
        drawn.set_clip_path(shore)


def _draw_decorations(axis: Any, chart: Chart) -> None:
    """Draw a scale bar; north arrow and graticule too if the map has a georeference."""
    from matplotlib.font_manager import FontProperties
    from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

    xmin, xmax, ymin, ymax = chart.grid.borders.bounds
    axis.set_xlim(xmin, xmax)
    axis.set_ylim(ymin, ymax)
    length = _bar(0.3 * (xmax - xmin))
    unit = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
    # Above the frame: inside, it would hide the map. A blank title keeps room for it in the layout.
    axis.set_title(" ", fontsize=TEXT, pad=BAR_ROOM if chart.place is None else NORTH_ROOM)
    axis.add_artist(
        AnchoredSizeBar(
            axis.transData, length, unit, "lower left", pad=0.2, borderpad=0.4, frameon=False,
            label_top=True, bbox_to_anchor=(0.0, 1.0), bbox_transform=axis.transAxes,
            fontproperties=FontProperties(size=SMALL),
        )
    )  # fmt: skip
    if chart.place is None:
        axis.set_xlabel("x (m)", fontsize=TEXT)
        axis.set_ylabel("y (m)", fontsize=TEXT)
        return
    style = {"arrowstyle": "<|-", "color": "black", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    axis.annotate(  # its head is at the text: as long in points, however high the map is
        "N", (0.98, 1.01), (0, 20), "axes fraction", "offset points", arrowprops=style,
        annotation_clip=False, ha="center", va="bottom", fontsize=10,
    )  # fmt: skip
    _graticule(axis, chart)


def _bar(wanted: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is at most ``wanted``, in m."""
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(power * max(k for k in (1, 2, 5) if k * power <= wanted))


def _graticule(axis: Any, chart: Chart) -> None:
    """Draw meridians and parallels with their degrees; label metres without pyproj."""
    assert chart.place is not None
    xmin, xmax, ymin, ymax = chart.grid.borders.bounds
    x, y = np.linspace(xmin, xmax, 50), np.linspace(ymin, ymax, 50)
    try:
        south, north = (
            chart.place.degrees(np.column_stack((x, 0 * x + at))) for at in (ymin, ymax)
        )
        west, east = (chart.place.degrees(np.column_stack((0 * y + at, y))) for at in (xmin, xmax))
    except InputError:
        axis.set_xlabel("east (m)", fontsize=TEXT)
        axis.set_ylabel("north (m)", fontsize=TEXT)
        return
    line = {"color": INK, "linewidth": 0.3, "alpha": 0.6}
    across, up = xmax - xmin, ymax - ymin  # on a short side labels need more room
    meridians = _round_angles(
        max(south[0, 0], north[0, 0]), min(south[-1, 0], north[-1, 0]), min(1.0, 2 * across / up)
    )
    ends = [[np.interp(a, side[:, 0], x) for side in (south, north)] for a in meridians]
    for both in ends:
        axis.plot(both, (ymin, ymax), **line)
    axis.set_xticks([both[0] for both in ends], [_angle(a, "EW") for a in meridians])
    parallels = _round_angles(
        max(west[0, 1], east[0, 1]), min(west[-1, 1], east[-1, 1]), min(1.0, 2 * up / across)
    )
    ends = [[np.interp(a, side[:, 1], y) for side in (west, east)] for a in parallels]
    for both in ends:
        axis.plot((xmin, xmax), both, **line)
    axis.set_yticks(
        [both[0] for both in ends], [_angle(a, "NS") for a in parallels], rotation=90, va="center"
    )


def _round_angles(low: float, high: float, share: float = 1.0) -> list[float]:
    """Round angles from ``low`` to ``high``, in degrees; this share of the usual number, but at
    least two, as a single one shows no scale."""
    from mpl_toolkits.axisartist.angle_helper import LocatorDMS

    angles: list[float] = []
    for count in range(max(1, round(LINES * share) - 1), 10):
        steps, _, factor = LocatorDMS(count)(low, high)
        angles = [float(step / factor) for step in steps if low <= step / factor <= high]
        if len(angles) > 1:
            break
    return angles


def _angle(degrees: float, ends: str) -> str:
    """An angle as degrees, minutes and seconds, without trailing zeros."""
    seconds, parts = divmod(round(abs(degrees) * UNITS), 1000)
    whole, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    fraction = f".{parts:03d}".rstrip("0") if parts else ""
    text = f"{whole}\u00b0" + (f"{minutes:02d}\u2032" if seconds % 3600 or parts else "")
    return text + (f"{rest:02d}{fraction}\u2033" if rest or parts else "") + ends[degrees < 0]


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI)
    return content.getvalue()
