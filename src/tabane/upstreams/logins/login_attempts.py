"""Logins that wait for the user: in a browser, or with a code on another device."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from tabane.errors import BadArguments, TabaneError, UpstreamOverloaded, UpstreamUnavailable
from tabane.messages import Lang, Message, say

if TYPE_CHECKING:
    from tabane.upstreams.logins.authorization import AuthorizationRequest
    from tabane.upstreams.logins.callback_page import CallbackPage
    from tabane.upstreams.logins.device_codes import DeviceCode
    from tabane.upstreams.logins.discovery import LoginPlace
    from tabane.upstreams.logins.fetching import LoginHttp
    from tabane.upstreams.logins.kept_login import KeptLogin, KeptTokens
    from tabane.upstreams.logins.redirect_listener import RedirectListener
    from tabane.upstreams.logins.server_login import ServerLogin


LIFE = 600.0
"""Seconds that the user has for a login."""

MOST = 32
"""Logins that wait at the same time."""

Flow = Literal["authorization_code", "device_code"]

_LEAST_LEFT = 120.0
_NETWORK_PATIENCE = 12
"""Polls in a row that may fail before a login with a code is given up."""


@dataclass(eq=False)
class LoginAttempt:
    """One login that waits for the user. ``expires`` is in seconds since 1970.

    ``fresh``: the client was registered for it just now.
    """

    login: ServerLogin
    flow: Flow
    redirect: str
    kept: KeptLogin
    scopes: tuple[str, ...]
    expires: float
    names_itself: bool = False
    fresh: bool = False
    request: AuthorizationRequest | None = field(default=None, repr=False)
    device: DeviceCode | None = field(default=None, repr=False)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: Literal["waiting", "finishing", "done", "failed"] = "waiting"
    reason: Message | None = None
    listener: RedirectListener | None = field(default=None, repr=False)
    waiting: asyncio.Task[None] | None = field(default=None, repr=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def server(self) -> str:
        return self.login.server.name

    @property
    def waits(self) -> bool:
        return self.state in ("waiting", "finishing")

    def describe(self) -> dict[str, Any]:
        """Return what the user needs for it."""
        shown: dict[str, Any] = {
            "id": self.id, "server": self.server, "flow": self.flow, "expires": self.expires,
            "scopes": list(self.scopes), "issuer": self.kept.issuer,
        }  # fmt: skip
        if self.device is not None:
            shown |= self.device.describe()
        elif self.request is not None:
            shown |= {"url": self.request.url, "redirect": self.request.redirect}
        return shown


class LoginAttempts:
    """All logins that wait for the user. ``on_done`` is called with the server's name after each one."""

    def __init__(self, on_done: Callable[[str], None]) -> None:
        self._on_done = on_done
        self._by_server: dict[str, LoginAttempt] = {}

    def of(self, server: str) -> LoginAttempt | None:
        """Return the last login at a server, also if it has ended."""
        return self._by_server.get(server)

    async def start(
        self,
        login: ServerLogin,
        flow: Flow,
        hub_callback: str | None,
        added: tuple[str, ...],
        *,
        restart: bool,
        joins: bool = False,
    ) -> LoginAttempt:
        """Begin a login, and return what the user needs. Unless ``restart``, a login that waits is continued.

        ``hub_callback`` is the URL of the hub to which the browser returns; None for a port of this computer.
        With ``joins``, a login that waits in another way is good enough, if that browser can finish it.
        Raises UpstreamUnavailable, UpstreamOverloaded, and ConfigurationError if that port is taken.
        """
        async with login.beginning:  # who comes meanwhile gets the same one
            before = self._by_server.get(login.server.name)
            if not restart and before is not None and _serves(before, login, added):
                if (before.flow, before.redirect) == (flow, hub_callback or ""):
                    return before
                if joins and _is_finished_by(before, hub_callback):
                    return before
            return await self._start(before, login, flow, hub_callback, added)

    async def _start(
        self,
        before: LoginAttempt | None,
        login: ServerLogin,
        flow: Flow,
        hub_callback: str | None,
        added: tuple[str, ...],
    ) -> LoginAttempt:
        name = login.server.name
        if sum(each.waits for each in self._by_server.values()) >= MOST and not (before and before.waits):
            raise UpstreamOverloaded(
                say("{count} {count:login waits|logins wait} already. Finish one of them first.", count=MOST)
            )
        attempt = await self._begun(login, flow, hub_callback, added)
        if (now := self._by_server.get(name)) is not None and now.waits:
            _end(now, "failed", say("it was begun again"))
        self._by_server[name] = attempt
        attempt.waiting = asyncio.get_running_loop().create_task(self._wait(attempt))
        return attempt

    async def _begun(
        self, login: ServerLogin, flow: Flow, hub_callback: str | None, added: tuple[str, ...]
    ) -> LoginAttempt:
        from tabane.upstreams.logins.discovery import discover
        from tabane.upstreams.logins.fetching import LoginRequestFailed
        from tabane.upstreams.logins.token_requests import TokensRefused, failure_text

        try:
            async with login.http() as http:
                place = await discover(login.server, http, login.challenge)
                if flow == "device_code":
                    return await self._with_code(login, http, place, added)
                return await self._with_browser(login, http, place, hub_callback, added)
        except (LoginRequestFailed, TokensRefused) as failed:
            raise failure_text(login.server.name, failed.why) from None

    async def _with_browser(
        self, login: ServerLogin, http: LoginHttp, place: LoginPlace, hub: str | None, added: tuple[str, ...]
    ) -> LoginAttempt:
        from tabane.upstreams.logins.authorization import authorization_request
        from tabane.upstreams.logins.clients import client_at
        from tabane.upstreams.logins.redirect_listener import RedirectListener
        from tabane.upstreams.logins.token_requests import resource_fields

        server, options = place.server, login.options
        if not server.authorization_endpoint:
            raise _cannot(login, say("{issuer} has no login in a browser", issuer=server.issuer))
        if "S256" not in server.challenge_methods:
            raise _cannot(login, say(
                "{issuer} does not protect the login against interception (PKCE with S256)",
                issuer=server.issuer))  # fmt: skip
        kept = login.kept()
        known = kept.client if kept and kept.issuer == server.issuer else None
        listener = None
        if hub is None:
            port = options.redirect_port or _port_of(known.redirect if known else "")
            listener = await RedirectListener.open(
                port, lambda query, lang: self.returned(query, lang), required=bool(options.redirect_port)
            )
        try:
            redirect = hub or (listener.url if listener else "")
            scopes = login.scopes_at(place, added)
            grants = ("authorization_code", "refresh_token")
            client = await client_at(server, options, known, http, redirect, grants, scopes)
            begun = login.new_login(place, client)
            request = authorization_request(server, client.id, redirect, scopes, resource_fields(begun))
        except TabaneError as error:
            if listener is not None:
                listener.close()
            raise _cannot(login, error.message) from None
        except BaseException:
            if listener is not None:
                listener.close()
            raise
        await self._keep_client(login, begun)
        return LoginAttempt(
            login, "authorization_code", hub or "", begun, scopes, time.time() + LIFE,
            names_itself=server.names_itself, fresh=client is not known, request=request, listener=listener,
        )  # fmt: skip

    async def _with_code(
        self, login: ServerLogin, http: LoginHttp, place: LoginPlace, added: tuple[str, ...]
    ) -> LoginAttempt:
        from tabane.upstreams.logins.clients import DEVICE_GRANT, client_at
        from tabane.upstreams.logins.device_codes import device_code

        server, options = place.server, login.options
        if not server.device_endpoint:
            raise _cannot(login, say("{issuer} offers no login with a code (RFC 8628)", issuer=server.issuer))
        kept = login.kept()
        known = kept.client if kept and kept.issuer == server.issuer else None
        scopes = login.scopes_at(place, added)
        grants = (DEVICE_GRANT, "refresh_token")
        try:
            client = await client_at(server, options, known, http, "", grants, scopes)
        except TabaneError as error:
            raise _cannot(login, error.message) from None
        begun = login.new_login(place, client)
        await self._keep_client(login, begun)
        code = await device_code(http, begun, options, server.device_endpoint, scopes)
        expires = time.time() + min(code.life, LIFE * 3)
        fresh = client is not known
        return LoginAttempt(login, "device_code", "", begun, scopes, expires, fresh=fresh, device=code)

    async def _keep_client(self, login: ServerLogin, begun: KeptLogin) -> None:
        """Keep a registration at once, so that a login that is given up does not cost another one."""
        if begun.client is not None and begun.client.registered and login.tokens() is None:
            await login.keep(begun)

    # -- while it waits --------------------------------------------------------------------------

    async def _wait(self, attempt: LoginAttempt) -> None:
        """Poll for a code until the login has ended; one in a browser only expires."""
        from tabane.upstreams.logins.fetching import LoginRequestFailed
        from tabane.upstreams.logins.token_requests import TokensRefused

        try:
            if attempt.device is not None:
                await self._poll(attempt, attempt.device)
            else:
                await asyncio.sleep(max(0.0, attempt.expires - time.time()))
        except (TokensRefused, LoginRequestFailed) as failed:
            _end(attempt, "failed", failed.why)
        except TabaneError as error:
            _end(attempt, "failed", error.message)
        if attempt.state == "waiting":
            if not attempt.fresh and attempt.kept.client is not None and attempt.kept.client.registered:
                # The authorization server may have forgotten the client, and shown that in the browser only.
                await attempt.login.forget_client()
            _end(attempt, "failed", say("nobody finished it in time"))

    async def _poll(self, attempt: LoginAttempt, code: DeviceCode) -> None:
        from tabane.upstreams.logins.fetching import LoginRequestFailed
        from tabane.upstreams.logins.oauth_messages import device_form
        from tabane.upstreams.logins.token_requests import TokensRefused, resource_fields

        pause, failures = code.interval, 0
        while attempt.state == "waiting" and time.time() < attempt.expires:
            await asyncio.sleep(pause)
            try:
                await self._finish(attempt, device_form(code.code, resource_fields(attempt.kept)))
                return
            except LoginRequestFailed:
                failures += 1
                if failures >= _NETWORK_PATIENCE:
                    raise
            except TokensRefused as refused:
                if refused.code == "slow_down":
                    pause += 5
                elif refused.code == "access_denied":
                    raise TokensRefused(
                        refused.code, say("the request was declined in the browser")
                    ) from None
                elif refused.code != "authorization_pending":
                    raise

    async def returned(self, query: str, lang: Lang) -> CallbackPage:
        """Finish the login to which a browser returned, and return the page for it."""
        from tabane.upstreams.logins.callback_page import done_page, failed_page, unknown_page

        try:
            attempt = await self.finish(None, query)
        except BadArguments:
            return unknown_page(lang)
        except TabaneError as error:
            return failed_page(error.message, lang)
        return done_page(attempt.server, lang)

    async def finish(self, id: str | None, url: str) -> LoginAttempt:
        """Finish a login with the URL, or its query, to which the browser returned.

        Raises BadArguments if no login waits for that, and UpstreamUnavailable if the login failed. Each URL
        is used once.
        """
        from tabane.upstreams.logins.authorization import LoginRefused, code_of, parameters_of
        from tabane.upstreams.logins.fetching import LoginRequestFailed
        from tabane.upstreams.logins.oauth_messages import code_form
        from tabane.upstreams.logins.token_requests import TokensRefused, failure_text, resource_fields

        parameters = parameters_of(url)
        attempt = self._waiting_for(parameters["state"], id)
        attempt.state = "finishing"
        assert attempt.request is not None
        try:
            code = code_of(parameters, attempt.kept.issuer, names_itself=attempt.names_itself)
            request, fields = attempt.request, resource_fields(attempt.kept)
            await self._finish(attempt, code_form(code, request.redirect, request.verifier, fields))
        except (LoginRefused, TokensRefused, LoginRequestFailed) as failed:
            if isinstance(failed, TokensRefused) and failed.is_about_client:
                await attempt.login.forget_client()
            _end(attempt, "failed", failed.why)
            raise failure_text(attempt.server, failed.why) from None
        except TabaneError as error:
            _end(attempt, "failed", error.message)
            raise
        except BaseException:
            _end(attempt, "failed", say("it was interrupted"))
            raise
        return attempt

    def _waiting_for(self, state: str, id: str | None) -> LoginAttempt:
        for attempt in self._by_server.values():
            request = attempt.request
            if (
                request is not None
                and attempt.state == "waiting"
                and secrets.compare_digest(request.state.encode(), state.encode())
                and id in (None, attempt.id)
            ):
                return attempt
        raise BadArguments(
            say(
                "No login waits for this URL: it was used already, has expired, or belongs to another login."
            ),
            "redirected_url",
        )

    async def _finish(self, attempt: LoginAttempt, form: str) -> None:
        """Get tokens and keep them. Raises TokensRefused and LoginRequestFailed."""
        from tabane.upstreams.logins.token_requests import request_tokens

        login = attempt.login
        async with login.http() as http:
            tokens = await request_tokens(http, attempt.kept, login.options, form, attempt.scopes)
        await self._keep(attempt, tokens)
        _end(attempt, "done", None)
        self._on_done(attempt.server)

    async def _keep(self, attempt: LoginAttempt, tokens: KeptTokens) -> None:
        await attempt.login.keep(replace(attempt.kept, tokens=tokens))
        if attempt.login.tokens() is None:
            raise UpstreamUnavailable(
                say("The definition of {server!n} changed during the login. Log in again.",
                    server=attempt.server)
            )  # fmt: skip
        attempt.login.signed_in()

    def drop(self, server: str, why: Message) -> None:
        """Give up the login at a server that waits, if there is one."""
        attempt = self._by_server.pop(server, None)
        if attempt is not None and attempt.waits:
            _end(attempt, "failed", why)

    def close(self) -> None:
        """Give up every login that waits."""
        for name in list(self._by_server):
            self.drop(name, say("the hub ended"))


