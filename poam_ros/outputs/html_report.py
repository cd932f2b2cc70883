"""report.html: a run for a client, as one HTML file that prints well and fetches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import yaml

from ..core.errors import InputError, quantity
from ..core.geodesy import place_text
from ..frontend.refused_pings import FALSE_ECHO, WITHDRAWN
from ..planning.tvu import ORDERS, order_name
from . import html, plates
from .chart import Chart, ExportSettings, clock_time, read_chart
from .crossings import LINE_COLUMNS, LINES
from .folder import read_records, without_folders
from .held_out import FILE as SCORES
from .held_out import Validation
from .run import Run
from .volume import FILE as VOLUME
from .volume import QUANTITIES, UNITS, beyond, in_words, read_water, rounded

FILE = "report.html"
METHOD = (
    "The map is the predictive mean of a Gaussian process, trained on the soundings after false "
    "echoes were removed. Its uncertainty is 1.96 predictive standard deviations (95 %), including "
    "the noise of a sounding. It is not estimated from repeated soundings. Areas and volumes come "
    "from joint draws of the map, in which errors of neighbouring places are correlated. Blank "
    "cells lie outside the outline or too far from all soundings. Not to be used for navigation."
)
UNCERTAINTY_CAPTION = (
    "Half the width of the interval that holds a depth measured there with 95 % probability. Dots: "
    "soundings in the map."
)
TVU_NOTE = (
    "TVU (total vertical uncertainty): the 95 % uncertainty that the standard IHO S-44 allows a "
    "depth, by orders of survey from Exclusive (the strictest) to 2. An order also has other "
    "requirements."
)
HELD_OUT_NOTE = (
    "To test the map, parts of the soundings were kept out of it (held out) and predicted from the "
    "others."
)
CALIBRATED_NOTE = (
    "Held-out soundings took part in the calibration: what it corrected is also corrected in them."
)
CROSSINGS_CAPTION = (
    "Crossings, coloured by the difference of the two depths; red crosses: one of the two is left "
    "out as a false echo. Grey: soundings in the map, with the names of the survey lines where "
    "there is room."
)
CROSSINGS_NOTE = (
    "Differences of depth where two survey lines cross. The limit is sqrt(2) times the TVU "
    "(above), as both depths may be off. Median of a line (or day): its elevations minus those of "
    "the lines that it crosses."
)
LEVEL_ERROR = (
    "They include an error of the water level or the draught of {:g} m (standard deviation), "
    "shared by all soundings of a day."
)
NO_LEVEL_ERROR = (
    "They include no error of the water level or the draught, which all soundings of a day share."
)
#: A larger share of the area beyond the outermost soundings is reported.
BEYOND = 0.1
#: Approximate number of rows in the volume table.
ROWS = 20
#: Provenance that other parts of the report have, or that explains what exports hold.
SHOWN_ELSEWHERE = (
    "title", "remarks", "settings", "samples", "software", "export_time", "origin", "uncertainty",
    "density",
)  # fmt: skip
#: Lines in the table of crossings that are shown unfolded; columns of a line's median and interval.
WORST, MEDIANS = 10, LINE_COLUMNS[3:6]


def depth_chart(run: Run) -> Chart:
    """The chart of a run's report. Raises as ``read_chart``."""
    return read_chart(run, ExportSettings(**{**run.recorded, "depth": True}))


def write_report(run: Run, chart: Chart | None = None) -> Path:
    """Write report.html from the files in a run's folder alone.

    ``chart``: the run's ``depth_chart``; None: read here.

    Raises:
        InputError: a file of the run is missing or broken.
        ImportError: matplotlib is not installed.
    """
    chart = depth_chart(run) if chart is None else chart
    config, texts, folder = run.shared_once, chart.provenance, run.folder
    days = dict.fromkeys(str(time)[:10] for time in config.get("measured") or ())
    measured = f"Measured {' to '.join(days)}. " if days else ""
    dated = f"{measured}Report of {texts['export_time'][:10]}, made with {texts['software']}."
    settings = yaml.safe_dump(without_folders(config), sort_keys=False, allow_unicode=True)
    parts = [
        f"<h1>{escape(texts['title'])}</h1>",
        f"<p class=note>{escape(dated)}</p>",
        f"<p>{escape(str(config['remarks']))}</p>" if config.get("remarks") else "",
        html.SIMULATED if run.simulated else "",
        # Figures are before tables: rows continue on the next page, a figure does not.
        html.figure(plates.layer_plate(chart, "height"), _chart_caption(chart), large=True),
        *html.section("Summary", html.table(summary(run, chart))),
        *html.section(
            "Uncertainty",
            html.figure(plates.layer_plate(chart, "uncertainty"), UNCERTAINTY_CAPTION),
        ),
        f"<p class=note>{TVU_NOTE}</p>",
        html.table(html.tvu_shares(chart) if np.isfinite(chart.elevation).any() else {}),
        *_held_out(folder, config),
        *_crossings(folder, chart, config),
        *_volumes(folder, chart, config),
        *html.section("Soundings", _lines_figure(chart), html.table(_soundings(chart, config))),
        *html.section("Method", f"<p>{METHOD}</p>", html.table(_made(chart, config))),
        f"<details><summary>All settings</summary><pre>{escape(settings)}</pre></details>",
    ]
    return html.write_page(folder / FILE, texts["title"], parts)


