"""The report: self-contained, escaped, and consistent with the run's folder."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import Browser, found_browser

pytest.importorskip("matplotlib")

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.frontend.refused_pings import NOWHERE, RefusedPing, RefusedPings
from poam_ros.outputs import figures, plates
from poam_ros.outputs import folder as files
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.crossings import COLUMNS as CROSSING_COLUMNS
from poam_ros.outputs.crossings import Bias, CrossingTable, write_lines
from poam_ros.outputs.figures import blank_figure, draw_hypsometry
from poam_ros.outputs.html_report import (
    depth_chart,
    screened_out,
    summary,
    write_report,
)
from poam_ros.outputs.plates import draw_contours, draw_shore
from poam_ros.outputs.run import Run, write_refused
from poam_ros.outputs.volume import WaterBelow, levels_of, measure, write_water

SCORES = {
    "count": 7, "rmse": 0.5, "mae": 0.4, "msll": -1.0, "nlpd": 0.1, "coverage95": 0.95,
    "coverage95_other_survey": 0.97,
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """A wedge under a water level of 1 m, its western quarter blank."""
    folder = tmp_path / "pond & <b>"
    folder.mkdir()
    grid = Grid.cells(Extent(0, 60, 0, 40), 2.0)
    z = np.broadcast_to(grid.x / 10 - 6, grid.shape).copy()
    drawn = ElevationMap(grid, z, np.full(grid.shape, 0.01)).only(
        np.broadcast_to(grid.x > 15, grid.shape)
    )
    files.write_map(folder / "map.npz", drawn)
    files.write_samples(folder / "samples.csv", grid.points[::5], z.ravel()[::5])
    config = {
        "log": "<script>alert(1)</script>.csv", "seed": 3, "water": {"level": 1.0},
        "samples": {"mapped": 120, "false_echoes": 4, "not_a_number": 2},
        "model": {"method": "nngp"},
    }  # fmt: skip
    files.write_config(folder / "config.yaml", config)
    water = measure(drawn, lambda p, n: np.zeros((n, len(p))), levels_of(z, 1.0))
    write_water(folder, water)
    return folder


class Page(HTMLParser):
    """What a browser would fetch or run, and whether tags are closed."""

    def __init__(self):
        super().__init__()
        self.open, self.sources, self.words = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.sources += [value for key, value in attributes if key in ("src", "href")]
        assert tag not in ("script", "link", "iframe", "b")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def configured(run, **more):
    """The settings of a run with more of them."""
    config = files.yaml.safe_load((run / "config.yaml").read_text()) | more
    files.write_config(run / "config.yaml", config)
    return config


def read(path):
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert not page.open
    return page, " ".join(page.words)


def test_a_report_is_complete_in_its_file(run):
    draw_hypsometry(run)
    page, words = read(write_report(Run.open(run)))
    assert len(page.sources) == 3
    for source in page.sources:
        assert b64decode(source.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert "Bathymetry of pond & <b>" in words and "<script>" in words
    assert "1.10 to 5.30 m below a water level of 1 m" in words  # depth of x = 59 and of x = 17
    assert "excluded: not a number" in words and "excluded: false echoes" in words
    assert re.search(r"area\s+1,760 m² ", words)  # 22 of 30 columns
    assert "Errors at held-out soundings" not in words
    assert "include no error of the water level" in words
    configured(run, level_error=0.05)
    words = read(write_report(Run.open(run)))[1]
    assert "draught of 0.05 m (standard deviation)" in words and "include no error" not in words


@pytest.mark.parametrize(
    ("outline", "words"),
    [
        (2000.0, "1,760 m² of 2,000 m² within the outline: near it, the bottom may lie above"),
        (1700.0, "1,760 m² by the map's cells; the outline encloses 1,700 m²"),
    ],
)
def test_the_area_of_the_outline_is_beside_that_of_the_water(run, outline, words):
    configured(run, outline={"file": "shore.geojson", "area": outline})
    found = summary(Run.open(run), depth_chart(Run.open(run)))["area"]
    assert found.startswith(words)
    assert found.endswith("water level" if "near" in words else "1,700 m²")


def test_a_client_reads_dates_and_the_names_of_files_without_folders(run):
    config = configured(
        run, log="/srv/maps/my survey/monday.csv",
        files=[{"file": f"/srv/maps/my survey/{day}.csv"} for day in ("monday", "tuesday")],
        measured=["2025-01-17T16:03:35Z", "2025-01-18T09:00:00Z"],
        outline={"file": "/srv/maps/shore.geojson", "area": 494577.4},
        command="poam map '/srv/maps/my survey/monday.csv' --outline=/srv/maps/shore.geojson",
        odometry_topic="/boat/odom",
    )  # fmt: skip
    _, words = read(write_report(Run.open(run)))
    assert "/srv" not in words and "my survey" not in words
    assert "monday.csv, tuesday.csv" in words and "shore.geojson (494,577 m\u00b2)" in words
    assert "command: poam map monday.csv --outline=shore.geojson" in words
    assert "odometry_topic: /boat/odom" in words
    assert "Measured 2025-01-17 to 2025-01-18. Report of 20" in words
    configured(run, measured=config["measured"][:1] * 2)
    assert "Measured 2025-01-17. Report" in read(write_report(Run.open(run)))[1]
    assert "2025-01-17 16:03:35 to 2025-01-18 09:00:00 UTC" in words
    assert words.index("TVU (total vertical uncertainty)") < words.index("within the TVU")


def test_a_report_has_the_title_the_draught_and_the_corrections_that_were_given(run):
    configured(
        run, title="Lake <One>", draught=0.35, calibration=["latency: +0.65 s"],
        remarks="For <us>", gauge="9 readings in levels.csv", contour_interval=0.75,
    )  # fmt: skip
    path = write_report(Run.open(run))
    _, words = read(path)
    assert "<h1>Lake &lt;One&gt;</h1>" in path.read_text() and "Bathymetry of" not in words
    assert re.search(r"draught\s+0.35 m, added to all depths", words)
    assert re.search(r"corrections\s+latency: \+0.65 s", words)
    assert "<p>For &lt;us&gt;</p>" in path.read_text() and words.count("For <us>") == 2
    assert re.search(r"gauge\s+9 readings in levels.csv; ", words)
    assert "Contours every 0.75 m" in words
    assert "not named: the height that the water level of 1 m counts from" in words


def test_held_out_errors_are_in_the_report(run):
    shown = {**SCORES, "count": 5, "mae": 0.3}
    both = {"all": SCORES, "shown": shown}
    (run / "validation.json").write_text(json.dumps({**SCORES, **both}))
    _, words = read(write_report(Run.open(run)))
    assert "71.4 % of them in cells that the map without them shows: there mean absolute" in words
    assert "Errors at held-out soundings" in words and "0.400 m" in words and "95.0 %" in words
    assert "the screening leaves out" not in words and "took part" not in words
    every = {**SCORES, "count": 9, "mae": 1.7}
    (run / "validation.json").write_text(json.dumps({**SCORES, **both, "all": every}))
    _, words = read(write_report(Run.open(run)))
    assert "0.400 m" in words and "with the 2 that the screening leaves out of the map" in words
    assert "mean absolute error 1.70 m" in words
    configured(run, calibration=["level of Monday: ..."])
    assert "Held-out soundings took part in the calibration" in read(write_report(Run.open(run)))[1]
    (run / "validation.json").write_text("{")
    with pytest.raises(InputError, match=r"validation\.json: expected scores"):
        write_report(Run.open(run))


def test_a_map_without_a_value_has_a_report(run):
    drawn = files.read_map(run / "map.npz")
    files.write_map(run / "map.npz", drawn.only(np.zeros(drawn.grid.shape, dtype=bool)))
    (run / "volume.csv").unlink()
    _, words = read(write_report(Run.open(run)))
    assert "no cell has a value" not in words and "Volume" not in words.split("Method")[0]


def crossings(left_out: bool) -> CrossingTable:
    names = np.array([["L1", "<i>L2"], ["L1", "L3"], ["L4", "L3"]], dtype=object)
    difference = np.array([0.1, 0.9, 5.0])
    depth = np.column_stack((np.full(3, 4.0), 4.0 + difference))
    xy = np.array([[20.0, 10.0], [30.0, 20.0], [40.0, 30.0]])
    last = np.array([False, False, left_out])
    return CrossingTable(names, np.full((3, 2), "", dtype=object), xy, difference, depth, last)


def test_crossings_have_figures_a_map_and_a_table(run):
    before = write_report(Run.open(run)).read_text(encoding="utf-8")
    assert "Crossings" not in before
    crossings(left_out=True).write(run)
    bias = Bias("<i>L2", 1, -0.1, -0.4, 0.2, False)
    write_lines(run, [("<i>L2", "", bias, 0, "agrees"), ("", "2025-01-12", bias, 0, "agrees")])
    text = write_report(Run.open(run)).read_text(encoding="utf-8")
    assert text.count("<img") == before.count("<img") + 1  # lines without names have no figure
    for said in ("<td>0.500 m</td>", "within the limit of Order 1a", "<td>50.0 %</td>",
                 "&lt;i&gt;L2", ">-0.10<small>-0.40 to 0.20</small></td>",
                 "<td>day 2025-01-12</td>"):  # fmt: skip
        assert said in text, said


def drawn_by(monkeypatch, plate, chart, *others):
    """The figure of a plate."""
    with monkeypatch.context() as patched:
        patched.setattr(figures, "png", lambda figure: figure)
        return plate(chart, *others)


def named_lines(run):
    """The run's soundings as two survey lines, one above the other; two more are screened out."""
    grid = files.read_map(run / "map.npz").grid
    at = grid.points[grid.points[:, 0] > 15]
    xy = np.concatenate((at[np.abs(at[:, 1] - 9) < 1], at[np.abs(at[:, 1] - 29) < 1]))
    names = np.where(xy[:, 1] < 20, "L1", "a line of a very long name")
    files.write_samples(run / "samples.csv", xy, xy[:, 0] / 10 - 6, line=names)
    echoes = [RefusedPing("false_echo", n, 0, 30.0 + n, 20.0, -50.0) for n in range(2)]
    write_refused(run, RefusedPings.of([*echoes, RefusedPing("no_fix", 0, 0, 20.0, 20.0, -5.0)]))
    return read_chart(run, ExportSettings(water_level=1.0, depth=True))


