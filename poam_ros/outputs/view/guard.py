"""Who may have the page of a server: by names that it was started for, and with its token."""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from tornado.httputil import HTTPServerRequest
from tornado.routing import AnyMatches, Matcher, Rule, RuleRouter
from tornado.web import Application, RequestHandler

#: An IPv4 address as a host: a name server cannot make it another machine's.
ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
TOKEN = "token"


class Guard(RuleRouter):
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
        cookie = f"poam-{port}"
        named = _Named(names, addresses)
        entry = Application([(r"/", _Entry, {"cookie": cookie, "token": token})])
        refused = Application([(r".*", _Refused)])
        super().__init__(
            [
                Rule(_Not(named), refused),
                Rule(_Asks(token), entry),
                Rule(_Has(cookie, token), application),
                Rule(AnyMatches(), refused),
            ]
        )


class _Named(Matcher):
    def __init__(self, names: Collection[str], addresses: bool) -> None:
        self._names = {name.lower() for name in names}
        self._addresses = addresses

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        hosts = request.headers.get_list("Host")
        origins = request.headers.get_list("Origin")
        origins += request.headers.get_list("Sec-Websocket-Origin")
        if len(hosts) != 1 or any(_host_of(origin) != hosts[0].lower() for origin in origins):
            return None
        name = re.sub(r":\d*$", "", hosts[0].lower())
        known = name in self._names or (self._addresses and ADDRESS.fullmatch(name))
        return {} if known else None


def _host_of(origin: str) -> str:
    """Host and port of an origin; empty if it is not an origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class _Not(Matcher):
    def __init__(self, other: Matcher) -> None:
        self._other = other

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        return {} if self._other.match(request) is None else None


class _Asks(Matcher):
    """For the page, with the right token in the address."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        given = request.query_arguments.get(TOKEN, [b""])[-1]
        return {} if request.path == "/" and hmac.compare_digest(given, self._token) else None


class _Has(Matcher):
    """The right token, in the cookie."""

    def __init__(self, cookie: str, token: str) -> None:
        self._cookie, self._token = cookie, token.encode()

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        given = request.cookies.get(self._cookie)
        right = given is not None and hmac.compare_digest(given.value.encode(), self._token)
        return {} if right else None


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
