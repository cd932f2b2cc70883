"""`poam view`: errors, the server over HTTP, and a real browser without other network access."""

import http.client
import os
import re
import socket
import sys
import time
import urllib.request
from dataclasses import replace
from unittest.mock import MagicMock
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest
from browser import CHOOSE, HOVERED, PIXEL, READY, Browser, found_browser, served
from view_folders import GRID, drawn, write_run

from poam_ros.app.cli import main
from poam_ros.core.geometry import Extent, Grid
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.outputs import folder as files
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.run import write_refused

PING = "deep(document, 'table.ping').map(e => e.innerText).join('|')"
RANGE = "Bokeh.documents[0].get_model_by_name('map').x_range"
HEAD = "deep(document, '.head').map(e => e.innerText).join('|')"


@pytest.fixture
def browser(tmp_path):
    program = found_browser()
    if program is None:
        pytest.skip("no Chromium is on the path (POAM_BROWSER names another)")
    with Browser(program, tmp_path / "profile") as started:
        yield started


def ours(address):
    """Whether a request goes to this machine, or nowhere at all."""
    parts = urlsplit(address)
    return parts.scheme in ("data", "blob", "about", "file") or parts.hostname == "127.0.0.1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "RUN: expected the folder of a run or mission, got nowhere"),
        ([".", "--port", "70000"], "--port: expected a number from 0 to 65535"),
        ([".", "--port", "{taken}"], "cannot serve at 127.0.0.1"),
        ([".", "--address", "::1"], "--address: expected an IPv4 address"),
        ([], "RUN: expected the folder of a run or mission; there is none in runs/ or missions/"),
    ],
)
def test_wrong_input_gives_one_line_and_status_2(arguments, words, tmp_path, capsys, monkeypatch):
    pytest.importorskip("bokeh")
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["view", *(text.format(taken=port) for text in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_missing_package_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.application", None)
    assert main(["view", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'poam_ros[view]'" in error


def test_without_a_name_it_is_the_newest_folder(tmp_path, monkeypatch, capsys):
    pytest.importorskip("bokeh")
    monkeypatch.chdir(tmp_path)
    older, newer = write_run(tmp_path / "runs" / "z"), write_run(tmp_path / "runs" / "lake")
    mission = tmp_path / "missions" / "today"
    mission.mkdir(parents=True)
    for folder, when in ((older, 1e9), (newer, 2e9)):
        for path in folder.iterdir():
            os.utime(path, (when, when))
    shown = []

    def serve(scene, *others):
        shown.append(scene().title)
        return MagicMock(), "http://there"

    monkeypatch.setattr("poam_ros.app.commands.view.serve", serve)
    main(["view"])
    (mission / "pings.sqlite").touch()
    os.utime(mission / "pings.sqlite", (3e9, 3e9))
    main(["view"])
    assert shown == ["Bathymetry of lake", "Bathymetry of today"]
    out = capsys.readouterr().out
    assert "runs/lake is at http://there" in out and "missions/today is at" in out
    assert "anybody" not in out
    main(["view", "--address", "0.0.0.0"])
    assert "anybody who has this address can see it" in capsys.readouterr().out


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a served page, with its token."""
    pytest.importorskip("bokeh")
    folder = write_run(tmp_path_factory.mktemp("run") / "lake")
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with served(env, folder, "--port", "0") as address:
        yield address


def test_the_page_is_served_and_refers_to_no_other_host(address):
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address, timeout=300) as answer:
        page = answer.read().decode()
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links and all(link.startswith("/static/") for link in links)
    assert "<title>Bathymetry of lake</title>" in page and "http" not in page
    with urllib.request.urlopen(urljoin(address, links[0]), timeout=300) as answer:
        assert answer.status == 200 and len(answer.read()) > 10_000


def asked(port, path, host, **headers):
    """Status, headers and text of an answer, whatever a browser would have asked."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in {"Host": host, **headers}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        # Of a websocket, the kind of its first frame.
        text = answer.fp.read(1).hex() if answer.status == 101 else answer.read().decode()
        return answer.status, answer.headers, text
    finally:
        connection.close()


def test_nobody_gets_anything_without_the_token(address):
    """Whatever the name: a page of another site may have bound its own to this address."""
    port, token = urlsplit(address).port, urlsplit(address).query
    own = f"127.0.0.1:{port}"
    status, headers, _ = asked(port, f"/?{token}", own)
    assert status == 302 and headers["Referrer-Policy"] == "no-referrer"
    page = headers["Location"]
    other = asked(port, f"/?{token}", own)[1]["Location"]
    assert page.startswith("/page?bokeh-session-id=") and other != page  # a session for each
    status, _, text = asked(port, page, own)
    assert status == 200 and "Bathymetry" in text
    session = re.search(r'"token":"([^"]+)"', text).group(1)
    wrong = ("/", "/?token=", f"/?{token}x", "/page", "/page?bokeh-session-id=x", f"{page}x",
             "/page/autoload.js")  # fmt: skip
    for host in (own, f"evil.example:{port}"):
        for path in wrong:
            status, _, text = asked(port, path, host, Origin=f"http://{host}")
            assert status in (400, 403) and "Bathymetry" not in text, path
        assert "Bathymetry" not in asked(port, "/page/metadata", host)[2]

    def socket_with(session):
        status, _, kind = asked(
            port, "/page/ws", own, Upgrade="websocket", Connection="Upgrade",
            Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==", Sec_WebSocket_Version="13",
            Sec_WebSocket_Protocol=f"bokeh, {session}", Origin="http://evil.example",
        )  # fmt: skip
        return {"81": "messages"}.get(kind, "closed") if status == 101 else status

    assert socket_with(session) == "messages"
    for wrong in (f"{session[:-2]}xx", "x", session[::-1]):
        assert socket_with(wrong) in ("closed", 400, 403)


def hover(browser, row, column):
    """The tooltip of a cell."""
    place = f"{GRID.x[column]:.1f}, {GRID.y[row]:.1f} m"
    pixel = PIXEL.format(x=GRID.x[column], y=GRID.y[row])

    def point():  # again and again: a page that still moves its parts has other pixels
        browser.point(*browser.evaluate(pixel))

    return browser.until(f"{HOVERED}.includes('{place}') && {HOVERED}", f"hover at {place}", point)


@pytest.mark.slow
def test_a_browser_shows_the_cell_under_the_pointer_and_then_a_new_map(browser, tmp_path, ros_env):
    pytest.importorskip("bokeh")
    folder, before = write_run(tmp_path / "lake"), drawn()
    with served(ros_env, folder, "--port", "0") as address:
        browser.open(address)
        browser.until(READY, "the page comes up")
        text = hover(browser, 7, 11)
        assert f"{before.mean[7, 11]:.2f} ± 0.25 m" in text and "lengthscale 3.50 m" in text
        assert "TVU within 1a, 1b" in text and "pings 2" in text
        # The mark would be gone after a reload.
        browser.evaluate("(window.unchanged = true)")
        files.write_samples(folder / "samples.csv", np.ones((70, 2)), np.ones(70))
        files.write_map(folder / "map.npz", drawn(offset=-7.0, samples=70))
        browser.until(f"{HEAD}.includes('map of 70 pings')", "the new map arrives")
        text = hover(browser, 8, 20)
        assert f"{before.mean[8, 20] - 7.0:.2f} ± 0.25 m" in text and "interpolated" in text
        assert browser.evaluate("window.unchanged") is True
    assert len(browser.asked) > 3 and all(map(ours, browser.asked)), browser.asked
    assert not browser.failed


def test_a_cell_of_an_island_has_no_numbers(browser, tmp_path):
    pytest.importorskip("bokeh")
    page, folder = tmp_path / "lake.html", write_run(tmp_path / "lake")
    water = np.ones(GRID.shape, dtype=bool)
    water[5:9, 10:14] = False
    files.write_map(folder / "map.npz", drawn().only(water))
    assert main(["export", str(folder), "--to", str(page)]) == 0
    browser.open(page.as_uri())
    browser.until(READY, "the page comes up")
    text = hover(browser, 7, 11)
    assert "NaN" not in text
    assert "elevation none 95 % none lengthscale none TVU within none pings none" in text
    assert f"{drawn().mean[3, 4]:.2f} ± 0.25 m (1 σ) 95 % ± 0.49 m" in hover(browser, 3, 4)
    assert not browser.failed


@pytest.mark.parametrize("at", [(29, 1), (29, 19), (15, 10), (1, 10)])
def test_on_a_phone_a_tap_tells_of_a_cell_or_a_refused_ping_and_nothing_is_cut(tmp_path, at):
    pytest.importorskip("bokeh")
    if (program := found_browser()) is None:
        pytest.skip("needs a Chromium")
    page, folder = tmp_path / "lake.html", write_run(tmp_path / "lake")
    place = np.array([[*at, -9.125]], dtype=float)
    write_refused(folder, RefusedPings.none().more("false_echo", np.array([5 * 10**9]), place))
    assert main(["export", str(folder), "--to", str(page)]) == 0
    whole = """(boxes => boxes.length > 0 && boxes.every(
        b => b.left >= 0 && b.right <= innerWidth && b.top >= 0 && b.bottom <= innerHeight
    ))(deep(document, '.bk-Tooltip').map(e => e.getBoundingClientRect()))"""
    with Browser(program, tmp_path / "profile", (390, 844)) as browser:
        browser.tell("Emulation.setTouchEmulationEnabled", enabled=True)
        browser.open(page.as_uri())
        browser.until(READY, "the page comes up")

        def tap(x, y, off=0.0):
            x, y = browser.evaluate(PIXEL.format(x=x, y=y))
            point = {"x": x + off, "y": y + off}
            browser.tell("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
            browser.tell("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
            time.sleep(0.5)  # two taps within 0.3 s are another gesture

        x, y = GRID.points[GRID.shape[1] * at[1] + (at[0] + 8) % 30]
        browser.until(f"{HOVERED}.includes('elevation') && {PING} == ''", "", lambda: tap(x, y))
        assert browser.evaluate(whole)
        refused = f"{PING}.includes('false_echo') && {HOVERED} == ''"
        browser.until(refused, "the ping near the finger", lambda: tap(*at, off=-5.0))
        assert browser.evaluate(whole) and not browser.failed
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_place_under_the_pointer_is_told_in_degrees(browser, tmp_path):
    pytest.importorskip("bokeh")
    pytest.importorskip("rasterio")
    settings = ExportSettings(origin=(60.0, 25.0), crs="UTM")
    page, folder = tmp_path / "lake.html", write_run(tmp_path / "lake")
    grid = Grid.cells(Extent(0, 60_000, 0, 40_000), 2000.0)
    files.write_map(folder / "map.npz", replace(drawn(), grid=grid))
    assert main(["export", str(folder), "--to", str(page), "--origin", "60", "25", "--utm"]) == 0
    chart = read_chart(folder, settings)
    browser.open(page.as_uri())
    browser.until(READY, "the page comes up")
    for row, column in ((3, 4), (15, 25)):
        x, y = chart.grid.x[column], chart.grid.y[row]
        pixel = PIXEL.format(x=x, y=y)
        known = f"{HOVERED}.includes('lat, lon') && {HOVERED}"
        text = browser.until(known, "", lambda p=pixel: browser.point(*browser.evaluate(p)))
        told = re.search(r"x, y ([-\d.]+), ([-\d.]+) m lat, lon ([-\d.]+), ([-\d.]+)", text)
        x, y, latitude, longitude = map(float, told.groups())
        expected = chart.place.degrees(np.array([[x, y]]))[0]
        assert (longitude, latitude) == pytest.approx(expected, abs=1e-5)  # 1 m of 60 km
        browser.point(2, 2)
        browser.until(f"{HOVERED} == ''")
    assert not browser.failed


def test_the_exported_page_works_as_a_single_file(browser, tmp_path):
    pytest.importorskip("bokeh")
    page, folder = tmp_path / "lake.html", write_run(tmp_path / "lake")
    # One is far outside of what the page shows at first.
    places = np.array([[12.0, 8.0, -9.125], [9000.0, 9000.0, np.nan]])
    echoes = RefusedPings.none().more("false_echo", np.array([5 * 10**9] * 2), places)
    write_refused(folder, echoes)
    assert main(["export", str(folder), "--to", str(page)]) == 0
    browser.open(page.as_uri())
    browser.until(READY, "the page comes up")
    assert f"{drawn().mean[3, 4]:.2f} ± 0.25 m" in hover(browser, 3, 4)

    def point():
        browser.point(*browser.evaluate(PIXEL.format(x=12.0, y=8.0)))

    refused = f"{PING}.includes('refused: false_echo')"
    browser.until(refused, "the refused ping under the pointer", point)
    text = browser.evaluate(PING)
    assert "elevation -9.12 m" in text and "5.000 s of the run's clock" in text
    assert browser.evaluate(f"{RANGE}.end") < 100, "what is far away does not shrink the map"
    # Another layer, without a server.

    def choose():
        browser.press(*browser.evaluate(CHOOSE.format("TVU")))

    shown = "Bokeh.documents[0].get_model_by_name('map').renderers.filter(r => r.visible"
    tvu = f"{shown} && r.glyph.image?.field == 'tvu').length == 1"
    browser.until(tvu, "the other layer", choose)
    assert {urlsplit(a).scheme for a in browser.asked} <= {"file", "data", "blob"}
    assert not browser.failed
