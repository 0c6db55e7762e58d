"""Introspection: the authorization server says what a token is worth (RFC 7662)."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote_plus

from tabane.access.oauth.claims import (
    TokenClaims,
    check_audience,
    check_bearer,
    check_kind,
    check_times,
    parse_claims,
)
from tabane.access.oauth.fetching import AuthorizationServerRequests, FetchFailed
from tabane.access.oauth.issuer import OAuthIssuer
from tabane.access.oauth.refusals import AuthorizationServerUnavailable, TokenRefused, quoted
from tabane.errors import TabaneError

log = logging.getLogger(__name__)

MOST_ANSWER = 64 << 10

AT_ONCE = 8
"""Tokens that are asked about at the same time."""

MOST_WAITING = 64
"""Tokens that wait for their turn. With more, the next is refused at once."""

RETRY = 5.0


class TokenIntrospection:
    """Asks the authorization server about tokens.

    ``secret`` returns the hub's own client secret. It reads a file, and may raise TabaneError.
    """

    def __init__(
        self, issuer: OAuthIssuer, requests: AuthorizationServerRequests, secret: Callable[[], str]
    ) -> None:
        self._issuer, self._requests, self._secret = issuer, requests, secret
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def claims(self, token: str, now: float) -> TokenClaims:
        """Return the claims of a token that is active.

        Raises TokenRefused if it is not, or is not for this hub, and AuthorizationServerUnavailable.
        """
        try:
            document = await self._ask(token)
        except (FetchFailed, TabaneError) as failed:
            log.warning("%s did not introspect a token: %s", self._issuer.url, failed)
            raise AuthorizationServerUnavailable(str(failed), RETRY) from None
        claims = _answer(document)
        if claims.active is not True:
            raise TokenRefused("inactive")
        if claims.iss is not None and claims.iss != self._issuer.url:
            raise TokenRefused("issuer", f"iss {quoted(claims.iss)}, not {quoted(self._issuer.url)}")
        check_audience(claims, self._issuer)
        check_times(claims, self._issuer.skew, now)
        check_bearer(claims)
        check_kind(claims, declared=True)
        return claims

    async def _ask(self, token: str) -> bytes:
        if self._waiting >= MOST_WAITING:
            raise FetchFailed(f"{MOST_WAITING} tokens wait already")
        self._waiting += 1
        try:
            async with self._turns:
                authorization = await asyncio.to_thread(self._authorization)
                form = {"token": token, "token_type_hint": "access_token"}
                url = self._issuer.introspection_url
                return await self._requests.post(url, form, authorization, MOST_ANSWER)
        finally:
            self._waiting -= 1

    def _authorization(self) -> str:
        # RFC 6749, 2.3.1: both are encoded as in a form first.
        pair = f"{quote_plus(self._issuer.client_id)}:{quote_plus(self._secret())}"
        return "Basic " + b64encode(pair.encode()).decode()


def _answer(document: bytes) -> TokenClaims:
    try:
        return parse_claims(document)
    except TokenRefused as refused:
        # What is wrong here is the server's answer, not the token.
        raise AuthorizationServerUnavailable(f"the answer cannot be read: {refused.detail}", RETRY) from None