def _chart_caption(chart: Chart) -> str:
    levels = plates.contour_levels(chart)
    contours = f"Contours every {levels[1] - levels[0]:g} m" if len(levels) > 1 else ""
    if contours and plates.uncertain(chart).any():
        contours += ", dashed where the 95 % uncertainty is over half of that"
    where = "Coordinates of the soundings, in m; the direction of north is unknown."
    if chart.place is not None:
        grid = f" Grid of {chart.place.crs}." if chart.place.crs else ""
        where = f"North up, WGS 84.{grid}"
    level = f"{round(chart.settings.water_level, 3):g}"
    return (
        f"Depth below a water level of {level} m. {contours}{'. ' if contours else ''}"
        f"Dots: soundings in the map. {where}"
    )


def summary(run: Run, chart: Chart) -> dict[str, str]:
    """Depths, area, volume, uncertainty and errors of a map, as text by name."""
    words, level = {}, chart.settings.water_level
    mapped = np.isfinite(chart.depth)
    if mapped.any():
        depth, half = chart.depth[mapped], chart.uncertainty[mapped]
        other = chart.uncertainty_other_survey[mapped]
        words["depth"] = (
            f"{max(depth.min(), 0.0):.2f} to {depth.max():.2f} m below a water level of "
            f"{round(level, 3):g} m"
        )

        def spread(values: np.ndarray) -> str:
            high = np.quantile(values, 0.9)
            return f"median {np.median(values):.2f} m; above {high:.2f} m in 10 % of the area"

        words["uncertainty (95 %)"] = spread(half)
        if chart.other_survey is not None:
            words["uncertainty (95 %)"] += ": of the depth on the map's own frame"
            words["as another survey would measure it (95 %)"] = (
                f"{spread(other)}: with errors of position and level as large as this survey's own"
            )
    counted = (run.folder / VOLUME).exists()
    if counted:
        water = read_water(run.folder).at(level)
        for name in QUANTITIES:
            words[name.replace("_", " ")] = in_words(name, water[name].tolist())
        outline = run.settings.get("outline")
        whole = float(outline.get("area") or 0.0) if isinstance(outline, Mapping) else 0.0
        if whole:
            inside = f"{in_words('area', [whole] * 3)} within the outline"
            words["area"] += (
                f" of {inside}: near it, the bottom may lie above the water level"
                if whole > water["area"][0]
                else f" by the map's cells; the outline encloses {in_words('area', [whole] * 3)}"
            )
    if chart.outline and mapped.any():
        share, higher = beyond(chart.elevation, chart.grid, chart.track, level)
        if share > BEYOND:
            smaller = float(higher.sum() * chart.grid.cell_area)
            words["not sounded"] = (
                f"{100 * share:.0f} % of the area lies beyond the outermost soundings, where the "
                "map is extrapolated; the interval of the volume includes a bottom that rises "
                f"evenly to the outline there ({in_words('volume', [smaller] * 3)} less)"
            )
    elif counted and not chart.outline:
        words["not counted"] = "water that was not sounded, as up to the shore; there is no outline"
    if scores := Validation.read(run.folder / SCORES):
        own = scores.accepted or scores.every
        words["held-out soundings"] = (
            f"kept out of a map to test it: mean absolute error {own.mae:.2f} m, {own.covered}"
        )
    words["soundings in the map"] = f"{len(chart.track):,}"
    if chart.place is not None:
        words["place"] = place_text(chart.place.latitude, chart.place.longitude)
    return words