def test_crossings_are_drawn_over_the_soundings_by_their_difference(run, monkeypatch):
    crossings(left_out=False).write(run)
    chart = read_chart(run, ExportSettings(water_level=1.0, depth=True))
    axis, bar = drawn_by(monkeypatch, plates.crossings_plate, chart).axes
    (dots,) = [c for c in axis.collections if len(c.get_offsets()) == 3]
    assert np.allclose(dots.get_array(), [0.1, 0.9, 5.0])
    crosses = [line for line in axis.lines if line.get_marker() == "x"]
    assert all(dots.get_zorder() > line.get_zorder() for line in axis.lines)
    assert not sum(len(line.get_xdata()) for line in crosses)
    assert "(m)" in bar.get_xlabel() + bar.get_ylabel()
    crossings(left_out=True).write(run)
    chart = read_chart(run, ExportSettings(water_level=1.0, depth=True))
    axis, _ = drawn_by(monkeypatch, plates.crossings_plate, chart).axes
    (dots,) = [c for c in axis.collections if len(c.get_offsets()) == 2]
    assert np.allclose(dots.get_array(), [0.1, 0.9])
    (cross,) = [line for line in axis.lines if line.get_marker() == "x"]
    assert cross.get_xydata().tolist() == [[40.0, 30.0]]


