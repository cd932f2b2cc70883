"""The pictures of docs/view.md, of a run's folder: `make screenshots`. Needs a Chromium."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from browser import CHOOSE, HOVERED, PIXEL, READY, Browser, found_browser, served

#: By the picture's name: the layer, and the cell under the pointer as parts of the map's sides.
SHOTS = {"view.png": ("Elevation", (0.62, 0.4))}
PHONE, PHONE_SIZE = "view-phone.png", (412, 892)
SETTLING_S = 2.0  # until everything is drawn
CORNER = "(d => [d.x[0] + {} * d.width[0], d.y[0] + {} * d.height_m[0]])({}.data)"
CELLS = "Bokeh.documents[0].get_model_by_name('cells')"


def shoot(run: Path, docs: Path, options: list[str]) -> None:
    """Write the pictures of a run into a folder."""
    program = found_browser()
    if program is None:
        sys.exit("no Chromium is on the path (POAM_BROWSER names another)")
    with (
        tempfile.TemporaryDirectory() as folder,
        served(dict(os.environ), run, "--port", "0", *options) as address,
        Browser(program, Path(folder, "wide")) as browser,
        Browser(program, Path(folder, "phone"), PHONE_SIZE) as phone,
    ):
        for each in (browser, phone):
            each.open(address)
            each.until(READY, "the page comes up")
        for name, (layer, part) in SHOTS.items():
            browser.press(*browser.evaluate(CHOOSE.format(layer)))
            x, y = browser.evaluate(CORNER.format(*part, CELLS))
            browser.point(*browser.evaluate(PIXEL.format(x=x, y=y)))
            browser.until(f"{HOVERED} != ''", "the pointer's words")
            _write(docs / name, browser)
        _write(docs / PHONE, phone)


def _write(path: Path, browser: Browser) -> None:
    time.sleep(SETTLING_S)
    path.write_bytes(browser.screenshot())
    print(path)


if __name__ == "__main__":
    shoot(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
