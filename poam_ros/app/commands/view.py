"""`poam view`: show the folder of a run or a mission in a browser, and follow it."""

from __future__ import annotations

import argparse
import hmac
import logging
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, requires_extra
from ...outputs.exports import export_settings
from ...outputs.scene import Scene
from ..command import Parser
from .export import ROWS, add_water_level, given_settings

if TYPE_CHECKING:
    from ...mapping.exclusions import Edits

#: ms between two polls of the scene; changes are sent to the browsers at once.
PERIOD_MS = 250
#: The address that stands for all networks of a machine.
ANY_ADDRESS = "0.0.0.0"
#: Random bytes in the token of a page.
TOKEN_BYTES = 24


def serve(
    scene: Callable[[], Scene], address: str, port: int, edits: Edits | None
) -> tuple[Any, str]:
    """A server of the page, started, and the address of the page. Every browser has a document of
    its own.

    Who asks for ``/`` with the token of the address gets a session, whose signed id is part of the
    page's address. Without one there is no page, and no connection to it: no page of another site
    gets anything, nor one whose name was bound to this machine's address.

    Args:
        scene: returns the present scene; the same object while nothing has changed.
        address: an IPv4 address or a host name.
        port: 0: any free port.
        edits: what the page may change; None: nothing.

    Raises:
        InputError: the page cannot be served there, or bokeh is not installed.
    """
    with requires_extra("poam view", "bokeh", "view"):
        from bokeh.application import Application
        from bokeh.application.handlers.function import FunctionHandler
        from bokeh.server.server import BaseServer
        from bokeh.server.tornado import BokehTornado
        from bokeh.settings import settings
        from bokeh.util.token import generate_secret_key, generate_session_id
    from tornado.httpserver import HTTPServer
    from tornado.ioloop import IOLoop
    from tornado.netutil import bind_sockets
    from tornado.web import RequestHandler

    from ...outputs.page import Page, document

    settings.resources = "server"  # overrides the environment: this server sends the scripts
    # Otherwise they log every connection and every busy loop.
    for name in ("bokeh", "tornado"):
        logging.getLogger(name).setLevel(logging.ERROR)
    secret, token = generate_secret_key().encode(), secrets.token_urlsafe(TOKEN_BYTES)

    class Entry(RequestHandler):
        def get(self) -> None:
            if not hmac.compare_digest(self.get_argument("token", "").encode(), token.encode()):
                self.set_status(403)
                self.finish("expected the address that poam view printed, with its token\n")
                return
            self.set_header("Referrer-Policy", "no-referrer")
            session = generate_session_id(secret, signed=True)
            self.redirect(f"/page?bokeh-session-id={session}")

    def make(bokeh_document: Any) -> None:
        page, first = Page(edits), scene()
        page.show(first)
        document(page, first.title, bokeh_document)
        bokeh_document.add_periodic_callback(lambda: page.show(scene()), PERIOD_MS)

    if ":" in address:
        raise InputError(f"--address: expected an IPv4 address or a host name, got {address}")
    try:
        sockets = bind_sockets(port, address, family=socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"--address, --port: cannot serve at {address}, port {port} "
            f"({error.strerror or error}); expected an address of this machine and a free port"
        ) from None
    application = BokehTornado(
        {"/page": Application(FunctionHandler(make))}, extra_patterns=[(r"/", Entry)],
        # A connection needs the token of its page.
        extra_websocket_origins=["*"], secret_key=secret, sign_sessions=True,
        generate_session_ids=False,
    )  # fmt: skip
    http = HTTPServer(application)
    http.add_sockets(sockets)
    server = BaseServer(IOLoop.current(), application, http)
    server.start()
    host = socket.gethostname() if address == ANY_ADDRESS else address
    return server, f"http://{host}:{server.port}/?token={token}"


_ADDRESS = "Address of the page (default: 127.0.0.1, only this machine)."
_DEPTH = "Show depths below the water level instead of elevations."
_EDIT = "Let the page write edits.csv, to leave out soundings or restore them (poam map runs only)."


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", nargs="?", default=None,
        help="Folder of a run or mission (default: newest in runs/ or missions/).")  # fmt: skip
    add(
        "--port", type=int, default=5006, help="Port of the page (default: 5006; 0: any free port)."
    )
    add("--address", default="127.0.0.1", help=_ADDRESS)
    add_water_level(parser, "as recorded")
    add("--edit", action="store_true", help=_EDIT)
    add("--depth", action=argparse.BooleanOptionalAction, default=False, help=_DEPTH)
    parser.takes(ROWS.values())


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM; returns the exit status.

    Raises:
        InputError: an option or the folder is wrong, or a package is not installed.
    """
    if not 0 <= args.port <= 65535:
        raise InputError(f"--port: expected a number from 0 to 65535, got {args.port}")
    options = {"depth": args.depth, **given_settings(args)}

    from ...mapping.exclusions import Edits
    from ...outputs.scene import FolderView, newest

    run = newest() if args.run is None else args.run
    folder = FolderView(run, export_settings(run, run / "map.html", options))
    edits = Edits(run) if args.edit else None
    server, address = serve(folder.scene, args.address, args.port, edits)
    for number in (signal.SIGINT, signal.SIGTERM):
        server.io_loop.asyncio_loop.add_signal_handler(number, server.io_loop.stop)
    print(f"{run} is at {address} (Ctrl-C ends it)", flush=True)
    if edits is not None:
        print(f"soundings that are left out are written to {edits.path}", flush=True)
    if args.address != "localhost" and not args.address.startswith("127."):
        able = "see it" if edits is None else "see it and edit its soundings"
        print(f"anybody who has this address can {able}; it is not encrypted", flush=True)
    try:
        server.io_loop.start()
    finally:
        server.stop()
    return 0