def test_survey_lines_are_named_and_screened_soundings_marked(run, monkeypatch):
    chart = named_lines(run)
    out = screened_out(chart)
    axis = drawn_by(monkeypatch, plates.lines_plate, chart, out).axes[0]
    labels = {text.get_text(): text.get_position() for text in axis.texts}
    (long,) = [at for name, at in labels.items() if name.endswith("\u2026")]
    assert labels["L1"][1] == 9 and long[1] == 29
    (marks,) = [line for line in axis.lines if line.get_marker() == "x"]
    assert marks.get_xydata().tolist() == [[30, 20], [31, 20]]
    _, words = read(write_report(Run.open(run)))
    assert "a colour for each survey line" in words and "2 soundings left out as false" in words


@pytest.mark.parametrize(("size", "units"), [(1e2, "m\u00b2"), (4e6, "ha"), (3e8, "km\u00b2")])
def test_areas_and_volumes_have_room_for_their_numbers(tmp_path, monkeypatch, size, units):
    level = np.linspace(-30.0, 0.0, 16)
    area, volume = (np.stack([k * np.linspace(0, 1, 16)] * 3) for k in (size, 16 * size))
    write_water(tmp_path, WaterBelow(level, area, volume, volume / 16))
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, *_: kept.append(figure))
    draw_hypsometry(tmp_path)
    kept[0].draw_without_rendering()
    assert kept[0].axes[0].get_xlabel() == f"area ({units})"
    boxes = [
        label.get_window_extent() for axis in kept[0].axes for label in axis.get_xticklabels()
        if label.get_text() and axis.get_xlim()[0] <= label.get_position()[0] <= axis.get_xlim()[1]
    ]  # fmt: skip
    assert len(boxes) >= 4
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(box.x1 <= kept[0].bbox.x1 for box in boxes)


