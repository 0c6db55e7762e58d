"""The request to a browser for a login, with PKCE, and the check of where the browser returns; pure."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.upstreams.logins.metadata import AuthorizationServer
from tabane.upstreams.logins.oauth_messages import authorization_url, pkce_pair

LONGEST_ANSWER = 16 << 10
"""Characters of the URL to which a browser returns."""

_MOST_FIELDS = 50


class LoginRefused(Exception):
    """The answer to the browser is no login, and why."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request for a login: the secrets that bind the answer to it, and its URL for the browser."""

    state: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect: str
    url: str = field(repr=False)


def authorization_request(
    place: AuthorizationServer,
    client: str,
    redirect: str,
    scopes: tuple[str, ...],
    fields: dict[str, str],
) -> AuthorizationRequest:
    """Return a new request. ``fields`` say for which server the token is meant."""
    state = secrets.token_urlsafe(32)
    verifier, challenge = pkce_pair()
    if "offline_access" in scopes:
        fields = {"prompt": "consent", **fields}
    url = authorization_url(place.authorization_endpoint, client, redirect, state, challenge, scopes, fields)
    return AuthorizationRequest(state, verifier, redirect, url)


def parameters_of(url: str) -> dict[str, str]:
    """Return the parameters of the URL to which a browser returned. Raises BadArguments if it has none.

    A parameter that is there twice is left out: another reader could use the other one.
    """
    text = url.strip()
    query = urlsplit(text).query if "?" in text else text
    try:
        pairs = parse_qsl(query[:LONGEST_ANSWER], keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        pairs = []
    names = [name for name, _ in pairs]
    found = {name: value for name, value in pairs if names.count(name) == 1}
    if "state" not in found:
        raise BadArguments(
            say("This is not the URL to which the browser returned after the login: it has no state."),
            "redirected_url",
        )
    return found


def code_of(parameters: dict[str, str], issuer: str, *, names_itself: bool) -> str:
    """Return the code in an answer whose state was checked. Raises LoginRefused.

    ``issuer`` is where the login was requested. An answer of another one is refused before its error is
    read (RFC 9207), and so is one without a name if ``names_itself``.
    """
    named = parameters.get("iss")
    if named is not None and named != issuer:
        raise LoginRefused(
            say("the answer is from another issuer, {named}, not {issuer}", named=named[:200], issuer=issuer)
        )
    if named is None and names_itself:
        raise LoginRefused(say("the answer does not name its issuer, as {issuer} always does", issuer=issuer))
    error = parameters.get("error")
    if error == "access_denied":
        raise LoginRefused(say("the request was declined in the browser"))
    if error:
        error = error if error.isprintable() else "invalid"
        words = " ".join(parameters.get("error_description", "").split())[:200]
        raise LoginRefused(
            say("{issuer} refuses it ({code}: {words})", issuer=issuer, code=error[:100], words=words)
            if words.isprintable() and words
            else say("{issuer} refuses it ({code})", issuer=issuer, code=error[:100])
        )
    code = parameters.get("code", "")
    if not code:
        raise LoginRefused(say("the answer has no code"))
    return code