def _held_out(folder: Path, config: Mapping[str, Any]) -> Iterable[str]:
    """The section on held-out soundings, if there are any."""
    if not (validation := Validation.read(folder / SCORES)):
        return ()
    scores = validation.accepted or validation.every
    words = {
        "soundings": f"{scores.count:,}"
        + ("" if validation.accepted else ", none of them in the map"),
        "mean absolute error": f"{scores.mae:.3f} m",
        "root mean square error (RMSE)": f"{scores.rmse:.3f} m",
        "within the 95 % interval": f"{100 * scores.coverage95:.1f} % on the map's own frame, "
        f"{100 * scores.coverage95_other_survey:.1f} % as another survey would measure it",
        "mean standardised log loss (MSLL)": f"{scores.msll:.3f} (below 0: better than the mean of "
        "all soundings as the only prediction)",
    }
    words["in the map's cells"] = validation.where
    if validation.accepted and validation.left_out:
        words["all soundings"] = validation.beside
    caption = (
        "Held-out soundings: predicted against measured values, in red outside the 95 % interval, "
        "and the errors, predicted minus measured, on a map."
    )
    note = HELD_OUT_NOTE + (f" {CALIBRATED_NOTE}" if config.get("calibration") else "")
    return html.section(
        "Errors at held-out soundings", f"<p class=note>{note}</p>",
        *_picture(folder / "validation.png", caption), html.table(words),
    )  # fmt: skip


def _picture(path: Path, caption: str) -> list[str]:
    return [html.figure(path.read_bytes(), caption)] if path.exists() else []


def _crossings(folder: Path, chart: Chart, config: Mapping[str, Any]) -> Iterable[str]:
    """The section on crossings of survey lines, if there are any: the lines that differ most from
    those that they cross, and the others folded away."""
    if not len(chart.crossings.xy):
        return ()
    order = config.get("order")
    order = order if order in ORDERS else "1a"
    statistics = chart.crossings.statistics(order)
    words = {} if statistics is None else {
        "crossings": f"{statistics.crossings:,}",
        "median difference": f"{statistics.median:.3f} m",
        "95 % of the differences": f"up to {statistics.quantile95:.3f} m",
        f"within the limit of {order_name(order)}": f"{100 * statistics.within:.1f} %",
    }  # fmt: skip
    lines = read_records(folder / LINES, LINE_COLUMNS) if (folder / LINES).exists() else []
    rows: list[tuple[html.Cell, ...]] = []
    try:
        for row in sorted(lines, key=lambda row: -abs(float(row["median"] or 0))):
            median, low, high = (f"{float(row[k]):.2f}" if row[k] else "" for k in MEDIANS)
            between = f"{low} to {high}" if low else ""
            name = row["line"] or f"day {row['day']}"
            rows.append((name, row["crossings"], (median, between), row["verdict"]))
    except ValueError as error:
        raise InputError(f"{folder / LINES}: expected numbers ({error})") from None
    heads = ("line", "crossings", ("median (m)", "95 % interval"), "verdict")
    tables = [
        html.wide_table(heads, part, right=(1, 2)) for part in (rows[:WORST], rows[WORST:]) if part
    ]
    if len(tables) > 1:
        tables[0] = f"<p class=note>The {WORST} lines with the largest medians:</p>{tables[0]}"
        folded = f"The other {quantity(len(rows) - WORST, 'line')}"
        tables[1] = f"<details><summary>{folded}</summary>{tables[1]}</details>"
    return html.section(
        "Crossings", f"<p class=note>{CROSSINGS_NOTE}</p>",
        html.figure(plates.crossings_plate(chart), CROSSINGS_CAPTION), html.table(words), *tables,
    )  # fmt: skip