@pytest.mark.parametrize("size", [(60, 40), (200, 30), (30, 200)])
@pytest.mark.parametrize("origin", [None, (47.6, 9.3)])
def test_scale_bar_and_labels_are_inside_the_figure(run, monkeypatch, size, origin):
    grid = Grid.cells(Extent(0, size[0], 0, size[1]), 1.0)
    z = np.broadcast_to(grid.x / 10 - 26, grid.shape).copy()
    files.write_map(run / "map.npz", ElevationMap(grid, z, np.full(grid.shape, 0.01)))
    files.write_samples(run / "samples.csv", grid.points[::5], z.ravel()[::5])
    chart = read_chart(run, ExportSettings(depth=True, origin=origin))
    for key in ("height", "uncertainty"):
        figure = drawn_by(monkeypatch, plates.layer_plate, chart, key)
        figure.draw_without_rendering()
        texts = [text for axis in figure.axes for text in (*axis.texts, axis.xaxis.label)]
        for text in [text for text in texts if text.get_text()]:
            box = text.get_window_extent()
            assert box.y0 >= -0.5 and box.y1 <= figure.bbox.y1 + 0.5, text
            assert box.x0 >= -0.5 and box.x1 <= figure.bbox.x1 + 0.5, text


def test_depths_of_contours_are_upright_apart_and_away_from_the_edge(run, monkeypatch):
    """A 6 on its side might be a 9, and a number that the edge cuts any."""
    for width, height, hollow in (
        (60, 40, lambda x, y: -np.hypot(x - 30, y - 20) / 2),
        (400, 60, lambda x, y: -6 * np.exp(-(((y - 30 - 15 * np.sin(x / 40)) / 14) ** 2)) - 0.2),
    ):
        grid = Grid.cells(Extent(0, width, 0, height), 1.0)
        z = hollow(*grid.points.T).reshape(grid.shape)
        files.write_map(run / "map.npz", ElevationMap(grid, z, np.full(grid.shape, 0.01)))
        chart = read_chart(run, ExportSettings(depth=True))
        figure = drawn_by(monkeypatch, plates.layer_plate, chart, "height")
        figure.draw_without_rendering()
        axis = figure.axes[0]
        labels = [text for text in axis.texts if text.get_transform() == axis.transData]
        assert len(labels) > 5 and {text.get_rotation() for text in labels} == {0}
        places = np.array([text.get_position() for text in labels])
        assert grid.borders.grown(-0.5).contains(places).all()
        boxes = [text.get_window_extent() for text in labels]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_names_of_lines_do_not_overlap(run, monkeypatch):
    chart = named_lines(run)
    crowded = replace(chart, line=np.array([f"line {n // 3}" for n in range(len(chart.track))]))
    figure = drawn_by(monkeypatch, plates.lines_plate, crowded, np.empty((0, 2)))
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if "line" in text.get_text()]
    assert 2 < len(boxes) < len(crowded.lines)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize(("medium", "width"), [("screen", 360), ("print", 672)])
