"""Pictures of a map: its layers side by side, and printed maps with contours, track, scale bar,
north arrow and graticule. Needs matplotlib."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from . import figures
from .chart import UNCERTAINTY, Chart, Layer, layer_of, mixed
from .vectors import levels_of

#: Aspect ratio of a map above which panels are stacked.
WIDE = 2.5
#: Width of a page of panels, of a colour bar with its labels, and height of a panel's title and
#: labels, in inches.
PAGE, BAR, TITLES = 14.0, 1.7, 0.9
#: Maximum height of a plate in inches, and share of it of those with a caption; sizes of text in
#: points.
HEIGHT, LOWER = 6.2, 0.75
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
#: Lines of a graticule in each direction, about; and share of an edge that has none at its corners,
#: where labels of both directions would overlap.
LINES, CORNER = 4, 0.02


def style_of(layer: Layer) -> dict[str, Any]:
    """How matplotlib colours a layer; values below the lowest colour are transparent."""
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(layer.colours).with_extremes(under=(0, 0, 0, 0))
    return {"cmap": colours, "vmin": layer.low, "vmax": layer.high}


def draw_chart(chart: Chart) -> Any:
    """Depth or elevation with the soundings, uncertainty, ping density and TVU, side by side, or
    one below the other if the map is wide. Returns the figure."""
    from matplotlib.ticker import MaxNLocator

    width, height = chart.grid.borders.size
    rows, columns = (4, 1) if width > WIDE * height else (2, 2)
    panel = (PAGE / columns - BAR) * height / width + TITLES  # height set by the map's aspect
    figure = figures.blank_figure((PAGE, float(np.clip(rows * panel, 8.0, 16.0))))
    figure.set_layout_engine("compressed")  # the other one cuts titles of axes of equal aspect
    figure.suptitle(figures.plain(chart.provenance["title"]))
    # Not shared: shared axes of equal aspect get wider limits, and white borders, in a wide figure.
    axes = figure.subplots(rows, columns, squeeze=False)
    notes = {"density": "; white: interpolated", "tvu": " (IHO S-44)"}
    for axis, key in zip(axes.flat, ("height", "uncertainty", "density", "tvu"), strict=True):
        layer = layer_of(chart, key)
        title = layer.title + notes.get(key, "")
        image = figures.draw_layer(
            axis, chart.grid, layer.values, title, layer.extend, 1.0, **style_of(layer)
        )
        if layer.downward:
            image.colorbar.ax.invert_yaxis()
        if layer.labels:
            image.colorbar.set_ticks(range(len(layer.labels)), labels=layer.labels)
        if key == "density":
            image.colorbar.locator = MaxNLocator(integer=True, min_n_ticks=1)
            image.colorbar.minorticks_off()
    figures.draw_soundings(axes[0, 0], chart.track)
    east, north = ("x (m)", "y (m)") if chart.place is None else ("east (m)", "north (m)")
    for axis in axes[-1]:
        axis.set_xlabel(east)
    for axis in axes[:, 0]:
        axis.set_ylabel(north)
    return figure


def draw_layers(chart: Chart, folder: Path) -> Path:
    """Draw a map as ``draw_chart`` does, but as elevations if most of it is above the water:
    maps.png."""
    if not figures.is_under_water(chart.elevation, chart.settings.water_level):
        chart = replace(chart, settings=replace(chart.settings, depth=False))
    return figures.save_figure(draw_chart(chart), folder / "maps.png")


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


def uncertain(chart: Chart) -> np.ndarray:
    """Cells whose 95 % uncertainty is over half the contour interval [rows, columns]."""
    levels = contour_levels(chart)
    return chart.uncertainty > (levels[1] - levels[0] if len(levels) > 1 else np.inf) / 2


def layer_plate(chart: Chart, key: str) -> bytes:
    """A layer (``height`` with contours, or ``uncertainty``) within the outline if there is one,
    with the soundings, scale bar, north arrow and graticule, as PNG."""
    contoured = key == "height"
    (figure, axis), layer = _page(chart, 1.0 if contoured else LOWER), layer_of(chart, key)
    drawn = [figures.draw_layer(axis, chart.grid, layer.values, **style_of(layer))]
    figures.draw_soundings(axis, chart.track, FAINT if contoured else 1.0)
    shore = draw_shore(axis, chart)
    drawn += draw_contours(axis, chart) if contoured else []
    for each in drawn if shore is not None else ():
        each.set_clip_path(shore)
    _decorate(axis, chart)
    label = layer.title[0].lower() + layer.title[1:]
    colours = _colour_bar(figure, drawn[0], label, layer.extend)
    if layer.downward and colours.orientation == "vertical":
        colours.ax.invert_yaxis()
    return figures.png(figure)


def crossings_plate(chart: Chart) -> bytes:
    """The crossings of survey lines, coloured by their difference, over the lines, as PNG; crosses
    where one of the two soundings is left out."""
    from matplotlib.colors import ListedColormap

    figure, axis = _page(chart, LOWER)
    axis.plot(*chart.track.T, ".", color="#9aa7b2", markersize=1.2, markeredgewidth=0)
    crossings = chart.crossings
    kept = ~crossings.left_out
    xy, amount = crossings.xy[kept], np.abs(crossings.difference[kept])
    order = np.argsort(amount, kind="stable")  # the largest on top
    high = float(np.quantile(amount, 0.98)) if kept.any() else 1.0
    axis.plot(*crossings.xy[~kept].T, "x", color=FALSE_COLOUR, markersize=5, zorder=2.9)
    drawn = axis.scatter(
        *xy[order].T, s=26, c=amount[order], cmap=ListedColormap(mixed(UNCERTAINTY)), vmin=0.0,
        vmax=max(high, 1e-3), edgecolors=INK, linewidths=0.4, zorder=3,
    )  # fmt: skip
    draw_shore(axis, chart)
    _decorate(axis, chart)
    _colour_bar(figure, drawn, "difference at the crossing (m)", extend="max")
    _label_lines(figure, axis, chart)
    return figures.png(figure)


def lines_plate(chart: Chart, out: np.ndarray) -> bytes:
    """The survey lines with their names, and the soundings that screening left out, at ``out``
    [N, 2], as PNG."""
    figure, axis = _page(chart, LOWER, bar=False)
    for number, (_, places) in enumerate(chart.lines or [("", chart.track)]):
        axis.plot(*places.T, ".", color=f"C{number % 10}", markersize=1.8, markeredgewidth=0)
    size = float(np.clip(4 * np.sqrt(300 / max(1, len(out))), 2.0, 4))  # points
    axis.plot(
        *out.T, "x", color=FALSE_COLOUR, markersize=size, markeredgewidth=0.2 * size, zorder=2.5
    )
    draw_shore(axis, chart)
    _decorate(axis, chart)
    _label_lines(figure, axis, chart)
    return figures.png(figure)


def _page(chart: Chart, part: float = 1.0, bar: bool = True) -> tuple[Any, Any]:
    """A figure that fits the page and ``part`` of its height, with room for a colour bar if there
    is one, and its axis."""
    width, height = chart.grid.borders.size
    wide = width > BELOW * height
    beside, above = (0.5, 1.3) if wide and bar else (1.2, 0.6) if bar else (0.5, 0.6)
    above += 0.0 if chart.place is None else 0.35  # the north arrow
    inches = (figures.WIDTH - beside) * height / width + above
    figure = figures.blank_figure((figures.WIDTH, float(np.clip(inches, 2.0, HEIGHT * part))))
    axis = figure.subplots()
    axis.set_aspect("equal")
    axis.tick_params(labelsize=SMALL)
    return figure, axis


def draw_contours(axis: Any, chart: Chart) -> list[Any]:
    """Draw the contours with their depths, dashed over cells that are ``uncertain``; returns the
    lines.

    Depths are upright: along a contour a 6 might be read as a 9. They are placed on whole contours,
    as solid and dashed parts would each have labels of their own; of two of one depth that are
    close, or of any two that would overlap, one is kept, and none that the map's edge would cut.
    """
    from scipy.ndimage import binary_dilation

    doubtful, borders = uncertain(chart), chart.grid.borders

    def draw(cells: np.ndarray, **style: Any) -> list[Any]:
        depth = np.ma.masked_invalid(np.where(cells, chart.depth, np.nan))
        levels = [at for at in contour_levels(chart) if depth.min() < at < depth.max()]
        if not levels:
            return []
        return [axis.contour(chart.grid.x, chart.grid.y, depth, levels, colors=INK, **style)]

    lines = draw(~doubtful, linewidths=0.5, linestyles="solid")
    # The dashed ones reach the next certain cell, where the others begin.
    lines += draw(binary_dilation(doubtful), linewidths=0.5, linestyles="dashed")
    near, crowded, edge = (share * float(borders.size.max()) for share in (APART, CROWDED, EDGE))
    kept: list[Any] = []
    for whole in draw(np.isfinite(chart.depth), linewidths=0.0):
        for label in axis.clabel(whole, fontsize=SMALL, fmt="%g", inline=False):
            place = np.array(label.get_position())
            close = any(
                np.hypot(*(place - other.get_position()))
                < (near if other.get_text() == label.get_text() else crowded)
                for other in kept
            )
            if close or not borders.contains(place[None], slack=-edge)[0]:
                label.remove()
            else:
                label.set(rotation=0, path_effects=_halo())
                kept.append(label)
    return lines


def _label_lines(figure: Any, axis: Any, chart: Chart) -> None:
    """Write the names of the survey lines beside them, where there is room; long lines first."""
    figure.draw_without_rendering()  # the layout fixes the size of the axis
    figure.set_layout_engine("none")
    xmin, ymin, xmax, ymax = axis.bbox.extents
    taken: list[Any] = []
    for name, places in sorted(chart.lines, key=lambda line: -len(line[1])):
        shown = name if len(name) <= LETTERS else f"{name[:LETTERS]}\u2026"
        for share in ALONG:
            text = axis.text(
                *places[int(share * (len(places) - 1))], figures.plain(shown), fontsize=SMALL,
                ha="center", va="center", color=INK, path_effects=_halo(), zorder=4,
            )  # fmt: skip
            box = text.get_window_extent()
            inside = xmin < box.x0 and ymin < box.y0 and box.x1 < xmax and box.y1 < ymax
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()


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


def draw_shore(axis: Any, chart: Chart) -> Any:
    """Draw the outline, and return it as a patch; without one draw the border between cells with
    and without a value, and return None."""
    mapped = np.isfinite(chart.depth)
    if chart.outline:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        closed = [Path(np.concatenate((ring, ring[:1])), closed=True) for ring in chart.outline]
        patch = PathPatch(
            Path.make_compound_path(*closed), fill=False, edgecolor=INK, linewidth=0.9
        )
        return axis.add_patch(patch)
    if not mapped.all():
        figures.outline_cells(axis, chart.grid, mapped)
    return None


def _decorate(axis: Any, chart: Chart) -> None:
    """Draw a scale bar; north arrow and graticule too if the map has a georeference."""
    from matplotlib.font_manager import FontProperties
    from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

    xmin, xmax, ymin, ymax = chart.grid.borders.bounds
    axis.set_xlim(xmin, xmax)
    axis.set_ylim(ymin, ymax)
    wanted = 0.3 * (xmax - xmin)
    power = 10.0 ** np.floor(np.log10(wanted))
    length = float(power * max(k for k in (1, 2, 5) if k * power <= wanted))
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


def _graticule(axis: Any, chart: Chart) -> None:
    """Draw meridians and parallels, labelled at the left and lower edge; without pyproj label
    metres."""
    assert chart.place is not None
    xmin, xmax, ymin, ymax = chart.grid.borders.bounds
    x, y = np.linspace(xmin, xmax, 50), np.linspace(ymin, ymax, 50)
    places = np.stack(np.meshgrid(x, y), axis=-1)
    try:
        longitude, latitude = chart.place.degrees(places.reshape(-1, 2)).T.reshape(2, 50, 50)
    except InputError:
        axis.set_xlabel("east (m)", fontsize=TEXT)
        axis.set_ylabel("north (m)", fontsize=TEXT)
        return
    line = {"colors": INK, "linewidths": 0.3, "linestyles": "solid", "alpha": 0.6}
    across = (xmax - xmin) / (ymax - ymin)  # on a short side labels need more room
    angles, texts = _round_angles(longitude[0], "WE", min(1.0, 2 * across))
    axis.contour(x, y, longitude, angles, **line)
    axis.set_xticks(np.interp(angles, longitude[0], x), texts)
    angles, texts = _round_angles(latitude[:, 0], "SN", min(1.0, 2 / across))
    axis.contour(x, y, latitude, angles, **line)
    axis.set_yticks(np.interp(angles, latitude[:, 0], y), texts, rotation=90, va="center")


def _round_angles(edge: np.ndarray, ends: str, share: float) -> tuple[np.ndarray, list[str]]:
    """Round angles along an edge [N], in degrees, and how they are written: this share of the usual
    number, but at least two, as a single one shows no scale.

    ``ends``: names of the negative and the positive side.
    """
    from mpl_toolkits.axisartist.angle_helper import FormatterDMS, LocatorDMS

    low, high = np.quantile(edge, (CORNER, 1 - CORNER)).tolist()
    for count in range(max(1, round(LINES * share) - 1), 10):
        steps, _, factor = LocatorDMS(count)(low, high)
        steps = steps[(low * factor <= steps) & (steps <= high * factor)]
        if len(steps) > 1:
            break
    angles = steps / factor
    formatted = [FormatterDMS()("bottom", factor, [abs(step)])[0] for step in steps]
    return angles, [
        f"{text}{ends[int(at > 0)]}" for text, at in zip(formatted, angles, strict=True)
    ]