def _volumes(folder: Path, chart: Chart, config: Mapping[str, Any]) -> Iterable[str]:
    """The section on volumes, if they were computed."""
    if not (folder / VOLUME).exists():
        return ()
    water, level = read_water(folder), chart.settings.water_level
    now = int(np.abs(water.level - level).argmin())
    below = np.flatnonzero(water.level <= level)  # above it, the outline is no shore
    below = below if len(below) > 1 else np.arange(len(water.level))
    step = -(-len(below) // ROWS)  # round numbers: multiples of the levels' spacing
    spacing = np.median(np.diff(water.level)) if step > 1 else 1.0
    spaced = np.round(water.level / spacing) % step == 0
    shown = sorted({now, *below[spaced[below]].tolist()}, reverse=True)
    rows: list[list[html.Cell]] = []
    for index in shown:
        rows.append([f"{water.level[index]:.2f}"])
        for name in QUANTITIES:
            mean, low, high = rounded(getattr(water, name)[:, index])
            rows[-1].append((mean, f"{low} to {high}" if low != high else ""))
    heads: list[html.Cell] = ["level (m)"]
    heads += [
        (f"{name.replace('_', ' ')} ({UNITS[name][-1][0]})", "95 % interval") for name in QUANTITIES
    ]
    bold = shown.index(now) if water.level[now] == level else None
    error = config.get("level_error")
    said = LEVEL_ERROR.format(error) if isinstance(error, float) and error else NO_LEVEL_ERROR
    note = f"Water below each level, with 95 % intervals. {said} {VOLUME} lists all levels."
    return html.section(
        "Volume",
        *_picture(folder / "hypsometry.png", "Area and volume of the water below a level."),
        f"<p class=note>{note}</p>",
        html.wide_table(heads, rows, range(len(heads)), bold),
    )


def screened_out(chart: Chart) -> np.ndarray:
    """Places [N, 2] of the soundings that screening left out: all of those of a log, the newest of
    a mission's."""
    refused = chart.unmapped.refused.placed
    return refused.xyz[np.isin(refused.reason, (FALSE_ECHO, WITHDRAWN)), :2]


def _lines_figure(chart: Chart) -> str:
    """The survey lines and what screening left out; empty if neither is known."""
    out = screened_out(chart)
    if not chart.lines and not len(out):
        return ""
    named = ", a colour for each survey line, named where there is room" if chart.lines else ""
    caption = f"Soundings in the map{named}."
    if len(out):
        caption += f" Red crosses: {quantity(len(out), 'sounding')} left out as false echoes."
    return html.figure(plates.lines_plate(chart, out), caption)


def _soundings(chart: Chart, config: Mapping[str, Any]) -> dict[str, str]:
    """The soundings' file, how many are in the map, how many are not, by reason, and their dates;
    those of a mission from its journal."""
    words = {}
    if files := [PurePath(str(each["file"])).name for each in config.get("files") or ()]:
        words["files"] = ", ".join(files)
    elif "log" in config:
        words["file"] = PurePath(str(config["log"])).name
    labels = {"understood": "columns or messages", "written": "layout"}
    words |= {text: str(config[name]) for name, text in labels.items() if config.get(name)}
    if draught := config.get("draught"):
        words["draught"] = f"{draught:g} m, added to all depths"
    if gauge := config.get("gauge"):
        words["gauge"] = f"{gauge}; the report's water level is the median over the soundings"
    if measured := config.get("measured"):
        times = (str(time)[:19].replace("T", " ") for time in measured)
        words["measured"] = f"{' to '.join(times)} UTC"
    for name, count in dict(config.get("samples") or {}).items():
        key = "in the map" if name == "mapped" else f"excluded: {name.replace('_', ' ')}"
        words[key] = f"{count:,}" if isinstance(count, int) else str(count)
    if "samples" in config:
        return words
    others = chart.unmapped
    words["in the map"] = f"{len(chart.track):,}"
    if others.span_ns is not None:
        time = " (simulated time)" if "simulated" in chart.provenance else ""
        words["measured"] = f"{' to '.join(map(clock_time, others.span_ns))}{time}"
    refused = others.refused.counts
    return words | {f"refused: {r.replace('_', ' ')}": f"{refused[r]:,}" for r in sorted(refused)}


def _made(chart: Chart, config: Mapping[str, Any]) -> dict[str, str]:
    texts = {
        key.replace("_", " "): text
        for key, text in chart.provenance.items()
        if key not in SHOWN_ELSEWHERE
    }
    if corrections := config.get("calibration"):
        texts["corrections"] = "; ".join(map(str, corrections))
    if isinstance(model := config.get("model"), Mapping):
        texts["model"] = f"{model.get('method')}, seed {config.get('seed')}"
    if kernel := config.get("kernel"):
        texts["kernel"] = str(kernel)
    if isinstance(outline := config.get("outline"), Mapping):
        name = PurePath(str(outline.get("file"))).name
        texts["outline"] = f"{name} ({outline.get('area'):,.0f} m\u00b2)"
    return texts | {"cells": html.numbers(chart)["cells"]}
