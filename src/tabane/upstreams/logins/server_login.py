"""The login at one server: the token for its requests, renewed once for all who wait, and what is missing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from tabane.errors import LoginRequired, UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.oauth_keys import OAuthOptions
from tabane.servers.server import Server
from tabane.upstreams.logins.challenges import BearerChallenge, bearer_challenge
from tabane.upstreams.logins.clients import configured_client
from tabane.upstreams.logins.discovery import LoginPlace, discover, offers_login
from tabane.upstreams.logins.fetching import LoginHttp, LoginRequestFailed
from tabane.upstreams.logins.kept_login import KeptClient, KeptLogin, KeptTokens, url_hash
from tabane.upstreams.logins.login_book import LoginBook
from tabane.upstreams.logins.login_network import LoginNetwork
from tabane.upstreams.logins.metadata import scopes_for
from tabane.upstreams.logins.oauth_messages import own_form, refresh_form
from tabane.upstreams.logins.token_requests import TokensRefused, request_tokens, resource_fields

log = logging.getLogger(__name__)

PAUSE = 5.0
"""Seconds after a failed renewal in which it is not tried again."""

LOOK_PAUSE = 300.0
"""Seconds for which it is remembered that a server, which refuses requests, offers no login."""


class ServerLogin:
    """The login at one server, as credentials of its requests.

    ``metadata_url`` returns the setting for servers that name none, ``file`` is the servers file. ``needed``
    is the error while the user has to log in; ``wanted`` are scopes that a call lacked.
    """

    def __init__(
        self,
        server: Server,
        file: str,
        book: LoginBook,
        network: LoginNetwork,
        metadata_url: Callable[[], str],
    ) -> None:
        self.server = server
        self.needed: LoginRequired | None = None
        self.wanted: tuple[str, ...] = ()
        self.challenge: BearerChallenge | None = None
        self.beginning = asyncio.Lock()
        self._file, self._book, self._network, self._metadata_url = file, book, network, metadata_url
        self._renewing: asyncio.Task[KeptTokens] | None = None
        self._failure: tuple[float, Message] | None = None
        self._looked = -LOOK_PAUSE

    # -- what is known ---------------------------------------------------------------------------

    @property
    def options(self) -> OAuthOptions:
        """Return the options of the servers file, completed by the settings."""
        options = self.server.login_options
        if options.client_metadata_url or not self._metadata_url():
            return options
        return replace(options, client_metadata_url=self._metadata_url())

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
        if not self._book.is_ready or self.acts_for_itself or self.tokens() is not None:
            return False
        # The server may need none by now. If it does, it says so.
        self.needed = None
        return True

    async def headers(self) -> Mapping[str, str]:
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
            raise await self._lost(say("its token has expired"))
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
        raise await self._lost(say("it does not accept its token any more"))

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
                raise await self._lost(refused.why, client=refused.is_about_client) from None
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

    async def _lost(self, why: Message, *, client: bool = False) -> LoginRequired:
        await self.forget_tokens(client=client)
        return self._need(why)

    def _need(self, why: Message | None = None) -> LoginRequired:
        self.needed = LoginRequired(login_text(self.server.name, why), self.server.name, why)
        return self.needed

    def signed_in(self) -> None:
        """Note that the user has just logged in."""
        self.needed = self._failure = None
        self.wanted = ()

    async def close(self) -> None:
        """Let a renewal end, since its tokens would be lost otherwise; it takes a few seconds at most."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing], timeout=PAUSE)


def login_text(server: str, why: Message | None = None) -> Message:
    """Return the sentence that the user has to log in, and how."""
    if why is None:
        return say("{server!n} requires a login. Run: tabane servers login {server!c}", server=server)
    return say(
        "{server!n} requires a new login: {why}. Run: tabane servers login {server!c}", server=server, why=why
    )
