"""A headless Chromium that is told what to do over a pipe; it reaches nothing but this machine."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 300.0  # s
#: Every name but these resolves to nothing; an address that is none of ours has no way out.
BLOCKED = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-default-apps",
)  # fmt: skip
#: All elements of the page with a selector, those in shadow trees too.
DEEP = """
const deep = (root, css) => [...root.querySelectorAll(css),
    ...[...root.querySelectorAll('*')].filter(e => e.shadowRoot)
        .flatMap(e => deep(e.shadowRoot, css))];
"""
#: Of the page of `poam view`, as expressions: whether it is there, pixels of a place in m, what is
#: shown beside the pointer, and pixels of a button whose text begins so.
READY = "window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle"
PIXEL = """(() => {{
    const view = Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name('map'))
    const box = view.el.getBoundingClientRect()
    return [box.left + view.frame.x_scale.compute({x}), box.top + view.frame.y_scale.compute({y})]
}})()"""
HOVERED = "deep(document, 'table.cell').map(e => e.innerText).join('|').replace(/\\s+/g, ' ')"
CHOOSE = """(box => [box.left + box.width / 2, box.top + box.height / 2])(deep(document, '.bk-btn')
    .find(e => e.innerText.startsWith('{}')).getBoundingClientRect())"""
#: A Chromium hears its descriptor 3 and speaks on 4; either may be in the other's way at first.
_MOVED = """
import os, sys
ends = [os.dup(os.dup(os.dup(end))) for end in ({}, {})]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def found_browser() -> str | None:
    """Where a Chromium is: POAM_BROWSER, or on the path."""
    named = os.environ.get("POAM_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def served(env: dict[str, str], *arguments: object) -> Iterator[str]:
    """`poam view` in a process of its own; gives the page's address."""
    command = [sys.executable, "-m", "poam_ros.app.cli", "view", *map(str, arguments)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+", line).group()
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0, "Ctrl-C is how it ends"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Browser:
    """One page in a browser of its own.

    Args:
        program: a Chromium.
        folder: for its profile.
        size: of the page, in pixels.

    Attributes:
        asked: the address of everything that the page asked the network for.
        failed: what was thrown or complained of in its console.
    """

    def __init__(self, program: str, folder: Path, size: tuple[int, int] = (1360, 860)) -> None:
        self.asked: list[str] = []
        self.failed: list[str] = []
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        options = (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--remote-debugging-pipe", f"--user-data-dir={folder}", "--hide-scrollbars",
            f"--window-size={size[0]},{size[1]}", *BLOCKED, "about:blank",
        )  # fmt: skip
        moved = _MOVED.format(theirs_in, theirs_out)
        self._process = subprocess.Popen(
            [sys.executable, "-SEc", moved, program, *options],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "LANG": "C"},
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._waiting, self._number, self._session = b"", 0, ""
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        attached = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.tell(f"{domain}.enable")
        width, height = size
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False)  # fmt: skip

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def tell(self, method: str, **given: Any) -> dict[str, Any]:
        """Ask for something of the DevTools protocol, and wait for the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def open(self, address: str) -> None:
        self.tell("Page.navigate", url=address)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; ``deep(root, css)`` looks into shadow trees."""
        answer = self.tell(
            "Runtime.evaluate", expression=f"(() => {{{DEEP} return {script} }})()",
            returnByValue=True,
        )  # fmt: skip
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, what: str = "", before: Callable[[], Any] = int) -> Any:
        """The first true value of an expression; ``before`` is called before each look."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            before()
            if value := self.evaluate(script):
                return value
            time.sleep(0.1)
        raise AssertionError(f"{what or script}: not so within {PATIENCE} s; {self.failed}")

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a pixel, as a hand does: with a step before."""
        for way in (-3.0, 0.0):
            self.tell("Input.dispatchMouseEvent", type="mouseMoved", x=x + way, y=y)

    def press(self, x: float, y: float) -> None:
        self.point(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self) -> bytes:
        """A PNG of the page."""
        return base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"])

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has gone"
            self._waiting += part
        line, _, self._waiting = self._waiting.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.asked.append(given["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.asked.append(given["url"])
        elif method == "Runtime.exceptionThrown":
            self.failed.append(str(given["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "assert"):
            self.failed.append(str([part.get("value") for part in given["args"]]))