def test_nothing_is_cut_on_a_phone_or_a_page(run, tmp_path, medium, width):
    """672 px of 1/96 inch: the width of A4 between its margins."""
    program = found_browser()
    if program is None:
        pytest.skip("needs a Chromium")
    named_lines(run)
    crossings(left_out=True).write(run)
    long = Bias("20250117160335", 12345, -12.345, -23.456, -1.234, False)
    write_lines(run, [(long.name, "", long, 0, "other false echoes, 2 soundings left out")])
    draw_hypsometry(run)
    report = tmp_path / "report.html"
    text = write_report(Run.open(run)).read_text(encoding="utf-8")
    interval = "<small>112,345,678 to 123,456,789</small>"
    huge = re.sub(r">\d,\d\d\d<", f">112,345,678{interval}<", text)
    assert huge.count(interval) >= 2
    report.write_text(huge)
    with Browser(program, tmp_path / "profile", (width, 800)) as browser:
        browser.tell("Emulation.setEmulatedMedia", media=medium)
        browser.open(report.as_uri())
        browser.until("document.images.length >= 4 && [...document.images].every(i => i.complete)")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        cut = "[...document.querySelectorAll('table,td,th,img')].filter(e => e.scrollWidth > "
        cut += "e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth)"
        assert browser.evaluate(f"{cut}.map(e => e.outerHTML.slice(0, 200))") == []


def test_of_many_lines_the_worst_ten_are_shown(run):
    crossings(left_out=False).write(run)
    biases = [Bias(f"L{i}", 1, 0.01 * i, 0.0, 1.0, False) for i in range(13)]
    write_lines(run, [(bias.name, "", bias, 0, "agrees") for bias in biases])
    page = write_report(Run.open(run)).read_text(encoding="utf-8")
    shown, _, folded = page.partition("<summary>The other 3 lines")
    assert shown.index("<td>L12<") < shown.index("<td>L3<") and "<td>L2<" not in shown
    assert all(f"<td>L{i}<" in folded for i in range(3))


def test_the_outline_is_drawn_as_it_is(run):
    corners = [(16.0, 1.0), (59.0, 1.0), (40.0, 39.0)]
    rows = [(0, 0, *corner) for corner in corners] + [(1, 0, x + 9, y) for x, y in corners]
    files.write_table(run / files.OUTLINE, files.OUTLINE_COLUMNS, rows)
    chart = read_chart(run, ExportSettings())
    assert np.allclose(chart.outline[0], corners) and len(chart.outline) == 2
    axis = blank_figure((4, 4)).subplots()
    patch = draw_shore(axis, chart)
    assert np.allclose(patch.get_path().vertices[:3], corners) and patch in axis.patches
    files.write_config(run / "config.yaml", {"origin": [52.3, 13.0], "heading": 90.0})
    turned = read_chart(run, ExportSettings(origin=(52.3, 13.0), heading=90.0)).outline[0]
    assert np.allclose(np.hypot(*turned.T), np.hypot(*np.array(corners).T))
    assert not np.allclose(turned, corners)


def test_broken_crossings_are_refused(run):
    broken = ["ten" if name == "y" else "1" for name in CROSSING_COLUMNS]
    text = "\n".join(map(",".join, (CROSSING_COLUMNS, broken)))
    (run / "crossings.csv").write_text(text + "\n")
    with pytest.raises(InputError, match=r"crossings\.csv: expected .* in row 2, column 5"):
        write_report(Run.open(run))
    crossings(left_out=False).write(run)
    write_lines(run, [("L1", "", Bias("L1", 1, 0.1, 0.0, 0.2, False), 0, "agrees")])
    text = (run / "lines.csv").read_text().replace("0.100", "much")
    (run / "lines.csv").write_text(text)
    with pytest.raises(InputError, match=r"lines\.csv: expected numbers"):
        write_report(Run.open(run))