def _end(attempt: LoginAttempt, state: Literal["done", "failed"], reason: Message | None) -> None:
    if not attempt.waits:
        return
    attempt.state, attempt.reason = state, reason
    attempt.ended.set()
    if attempt.listener is not None:
        attempt.listener.close()
    if attempt.waiting is not None and attempt.waiting is not asyncio.current_task():
        attempt.waiting.cancel()


def _serves(before: LoginAttempt, login: ServerLogin, added: tuple[str, ...]) -> bool:
    """Return whether a login that waits gets what is wanted, and has time left."""
    return (
        before.state == "waiting"
        and before.login is login
        and set(added) | set(login.wanted) <= set(before.scopes)
        and before.expires - time.time() > _LEAST_LEFT
    )


def _is_finished_by(before: LoginAttempt, hub_callback: str | None) -> bool:
    """Return whether a browser can finish a login: one of this computer can return to any address."""
    return hub_callback is None or before.flow == "device_code" or bool(before.redirect)


def _port_of(redirect: str) -> int:
    from urllib.parse import urlsplit

    parts = urlsplit(redirect)
    return (parts.port or 0) if parts.hostname == "localhost" else 0


def _cannot(login: ServerLogin, why: Message) -> UpstreamUnavailable:
    return UpstreamUnavailable(
        say("The login at {server!n} cannot begin: {why}.", server=login.server.name, why=why)
    )
