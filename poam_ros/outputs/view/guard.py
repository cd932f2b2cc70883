"""Who may have the page of a server: by names that it was started for, and with its token."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlsplit

from tornado.httputil import HTTPServerRequest
from tornado.routing import Router
from tornado.web import Application, RequestHandler

#: An IPv4 address as a host: a name server cannot make it another machine's.
ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
TOKEN = "token"


class Guard(Router):
    """Lets a request through to an application, or refuses it with status 403.

    ``Host`` must be one of the names, and ``Origin``, where a browser sends it, the same host and
    port: so no page of another site, nor one whose name was bound to this machine's address, gets
    anything. The printed address holds the token; it becomes a cookie at once.

    Args:
        application: of tornado, that is guarded.
        names: hosts that the page was started for.
        addresses: whether every IPv4 address is one of them: of a server on all networks.
        token: text that nobody can guess.
        port: of the server: cookies are those of a host, whatever the port.
    """

    def __init__(
        self, application: Any, names: Collection[str], addresses: bool, token: str, port: int
    ) -> None:
        self._application, self._addresses = application, addresses
        self._names = {name.lower() for name in names}
        self._token, self._cookie = token.encode(), f"poam-{port}"
        self._entry = Application([(r"/", _Entry, {"cookie": self._cookie, "token": token})])
        self._refused = Application([(r".*", _Refused)])

    def find_handler(self, request: HTTPServerRequest, **options: Any) -> Any:
        """The delegate of the application that answers a request."""
        answering = self._refused
        if self._is_named(request):
            if request.path == "/" and self._is_token(request.query_arguments.get(TOKEN, [])):
                answering = self._entry
            elif (cookie := request.cookies.get(self._cookie)) is not None:
                has_token = self._is_token([cookie.value.encode()])
                answering = self._application if has_token else self._refused
        return answering.find_handler(request, **options)

    def _is_token(self, tokens: Sequence[bytes]) -> bool:
        return len(tokens) > 0 and hmac.compare_digest(tokens[-1], self._token)

    def _is_named(self, request: HTTPServerRequest) -> bool:
        """Whether a request is for one of our hosts, and from no page of another one."""
        hosts = request.headers.get_list("Host")
        origins = request.headers.get_list("Origin")
        origins += request.headers.get_list("Sec-Websocket-Origin")
        if len(hosts) != 1 or any(_host_of(origin) != hosts[0].lower() for origin in origins):
            return False
        name = re.sub(r":\d*$", "", hosts[0].lower())
        return name in self._names or bool(self._addresses and ADDRESS.fullmatch(name))


def _host_of(origin: str) -> str:
    """Host and port of an origin; empty if it is not an origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class _Entry(RequestHandler):
    """Makes a cookie of the token, and goes on to the page, whose address has none."""

    def initialize(self, cookie: str, token: str) -> None:
        self._given = cookie, token

    def get(self) -> None:
        self.set_cookie(*self._given, httponly=True, samesite="Lax")
        self.set_header("Referrer-Policy", "no-referrer")
        self.redirect("/")


class _Refused(RequestHandler):
    def prepare(self) -> None:
        self.set_status(403)
        self.finish("expected the address that poam view printed, with its token\n")
