"""A page that follows a survey, served over HTTP and a websocket. Bokeh inside functions."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

from ..core.errors import InputError
from ..outputs.exports.needs import needing
from ..outputs.view.scene import Scene

#: ms between two looks at what there is; what is new goes to the browsers at once.
PERIOD_MS = 250
#: The address of all of a machine's networks.
EVERYWHERE = "0.0.0.0"


def serve(look: Callable[[], Scene], what: str, address: str, port: int) -> int:
    """Serve the page until Ctrl-C or SIGTERM; returns the exit status.

    Args:
        look: what there is now; the same object while nothing has changed.
        what: is shown, in words.
        address: where the page is; an IPv4 address, or a host's name.
        port: of the page; 0 is any that is free.

    Raises:
        InputError: nothing can be served there, or there is no bokeh.
    """
    server = make_server(look, address, port)
    loop = server.io_loop.asyncio_loop
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.io_loop.stop)
    server.start()
    print(f"{what} is at {url(address, server.port)} (Ctrl-C ends it)", flush=True)
    if not is_loopback(address):
        print("whoever reaches this port sees it: there is no password", flush=True)
    try:
        server.io_loop.start()
    finally:
        server.stop()
    return 0


def make_server(look: Callable[[], Scene], address: str, port: int) -> Any:
    """A server that is not started yet; every browser has a document of its own.

    Raises:
        InputError: nothing can be served there, or there is no bokeh.
    """
    with needing("poam view", "bokeh", "view"):
        from bokeh.application import Application
        from bokeh.application.handlers.function import FunctionHandler
        from bokeh.server.server import Server
        from bokeh.settings import settings
    settings.resources = "server"  # whatever the environment says: scripts come from here
    # Whoever comes and goes, and how long the loop was busy, is nothing to say.
    for name in ("bokeh", "tornado"):
        logging.getLogger(name).setLevel(logging.ERROR)

    from ..outputs.view.page import Page, document

    def make(found: Any) -> None:
        page, scene = Page(), look()
        page.show(scene)
        document(page, scene.title, found)
        found.add_periodic_callback(lambda: page.show(look()), PERIOD_MS)

    if ":" in address:  # which Bokeh's list of origins cannot hold
        raise InputError(f"--address: expected an IPv4 address or a host's name, got {address}")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            port = probe.getsockname()[1]
        return Server(
            {"/": Application(FunctionHandler(make))}, address=address, port=port,
            allow_websocket_origin=origins(address, port), generate_session_ids=True,
        )  # fmt: skip
    except OSError as error:
        raise InputError(
            f"--address, --port: cannot serve at {address}, port {port} "
            f"({error.strerror or error}); expected an address of this machine and a free port"
        ) from None


def origins(address: str, port: int) -> list[str]:
    """Pages of these hosts may open our websocket: others' in the same browser may not."""
    if address == EVERYWHERE:
        return ["*"]  # by whatever name this machine is reached
    names = {"127.0.0.1", "localhost", address}
    return sorted(f"{name}:{port}" for name in names)


def url(address: str, port: int) -> str:
    """Where a browser finds the page."""
    return f"http://{socket.gethostname() if address == EVERYWHERE else address}:{port}/"


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    return address == "localhost" or address.startswith("127.")
