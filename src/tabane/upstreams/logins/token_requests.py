"""Tokens from an authorization server: for a code, a device code, a refresh token, or the client itself.

The client authenticates by HTTP Basic, in the form, or with a signed assertion. A browser gets a request with
PKCE, and where it returns is checked; a device gets a code that the user enters elsewhere (RFC 8628).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlsplit
from uuid import uuid4

from tabane.errors import BadArguments, ConfigurationError, UpstreamUnavailable
from tabane.extras import extra_command
from tabane.messages import Message, say
from tabane.servers.server_keys import OAuthOptions
from tabane.settings.files import read_private
from tabane.upstreams.logins.fetching import LoginAnswer, LoginHttp
from tabane.upstreams.logins.login_book import KeptClient, KeptLogin, KeptTokens
from tabane.upstreams.logins.metadata import AuthorizationServer, granted_scopes, is_safe
from tabane.upstreams.logins.oauth_messages import (
    TokenAnswerRefused,
    authorization_url,
    pkce_pair,
    token_answer,
    with_fields,
)

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_LIFE = 120
"""Seconds for which a signed assertion is valid."""

_LARGEST_KEY = 64 << 10


def authenticated(
    client: KeptClient, options: OAuthOptions, issuer: str
) -> tuple[dict[str, str], Mapping[str, str]]:
    """Return the form fields and the headers that show who the client is. Blocks on the file of a key.

    Raises UpstreamUnavailable and ConfigurationError if a private key cannot be used.
    """
    if client.method == "client_secret_basic" and client.secret:
        pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
        return {}, {"Authorization": "Basic " + b64encode(pair.encode()).decode()}
    if client.method == "client_secret_post" and client.secret:
        return {"client_id": client.id, "client_secret": client.secret}, {}
    if client.method == "private_key_jwt":
        signed = {"client_assertion": _assertion(client.id, options, issuer)}
        return {"client_id": client.id, "client_assertion_type": ASSERTION, **signed}, {}
    return {"client_id": client.id}, {}


def _assertion(client: str, options: OAuthOptions, issuer: str) -> str:
    """Return a signed statement of who the client is (RFC 7523). Its audience is the issuer."""
    try:
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise ConfigurationError(
            say("A client with a private key needs the package PyJWT. Run: {command}",
                command=extra_command("oauth"))
        ) from None  # fmt: skip
    now = int(time.time())
    claims = {"iss": client, "sub": client, "aud": issuer, "iat": now, "exp": now + ASSERTION_LIFE}
    headers = {"kid": options.key_id} if options.key_id else None
    try:
        key: Any = load_pem_private_key(_pem(options.private_key), password=None)
        algorithm = options.algorithm or _algorithm(key)
        return jwt.encode({**claims, "jti": uuid4().hex}, key, algorithm, headers)
    except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
        # Its text may quote the key; its kind does not.
        raise UpstreamUnavailable(
            say('the private key of "oauth" cannot be used ({kind}). It must be PEM, without a password, and '
                'fit "algorithm"', kind=type(error).__name__)
        ) from None  # fmt: skip


def _pem(key: str) -> bytes:
    """Return the PEM text of a key, which is given itself or as the path of its file."""
    if "-----BEGIN" in key:
        # A variable in an environment often has its line breaks escaped.
        return key.replace("\\n", "\n").encode()
    try:
        return read_private(Path(key), _LARGEST_KEY)
    except FileNotFoundError:
        raise ConfigurationError(
            say('there is no file {path}. Check "privateKey" in its "oauth".', path=key)
        ) from None


def _algorithm(key: Any) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, rsa.RSAPrivateKey):
        return "RS256"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return {256: "ES256", 384: "ES384", 521: "ES512"}.get(key.curve.key_size, "ES256")
    return "EdDSA"


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


_INTERVAL = 5.0
_LONGEST_INTERVAL = 60.0
_LIFE = 600.0


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A code for the user, the page on which to enter it, and the secret with which the hub asks for tokens.

    ``url`` is the page with the code filled in, empty if there is none. ``interval``, ``life``: seconds.
    """

    code: str = field(repr=False)
    user_code: str
    page: str
    url: str
    interval: float
    life: float

    def describe(self) -> dict[str, Any]:
        """Return the code and the page that the user needs."""
        shown = {"user_code": self.user_code, "verification_url": self.page}
        return shown | ({"url": self.url} if self.url else {})


async def device_code(
    http: LoginHttp, login: KeptLogin, options: OAuthOptions, endpoint: str, scopes: tuple[str, ...]
) -> DeviceCode:
    """Return a new code. Raises TokensRefused and LoginRequestFailed."""
    form = with_fields("", {**({"scope": " ".join(scopes)} if scopes else {}), **resource_fields(login)})
    answer = await client_request(http, login, options, endpoint, form)
    document = answer.document
    code, user_code, page = (document.get(key) for key in ("device_code", "user_code", "verification_uri"))
    if answer.status != 200 or not isinstance(code, str) or not _is_shown(user_code):
        why = answer.explanation() or answer.error() or str(answer.status)
        raise TokensRefused(
            answer.error(), say("{issuer} gives no code ({why})", issuer=login.issuer, why=why)
        )
    if not isinstance(page, str) or not is_safe(page, loopback=http.loopback):
        raise TokensRefused("", say("{issuer} names no safe page for the code", issuer=login.issuer))
    whole = document.get("verification_uri_complete")
    return DeviceCode(
        code,
        str(user_code),
        page,
        whole if isinstance(whole, str) and is_safe(whole, loopback=http.loopback) else "",
        min(_LONGEST_INTERVAL, max(1.0, _seconds(document.get("interval"), _INTERVAL))),
        max(1.0, _seconds(document.get("expires_in"), _LIFE)),
    )


def _is_shown(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable()


def _seconds(value: object, default: float) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if usable else default  # type: ignore[arg-type]


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
