"""Requests at the token endpoint: for a code, a device code, a refresh token, or the client itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.oauth_keys import OAuthOptions
from tabane.upstreams.logins.authentication import authenticated
from tabane.upstreams.logins.fetching import LoginAnswer, LoginHttp
from tabane.upstreams.logins.kept_login import KeptLogin, KeptTokens
from tabane.upstreams.logins.metadata import granted_scopes
from tabane.upstreams.logins.oauth_messages import TokenAnswerRefused, token_answer, with_fields

LONGEST_TOKEN = 32 << 10
"""Characters of a token: more does not fit into a header of most servers."""

_LONGEST_LIFE = 10 * 365 * 86_400.0


class TokensRefused(Exception):
    """An authorization server refused a request for tokens. ``code`` is its error, ``why`` a sentence."""

    def __init__(self, code: str, why: Message) -> None:
        super().__init__(why)
        self.code, self.why = code, why

    @property
    def is_about_client(self) -> bool:
        """Return whether the client is unknown there, so that it has to be registered again."""
        return self.code in ("invalid_client", "unauthorized_client")

    @property
    def is_about_tokens(self) -> bool:
        """Return whether the user has to log in again."""
        return self.is_about_client or self.code in ("invalid_grant", "invalid_scope", "invalid_target")


async def request_tokens(
    http: LoginHttp,
    login: KeptLogin,
    options: OAuthOptions,
    form: str,
    asked: tuple[str, ...],
    before: KeptTokens | None = None,
) -> KeptTokens:
    """Return tokens. ``before`` are those that are renewed: what the answer does not name stays.

    Raises TokensRefused, LoginRequestFailed, and UpstreamUnavailable if a private key cannot be used.
    """
    answer = await client_request(http, login, options, login.token_endpoint, form)
    if answer.status not in (200, 201):
        raise TokensRefused(answer.error(), _refusal(login, answer))
    try:
        found = token_answer(answer.document)
    except TokenAnswerRefused as refused:
        # Some servers answer an error with status 200.
        why = _refusal(login, answer) if refused.has_error else _no_token(login)
        raise TokensRefused(answer.error(), why) from None
    return _tokens(login, found, asked, before)


async def client_request(
    http: LoginHttp, login: KeptLogin, options: OAuthOptions, url: str, form: str
) -> LoginAnswer:
    """Send a form as the client of a login, and return the answer. Raises LoginRequestFailed."""
    assert login.client is not None
    fields, headers = await asyncio.to_thread(authenticated, login.client, options, login.issuer)
    return await http.post(url, with_fields(form, fields), headers)


def resource_fields(login: KeptLogin) -> dict[str, str]:
    """Return the fields that say for which server a token is meant (RFC 8707; "audience" if it is set)."""
    return {
        **({"resource": login.resource} if login.resource else {}),
        **({"audience": login.audience} if login.audience else {}),
    }


def _tokens(
    login: KeptLogin, found: Mapping[str, Any], asked: tuple[str, ...], before: KeptTokens | None
) -> KeptTokens:
    access, refresh = found["access_token"], found.get("refresh_token")
    if not _is_token(access):
        raise TokensRefused("", _no_token(login))
    if found.get("token_type", "").lower() != "bearer":
        raise TokensRefused(
            "", say("{issuer} issues tokens of another kind than bearer tokens", issuer=login.issuer)
        )
    now = time.time()
    scope = " ".join(found["scope"]) if "scope" in found else None
    scopes = before.scopes if scope is None and before is not None else granted_scopes(scope, asked)
    return KeptTokens(
        access=str(access),
        refresh=str(refresh) if _is_token(refresh) else (before.refresh if before else ""),
        obtained=now,
        expires=_expiry(now, found.get("expires_in")),
        scopes=scopes,
        asked=asked,
    )


def _is_token(value: object) -> bool:
    """Return whether a value can be sent in a header: printable ASCII without spaces."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_TOKEN
        and all("!" <= character <= "~" for character in value)
    )


def _expiry(now: float, life: int | None) -> float:
    return 0.0 if life is None else now + min(max(0.0, float(life)), _LONGEST_LIFE)


def _no_token(login: KeptLogin) -> Message:
    return say("{issuer} answers without a usable access token", issuer=login.issuer)


def _refusal(login: KeptLogin, answer: LoginAnswer) -> Message:
    code, words = answer.error(), answer.explanation()
    if code and words:
        return say("{issuer} refuses it ({code}: {words})", issuer=login.issuer, code=code, words=words)
    if code:
        return say("{issuer} refuses it ({code})", issuer=login.issuer, code=code)
    return say("{issuer} answers with status {status}", issuer=login.issuer, status=answer.status)


def failure_text(server: str, why: Message) -> UpstreamUnavailable:
    """Return the error of a login that failed."""
    return UpstreamUnavailable(say("The login at {server!n} failed: {why}.", server=server, why=why))