def test_a_mission_s_pings_are_counted_and_no_real_one_is_called_simulated(run):
    files.write_config(run / "config.yaml", {"nodes": {"mapper": {"a": 1}, "planner": {"a": 2}}})
    refused = RefusedPings.of([RefusedPing("no_odometry", n, 0, *NOWHERE) for n in (3, 4)])
    write_refused(run, refused)
    _, words = read(write_report(Run.open(run)))
    assert re.search(r"in the map\s+120", words) and re.search(r"refused: no odometry\s+5", words)
    assert "SIMULATED" not in words and "simulated" not in words
    assert "mapper:" in words and "planner:" in words  # they differ


def test_contours_of_uncertain_depths_are_dashed(run):
    drawn = files.read_map(run / "map.npz")
    assert "dashed" not in write_report(Run.open(run)).read_text(encoding="utf-8")
    variance = np.where(drawn.grid.y[:, None] > 20, 4.0, drawn.variance)
    files.write_map(run / "map.npz", replace(drawn, variance=variance))
    assert "dashed where" in write_report(Run.open(run)).read_text(encoding="utf-8")
    axis = blank_figure((4, 4)).subplots()
    draw_contours(axis, read_chart(run, ExportSettings(water_level=1.0)))
    solid, dashed, whole = axis.collections
    assert whole.get_linewidths()[0] == 0  # of the labels
    assert solid.get_linestyles()[0][1] is None and dashed.get_linestyles()[0][1] is not None
    ends = [np.concatenate([p.vertices for p in c.get_paths()])[:, 1] for c in (solid, dashed)]
    assert ends[0].max() < 20.5 and ends[0].min() < 5 and 18 < ends[1].min() <= ends[0].max()


def test_of_labels_of_one_depth_that_are_close_one_is_drawn(run):
    """Contours of 4 m, 10 m long and 5 m apart."""
    drawn = files.read_map(run / "map.npz")
    z = -4 + 1.5 * np.sin(drawn.grid.y[:, None] * np.pi / 5) + 0 * drawn.grid.x
    z[:, (drawn.grid.x < 20) | (drawn.grid.x > 32)] = np.nan
    files.write_map(run / "map.npz", replace(drawn, mean=z))
    axis = blank_figure((4, 4)).subplots()
    draw_contours(axis, read_chart(run, ExportSettings(contour_interval=4.0)))
    places = np.array([text.get_position() for text in axis.texts if text.get_text() == "4"])
    apart = np.hypot(*(places[:, None] - places).T) + 1e9 * np.eye(len(places))
    assert apart.min() >= 0.12 * 60


def test_the_first_printed_page_has_the_chart(run, tmp_path):
    """With every line that a summary may have: none may push the chart to the second page."""
    program = found_browser()
    if program is None:
        pytest.skip("needs a Chromium")
    grid = Grid.cells(Extent(0, 40, 0, 120), 2.0)
    z = np.broadcast_to(grid.x / 10 - 6, grid.shape)
    files.write_map(run / "map.npz", ElevationMap(grid, z, np.full(grid.shape, 0.01)))
    ring = [(0, 0, *corner) for corner in ((1.0, 1.0), (39.0, 1.0), (39.0, 119.0), (1.0, 119.0))]
    files.write_table(run / files.OUTLINE, files.OUTLINE_COLUMNS, ring)
    (run / "validation.json").write_text(json.dumps({**SCORES, "all": SCORES, "shown": SCORES}))
    with Browser(program, tmp_path / "profile", (672, 1000)) as browser:
        browser.tell("Emulation.setEmulatedMedia", media="print")
        browser.open(write_report(Run.open(run)).as_uri())
        browser.until("document.images.length && [...document.images].every(i => i.complete)")
        chart = "document.querySelector('figure').getBoundingClientRect().bottom"
        # 265 mm, the height of A4 between its margins, in 1/96 inch.
        assert browser.evaluate(chart) < 265 / 25.4 * 96
        heads = "[...document.querySelectorAll('table.wide')].every(t => t.tHead)"
        assert browser.evaluate(heads), "a head is printed on each page of its table"
