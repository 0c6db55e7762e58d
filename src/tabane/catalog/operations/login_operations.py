"""Operations on logins at servers: begin, finish, show, end."""

from __future__ import annotations

from typing import Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import FinishLogin, GetLogin, LogoutServer, StartLogin
from tabane.errors import BadArguments, UpstreamUnavailable
from tabane.messages import Lang, say
from tabane.operations import Caller
from tabane.servers.oauth_keys import is_scope
from tabane.servers.server import Server
from tabane.upstreams.logins.login_attempts import Flow
from tabane.upstreams.logins.logins import ServerLogins

_FLOWS: dict[str, Flow] = {"browser": "authorization_code", "device": "device_code"}


class LoginOperations:
    """Begins, finishes, shows and ends logins at servers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def start(self, caller: Caller, params: StartLogin) -> dict[str, Any]:
        """Return ``id``, ``expires`` and ``url``, or ``user_code`` and ``verification_url``.

        A client that acts for itself is logged in at once; then the state is returned, as by :meth:`get`.
        """
        server = self._server(params.server)
        if not all(map(is_scope, params.scopes)):
            raise BadArguments(say("A scope has no spaces, quotes or special characters."), "scopes")
        flow = _FLOWS[params.flow] if params.flow else None
        begun = await self._logins.start(server, flow, params.redirect, params.scopes, restart=params.restart)
        return _rendered(begun, caller.lang)

    async def finish(self, caller: Caller, params: FinishLogin) -> dict[str, Any]:
        """Return the state after the login, as :meth:`get` does."""
        name = await self._logins.finish(params.id, params.redirected_url)
        return self._state(self._server(name), caller.lang)

    async def get(self, caller: Caller, params: GetLogin) -> dict[str, Any]:
        """Return ``state`` (none, needed, waiting, signed_in, failed), ``expires``, ``scopes``, reason."""
        server = self._gateway.server(params.server, caller.access)
        await self._logins.wait(server, params.wait)
        return self._state(server, caller.lang)

    async def logout(self, caller: Caller, params: LogoutServer) -> dict[str, Any]:
        """Return ``was_signed_in``, and whether the authorization server has ``revoked`` the tokens."""
        return await self._logins.logout(self._gateway.server(params.server))

    def _state(self, server: Server, lang: Lang) -> dict[str, Any]:
        return {"server": server.name, **_rendered(self._logins.describe(server), lang)}

    def _server(self, name: str) -> Server:
        server = self._gateway.server(name)
        if server.disabled:
            raise UpstreamUnavailable(server.disabled)
        return server

    @property
    def _logins(self) -> ServerLogins:
        logins = self._gateway.logins
        if logins is None:
            raise UpstreamUnavailable(say("This hub logs in nowhere."))
        return logins


def _rendered(found: dict[str, Any], lang: Lang) -> dict[str, Any]:
    reason = found.get("reason")
    return found | ({"reason": reason.render(lang)} if reason else {})
