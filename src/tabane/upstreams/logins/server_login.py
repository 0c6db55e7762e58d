"""The login at one server: the token for its requests, renewed once for all who wait, and what is missing.

A login that has begun waits for the user: in a browser, or with a code on another device.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec.structs import replace

from tabane.errors import BadArguments, LoginRequired, TabaneError, UpstreamOverloaded, UpstreamUnavailable
from tabane.messages import Lang, Message, say
from tabane.servers.server import Server
from tabane.servers.server_keys import OAuthOptions
from tabane.upstreams.logins.discovery import (
    DEVICE_GRANT,
    LoginPlace,
    client_at,
    configured_client,
    discover,
    offers_login,
)
from tabane.upstreams.logins.fetching import LoginHttp, LoginRequestFailed
from tabane.upstreams.logins.login_book import (
    Flow,
    KeptClient,
    KeptLogin,
    KeptTokens,
    LoginBook,
    LoginNetwork,
    url_hash,
)
from tabane.upstreams.logins.metadata import BearerChallenge, bearer_challenge, scopes_for
from tabane.upstreams.logins.oauth_messages import (
    code_form,
    device_form,
    own_form,
    refresh_form,
    revocation_form,
)
from tabane.upstreams.logins.redirect_listener import (
    CallbackPage,
    RedirectListener,
    done_page,
    failed_page,
    unknown_page,
)
from tabane.upstreams.logins.token_requests import (
    AuthorizationRequest,
    DeviceCode,
    LoginRefused,
    TokensRefused,
    authorization_request,
    client_request,
    code_of,
    device_code,
    failure_text,
    parameters_of,
    request_tokens,
    resource_fields,
)

log = logging.getLogger(__name__)

LIFE = 600.0
"""Seconds that the user has for a login."""

MOST = 32
"""Logins that wait at the same time."""

REVOCATION = 8.0
"""Seconds that an authorization server has to revoke tokens. They are forgotten in any case."""

_LEAST_LEFT = 120.0
_NETWORK_PATIENCE = 12
"""Polls in a row that may fail before a login with a code is given up."""

PAUSE = 5.0
"""Seconds after a failed renewal in which it is not tried again."""

LOOK_PAUSE = 300.0
"""Seconds for which it is remembered that a server, which refuses requests, offers no login."""


class ServerLogin:
    """The login at one server, as credentials of its requests.

    ``file`` is the servers file. ``needed`` is the error while the user has to log in; ``wanted`` are scopes
    that a call lacked.
    """

    def __init__(self, server: Server, file: str, book: LoginBook, network: LoginNetwork) -> None:
        self.server = server
        self.needed: LoginRequired | None = None
        self.wanted: tuple[str, ...] = ()
        self.challenge: BearerChallenge | None = None
        self.beginning = asyncio.Lock()
        self._file, self._book, self._network = file, book, network
        self._renewing: asyncio.Task[KeptTokens] | None = None
        self._failure: tuple[float, Message] | None = None
        self._looked = -LOOK_PAUSE

    # -- what is known ---------------------------------------------------------------------------

    @property
    def options(self) -> OAuthOptions:
        """Return the options of the servers file, completed by the settings."""
        options, url = self.server.login_options, self._network.client_metadata_url
        return (
            options if options.client_metadata_url or not url else replace(options, client_metadata_url=url)
        )

    @property
    def acts_for_itself(self) -> bool:
        """Return whether Tabane logs in as itself, without a user."""
        return self.server.login_options.grant == "client_credentials"

    def kept(self) -> KeptLogin | None:
        """Return the login that was kept, if it was made for this URL, issuer and client."""
        login, options = self._book.get(self.server.name), self.server.login_options
        if login is None or login.url != url_hash(self.server.url):
            return None
        if options.issuer and options.issuer.rstrip("/") != login.issuer.rstrip("/"):
            return None
        client = login.client
        if options.client_id:
            fits = client is not None and client.id == options.client_id
            # The servers file has the secret; it is kept nowhere else.
            return replace(login, client=replace(client, secret=options.client_secret)) if fits else None  # type: ignore[type-var]
        if client is not None and not client.registered and client.id != self.options.client_metadata_url:
            return None
        return login

    def tokens(self) -> KeptTokens | None:
        """Return the tokens that are kept; None if there are none."""
        login = self.kept()
        return login.tokens if login else None

    def new_login(self, place: LoginPlace, client: KeptClient | None) -> KeptLogin:
        """Return a login at that place, without tokens."""
        options = self.server.login_options
        return KeptLogin(
            url=url_hash(self.server.url),
            file=self._file,
            issuer=place.server.issuer,
            resource=place.resource,
            token_endpoint=place.server.token_endpoint,
            revocation_endpoint=place.server.revocation_endpoint,
            audience=options.audience,
            client=client,
        )

    def http(self) -> LoginHttp:
        """Return the requests of a login at this server."""
        return LoginHttp(self.server, self._network)

    def scopes_at(self, place: LoginPlace, added: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the scopes to ask for: with those that a call lacked, also all that were granted before."""
        tokens = self.tokens()
        before = (*tokens.asked, *tokens.scopes) if tokens and self.wanted else ()
        wanted = (*before, *self.wanted) if self.wanted else place.challenge.scopes
        found = scopes_for(
            self.server.login_options.scopes,
            wanted,
            place.metadata,
            place.server,
            renewable=not self.acts_for_itself,
        )
        return tuple(dict.fromkeys((*found, *added)))

    # -- credentials of requests -----------------------------------------------------------------

    def sends_none(self) -> bool:
        """Return whether requests are sent without a token."""
        if not self._book.is_ready or self.acts_for_itself or self.tokens() is not None:
            return False
        # The server may need none by now. If it does, it says so.
        self.needed = None
        return True

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of a request, with a renewed token if it is time. Raises LoginRequired."""
        await self._book.ready()
        if self.sends_none():
            return {}
        tokens = self.tokens()
        now = time.time()
        if tokens is None or now >= tokens.renew_at:
            tokens = await self._fresh(tokens, now)
        return {"Authorization": f"Bearer {tokens.access}"}

    async def _fresh(self, tokens: KeptTokens | None, now: float) -> KeptTokens:
        """Return renewed tokens; the old ones if they are still valid and cannot be renewed now."""
        if tokens is not None and not self._renewable(tokens):
            if now < tokens.expires:
                return tokens
            raise await self._forget_and_need(say("its token has expired"))
        try:
            return await self._renewed()
        except LoginRequired:
            raise
        except UpstreamUnavailable:
            if tokens is None or now >= tokens.expires:
                raise
            return tokens

    async def refused(
        self, used: Mapping[str, str], status: int, challenges: Sequence[str], *, again: bool
    ) -> bool:
        """Take note that a request was refused. Return whether it may be sent again."""
        challenge = bearer_challenge(challenges)
        if status == 403:
            return challenge is not None and challenge.wants_scopes and await self._lacks(challenge, again)
        self.challenge = challenge or self.challenge
        tokens = self.tokens()
        if tokens is None:
            if await self._offers(challenge):
                raise self._need()
            return False
        if used.get("Authorization") != f"Bearer {tokens.access}":
            return not again
        if not again and self._renewable(tokens):
            await self._renewed()
            return True
        raise await self._forget_and_need(say("it does not accept its token any more"))

    async def _lacks(self, challenge: BearerChallenge, again: bool) -> bool:
        """Get a token with more scopes, if that is possible without the user. Raises LoginRequired if not."""
        name, tokens = self.server.name, self.tokens()
        had = {*tokens.asked, *tokens.scopes} if tokens else set()
        scopes = challenge.scopes
        if again or not scopes or set(scopes) <= had:
            raise UpstreamUnavailable(say(
                "{server!n} refuses this call for lack of permission, although the login requested what it "
                "asks for ({scopes}). Another account may have that permission.",
                server=name, scopes=", ".join(scopes) or "–"))  # fmt: skip
        self.challenge = self.challenge or challenge
        self.wanted = tuple(dict.fromkeys((*self.wanted, *scopes)))
        if self.acts_for_itself:
            await self._renewed()
            return True
        raise LoginRequired(
            say(
                "{server!n} requires a login with more permissions for this call ({scopes}). Run: tabane "
                "servers login {server!c}",
                server=name,
                scopes=", ".join(scopes),
            ),
            name,
            say("this call needs more permissions ({scopes})", scopes=", ".join(scopes)),
        )

    async def _offers(self, challenge: BearerChallenge | None) -> bool:
        """Return whether a server that refuses requests without a token is one to log in to."""
        if self.server.login_options.asked or (challenge and challenge.metadata):
            return True
        if self._book.get(self.server.name) is not None:
            return True
        if time.monotonic() - self._looked < LOOK_PAUSE:
            return False
        async with self.http() as http:
            found = await offers_login(self.server, http)
        self._looked = -LOOK_PAUSE if found else time.monotonic()
        return found

    # -- renewal ---------------------------------------------------------------------------------

    def _renewable(self, tokens: KeptTokens) -> bool:
        return bool(tokens.refresh) or self.acts_for_itself

    async def _renewed(self) -> KeptTokens:
        """Return new tokens. However many wait for them, there is one request.

        Raises LoginRequired if the user has to log in again, UpstreamUnavailable for other failures.
        """
        if self._renewing is None:
            if self._failure is not None and time.monotonic() - self._failure[0] < PAUSE:
                raise UpstreamUnavailable(self._failure[1])
            self._renewing = asyncio.get_running_loop().create_task(self._renew())
            self._renewing.add_done_callback(self._renewal_ended)
        return await asyncio.shield(self._renewing)

    def _renewal_ended(self, task: asyncio.Task[KeptTokens]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # those who wait get it; if nobody waits any more, it is ignored

    async def _renew(self) -> KeptTokens:
        server = self.server
        try:
            async with self.http() as http:
                tokens = await (self._own_tokens(http) if self.acts_for_itself else self._refreshed(http))
        except TokensRefused as refused:
            if refused.is_about_tokens and not self.acts_for_itself:
                raise await self._forget_and_need(refused.why, client=refused.is_about_client) from None
            raise self._failed(refused.why) from None
        except LoginRequestFailed as failed:
            raise self._failed(failed.why) from None
        log.info("%s: its token was renewed", server.name)
        self._failure = self.needed = None
        return tokens

    async def _refreshed(self, http: LoginHttp) -> KeptTokens:
        login = self.kept()
        if login is None or login.tokens is None:
            raise self._need()
        before = login.tokens
        form = refresh_form(before.refresh, resource_fields(login))
        tokens = await request_tokens(http, login, self.options, form, before.asked, before)
        # On disk before it is used: the old token may be worthless by now.
        await self.keep(replace(login, tokens=tokens))
        return tokens

    async def _own_tokens(self, http: LoginHttp) -> KeptTokens:
        """Return tokens for Tabane itself (client credentials)."""
        try:
            place = await discover(self.server, http, self.challenge)
        except UpstreamUnavailable as failed:
            raise self._failed(failed.message) from None
        login = self.new_login(place, configured_client(place.server, self.options))
        scopes = self.scopes_at(place)
        form = own_form(scopes, resource_fields(login))
        tokens = await request_tokens(http, login, self.options, form, scopes)
        await self.keep(replace(login, tokens=tokens))
        return tokens

    def _failed(self, why: Message) -> UpstreamUnavailable:
        text = say("The token for {server!n} could not be renewed: {why}.", server=self.server.name, why=why)
        self._failure = (time.monotonic(), text)
        log.warning("%s", text)
        return UpstreamUnavailable(text)

    # -- what is kept ----------------------------------------------------------------------------

    async def keep(self, login: KeptLogin) -> None:
        """Keep a login, without a configured client's secret, unless the server is another one by now."""
        if login.url != url_hash(self.server.url):
            return
        client = login.client
        if client is not None and not client.registered:
            login = replace(login, client=replace(client, secret=""))
        await self._book.put(self.server.name, login)

    async def forget_tokens(self, *, client: bool = False) -> None:
        """Forget the tokens; with ``client``, also the registration there."""
        login = self._book.get(self.server.name)
        if login is not None:
            await self._book.put(
                self.server.name, replace(login, tokens=None, client=None if client else login.client)
            )

    async def forget_client(self) -> None:
        """Forget the registration at the authorization server, so that the next login registers again."""
        login = self._book.get(self.server.name)
        if login is not None and login.client is not None and login.client.registered:
            await self._book.put(self.server.name, replace(login, client=None))

    async def _forget_and_need(self, why: Message, *, client: bool = False) -> LoginRequired:
        await self.forget_tokens(client=client)
        return self._need(why)

    def _need(self, why: Message | None = None) -> LoginRequired:
        self.needed = LoginRequired(login_text(self.server.name, why), self.server.name, why)
        return self.needed

    def signed_in(self) -> None:
        """Note that the user has just logged in."""
        self.needed = self._failure = None
        self.wanted = ()

    async def revoke(self, kept: KeptLogin) -> bool:
        """Return whether the authorization server revoked these tokens (RFC 7009)."""
        assert kept.tokens is not None
        if not kept.revocation_endpoint or kept.client is None:
            return False
        tokens = [("refresh_token", kept.tokens.refresh), ("access_token", kept.tokens.access)]
        try:
            async with asyncio.timeout(REVOCATION), self.http() as http:
                answers = [
                    await client_request(
                        http, kept, self.options, kept.revocation_endpoint, revocation_form(token, hint)
                    )
                    for hint, token in tokens if token
                ]  # fmt: skip
        except (LoginRequestFailed, TokensRefused, TimeoutError) as failed:
            log.warning("%s: its tokens were forgotten, but not revoked: %s", self.server.name, failed)
            return False
        except TabaneError as error:
            log.warning("%s: its tokens were forgotten, but not revoked: %s", self.server.name, error)
            return False
        return all(answer.status == 200 for answer in answers)

    async def close(self) -> None:
        """Let a renewal end, since its tokens would be lost otherwise; it takes a few seconds at most."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing], timeout=PAUSE)


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
        """Return the name of its server."""
        return self.login.server.name

    @property
    def waits(self) -> bool:
        """Return whether it has not ended yet."""
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
            name = login.server.name
            if sum(each.waits for each in self._by_server.values()) >= MOST and not (before and before.waits):
                raise UpstreamOverloaded(
                    say(
                        "{count} {count:login waits|logins wait} already. Finish one of them first.",
                        count=MOST,
                    )
                )
            attempt = await self._begin_attempt(login, flow, hub_callback, added)
            if (now := self._by_server.get(name)) is not None and now.waits:
                _end(now, "failed", say("it was begun again"))
            self._by_server[name] = attempt
            attempt.waiting = asyncio.get_running_loop().create_task(self._wait(attempt))
            return attempt

    async def _begin_attempt(
        self, login: ServerLogin, flow: Flow, hub_callback: str | None, added: tuple[str, ...]
    ) -> LoginAttempt:
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
    parts = urlsplit(redirect)
    return (parts.port or 0) if parts.hostname == "localhost" else 0


def _cannot(login: ServerLogin, why: Message) -> UpstreamUnavailable:
    return UpstreamUnavailable(
        say("The login at {server!n} cannot begin: {why}.", server=login.server.name, why=why)
    )


def login_text(server: str, why: Message | None = None) -> Message:
    """Return the sentence that the user has to log in, and how."""
    if why is None:
        return say("{server!n} requires a login. Run: tabane servers login {server!c}", server=server)
    return say(
        "{server!n} requires a new login: {why}. Run: tabane servers login {server!c}", server=server, why=why
    )
