"""The command `tabane mcp`: a bridge to the hub, or with --standalone a hub of its own.

It runs before any library of the command line is imported. Arguments that it does not understand go to
the command of the same name in :mod:`tabane.cli`, which reports the error.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tabane.build import this_build
from tabane.hub.local.connector import HubUnreachable
from tabane.hub.local.endpoint import Endpoint, absolute, here, home_of
from tabane.hub.local.handshake import Hello, spoken
from tabane.hub.local.stdio import steal

MODES = ("search", "light", "full", "code")

_VALUES = ("mode", "profile", "server", "servers", "config", "home", "url", "websocket")


class BridgeOptions(NamedTuple):
    """Parsed options. ``flags`` are settings for a hub that has to be started."""

    mode: str | None
    profile: str
    servers: str | None
    home: str | None
    url: str | None
    standalone: bool
    flags: tuple[str, ...]
    server: str = ""


def parse_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> BridgeOptions | None:
    """Parse the command's arguments and variables; return None if any of them is not understood."""
    given: dict[str, str] = {}
    standalone = False
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        name = name.removeprefix("--")
        if name == "standalone" and not equals:
            standalone = True
        elif name in _VALUES and (equals or rest):
            given[name] = value if equals else rest.pop(0)
        else:
            return None
    mode = given.get("mode") or environ.get("TABANE_MODE") or None
    if mode not in (None, *MODES):
        return None
    return _request(given, mode, standalone, environ)


def _request(
    given: Mapping[str, str], mode: str | None, standalone: bool, environ: Mapping[str, str]
) -> BridgeOptions:
    paths = {
        name: absolute(given[name], environ) for name in ("home", "config", "servers") if given.get(name)
    }
    servers = paths.get("servers") or environ.get("TABANE_SERVERS")
    return BridgeOptions(
        mode=mode,
        profile=given.get("profile") or environ.get("TABANE_PROFILE") or "",
        server=given.get("server") or environ.get("TABANE_SERVER") or "",
        servers=absolute(servers, environ) if servers else None,
        home=paths.get("home"),
        url=given.get("url") or given.get("websocket") or environ.get("TABANE_URL") or None,
        standalone=standalone,
        flags=tuple(f"--{name}={path}" for name, path in paths.items()),
    )


def run(request: BridgeOptions, environ: Mapping[str, str]) -> int:
    """Serve the client on standard input and output until it ends. Return the exit status."""
    read_fd, write_fd = steal()
    failure: HubUnreachable | None = None
    home = Endpoint(home_of(environ, request.home), environ)
    if request.standalone and not request.url:
        try:
            status = _standalone(read_fd, write_fd, request, environ)
        except HubUnreachable as error:
            failure, status = error, None
        if status is not None:
            return status
    from tabane.hub.bridge.bridge import run_bridge  # a hub in this process needs none of it

    hello = _hello(request, "mcp", "" if request.url else home.home, environ)
    return run_bridge((read_fd, write_fd), hello, home, request.url, request.flags, environ, failure)


def _standalone(
    read_fd: int, write_fd: int, request: BridgeOptions, environ: Mapping[str, str]
) -> int | None:
    gc.disable()  # until the hub is open: a collection would only look at what was imported
    from tabane.errors import TabaneError  # only for a hub in this process; a bridge needs none of it
    from tabane.hub.process.serve import run_standalone

    hello = _hello(request, "stdio", home_of(environ, request.home), environ)
    try:
        return run_standalone(read_fd, write_fd, hello, request.flags)
    except TabaneError as error:
        raise HubUnreachable({"en": error.text("en"), "ja": error.text("ja")}, "failed") from None


def _hello(request: BridgeOptions, role: str, home: str, environ: Mapping[str, str]) -> Hello:
    return Hello(
        version=this_build().name,
        role=role,
        home=home,
        pid=os.getpid(),
        cwd=here(),
        mode=request.mode,
        profile=request.profile,
        server=request.server,
        lang=spoken(environ),
        servers=None if request.url else request.servers,
        code=this_build().code,
    )
