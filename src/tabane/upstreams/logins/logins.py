"""All logins at servers: begun, finished, described, ended, and given to the requests that need them.

What one login needs is loaded with the first server that has one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.errors import BadArguments, LoginRequired, UpstreamUnavailable
from tabane.messages import Lang, Message, say
from tabane.upstreams.logins.login_book import Flow, LoginBook, LoginFile, url_hash

if TYPE_CHECKING:
    from tabane.servers.server import Server
    from tabane.upstreams.logins.login_book import LoginNetwork
    from tabane.upstreams.logins.redirect_listener import CallbackPage
    from tabane.upstreams.logins.server_login import LoginAttempt, LoginAttempts, ServerLogin


log = logging.getLogger(__name__)


class ServerLogins:
    """The logins at all servers of a hub.

    ``on_changed`` is called with a server's name and True after a login, False when it ended.
    ``hub_callback`` returns the URL of the hub to which browsers return; None if the hub serves no HTTP.
    """

    def __init__(
        self,
        home: Path,
        servers_file: Path,
        network: LoginNetwork,
        *,
        keyring: bool,
    ) -> None:
        self._file, self.network = str(servers_file), network
        self.book = LoginBook(LoginFile(home, keyring=keyring))
        self._logins: dict[str, ServerLogin] = {}
        self._attempts: LoginAttempts | None = None
        self.on_changed: Callable[[str, bool], None] = lambda name, signed_in: None
        self.hub_callback: Callable[[], str | None] | None = None

    @property
    def attempts(self) -> LoginAttempts:
        """Return the logins that wait for the user. What a login needs is loaded with the first of them."""
        from tabane.upstreams.logins.server_login import LoginAttempts

        if self._attempts is None:
            self._attempts = LoginAttempts(lambda name: self.on_changed(name, True))
        return self._attempts

    def _attempt_at(self, server: str) -> LoginAttempt | None:
        return self._attempts.of(server) if self._attempts is not None else None

    def _drop_attempt(self, server: str, why: Message) -> None:
        if self._attempts is not None:
            self._attempts.drop(server, why)

    # -- for requests ----------------------------------------------------------------------------

    def of(self, server: Server) -> ServerLogin | None:
        """Return the login at a server, None if it is used without one."""
        if not server.may_login:
            return None
        from tabane.upstreams.logins.server_login import ServerLogin

        login = self._logins.get(server.name)
        if login is None:
            login = self._logins[server.name] = ServerLogin(server, self._file, self.book, self.network)
        return login

    def needed(self, name: str) -> LoginRequired | None:
        """Return the error of a server that requires a login now; None if it requires none."""
        login = self._logins.get(name)
        return login.needed if login else None

    async def apply(self, servers: Mapping[str, Server]) -> None:
        """Follow a change of the servers: a login ends with its server, or when the server's URL changes."""
        await self.book.ready()
        for name in {*self._logins, *self.book.names()}:
            server, login = servers.get(name), self._logins.get(name)
            kept = self.book.get(name)
            if login is not None and server is not None:
                if login.server.url != server.url:
                    login.challenge, login.wanted = None, ()
                login.server = server
            if server is None or not server.may_login:
                self._logins.pop(name, None)
                self._drop_attempt(name, say("the server was removed"))
            others = server is None or kept is None or kept.url != url_hash(server.url)
            if kept is not None and kept.file == self._file and others:
                log.info("%s: its login is deleted, since it was made for another server", name)
                await self.book.put(name, None)

    # -- for people ------------------------------------------------------------------------------

    async def start(
        self,
        server: Server,
        flow: Flow | None,
        redirect: str,
        scopes: Iterable[str] = (),
        *,
        restart: bool = False,
        joins: bool = False,
    ) -> dict[str, Any]:
        """Begin a login, and return what the user needs for it. ``redirect`` is ``local`` or ``hub``.

        With ``joins``, one that waits in another way is returned if the user's browser can finish it.
        A client that acts for itself is logged in at once. Raises BadArguments and UpstreamUnavailable.
        """
        login = self._login_at(server)
        if login.acts_for_itself:
            await login.forget_tokens()
            login.signed_in()
            await login.headers()
            self.on_changed(login.server.name, True)
            return {"server": server.name, "flow": "client_credentials", **self.describe(server)}
        await self.book.ready()
        chosen: Flow = flow or (
            "device_code" if login.options.grant == "device_code" else "authorization_code"
        )
        callback = None
        if redirect == "hub" and chosen == "authorization_code":
            callback = self.hub_callback() if self.hub_callback is not None else None
            if callback is None:
                raise BadArguments(
                    say("The hub is not reachable over HTTP, so the browser cannot return to it."), "redirect"
                )
        attempt = await self.attempts.start(
            login, chosen, callback, tuple(scopes), restart=restart, joins=joins
        )
        return attempt.describe()

    async def finish(self, id: str | None, url: str) -> str:
        """Finish a login with the URL to which the browser returned. Return the name of the server.

        Raises BadArguments and UpstreamUnavailable.
        """
        return (await self.attempts.finish(id, url)).server

    async def callback(self, query: str, lang: Lang) -> CallbackPage:
        """Finish the login to which a browser returned, and return the page for it."""
        return await self.attempts.returned(query, lang)

    async def wait(self, server: Server, seconds: float) -> None:
        """Wait until no login at the server waits for the user any more, at most so many seconds."""
        await self.book.ready()
        attempt = self._attempt_at(server.name)
        if attempt is not None and attempt.waits and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await attempt.ended.wait()
            except TimeoutError:
                return

    def describe(self, server: Server) -> dict[str, Any]:
        """Return the state of the login at a server, without secrets. ``reason`` is a Message, or None.

        The state is none, needed, waiting, signed_in or failed.
        """
        login = self.of(server)
        if login is None:
            return {"state": "none", "reason": None}
        tokens, kept, attempt = login.tokens(), login.kept(), self._attempt_at(server.name)
        reason: Message | None = login.needed.message if login.needed else None
        if attempt is not None and attempt.waits:
            state = "waiting"
        elif tokens is not None and login.needed is None:
            state = "signed_in"
        elif attempt is not None and attempt.state == "failed":
            state, reason = "failed", attempt.reason
        elif login.needed is not None or (server.login_options.asked and not login.acts_for_itself):
            state = "needed"
        else:
            state = "none"
        found: dict[str, Any] = {"state": state, "reason": reason}
        if kept is not None and tokens is not None:
            found |= {
                "expires": tokens.expires or None,
                "renewable": bool(tokens.refresh) or login.acts_for_itself,
                "scopes": list(tokens.scopes),
                "issuer": kept.issuer,
            }
        if attempt is not None and attempt.waits:
            found |= {"id": attempt.id, "until": attempt.expires}
        return found

    async def logout(self, server: Server) -> dict[str, Any]:
        """Revoke the tokens where that is offered, and forget them. Return what was done."""
        await self.book.ready()
        login = self.of(server)
        kept = self.book.get(server.name)
        self._drop_attempt(server.name, say("the user logged out"))
        revoked = False
        if login is not None and (own := login.kept()) is not None and own.tokens is not None:
            revoked = await login.revoke(own)
        had = kept is not None and kept.tokens is not None
        if login is not None:
            await login.forget_tokens()
            login.wanted = ()
        elif kept is not None:
            await self.book.put(server.name, None)
        if had:
            self.on_changed(server.name, False)
        return {"server": server.name, "was_signed_in": had, "revoked": revoked}

    def _login_at(self, server: Server) -> ServerLogin:
        login = self.of(server)
        if login is not None and not server.needs_folder:
            return login
        if server.transport == "stdio":
            why = say("it is a program on this computer, which gets credentials as variables")
        elif server.oauth is False:
            why = say('"oauth" is false in its definition')
        elif server.needs_folder:
            why = say("its definition depends on the folder of a client")
        else:
            why = say("its definition has credentials already, in its headers or its URL")
        raise UpstreamUnavailable(
            say("{server!n} is used without a login: {why}.", server=server.name, why=why)
        )

    async def close(self) -> None:
        """Give up logins that wait, and let renewals end."""
        if self._attempts is not None:
            self._attempts.close()
        await asyncio.gather(*(login.close() for login in self._logins.values()))
