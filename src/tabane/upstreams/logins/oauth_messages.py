"""Messages of OAuth, made and read by oauthlib, which does no I/O; no other module imports it.

oauthlib allows HTTP for the whole process or not at all. Which endpoints may use it is decided before, by
``is_safe``. So where oauthlib checks a URL, it gets the URL with HTTPS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

VERIFIER_LENGTH = 64
"""Characters of the secret of PKCE: 43 to 128 are allowed (RFC 7636)."""

_TEXTS = ("access_token", "refresh_token", "token_type", "scope", "error", "error_description")
_LONGEST_NUMBER = 12


class TokenAnswerRefused(Exception):
    """An answer without tokens. ``has_error``: it says so itself."""

    def __init__(self, *, has_error: bool) -> None:
        super().__init__()
        self.has_error = has_error


def import_library() -> None:
    """Import oauthlib. Takes long on a cold disk, so call it in a thread before the first message."""
    import oauthlib.oauth2  # noqa: F401


# -- requests: forms as texts -----------------------------------------------------------------------


def pkce_pair() -> tuple[str, str]:
    """Return a new secret and its challenge with S256."""
    client = _client()
    verifier = client.create_code_verifier(VERIFIER_LENGTH)
    return verifier, client.create_code_challenge(verifier, "S256")


def authorization_url(
    endpoint: str,
    client: str,
    redirect: str,
    state: str,
    challenge: str,
    scopes: tuple[str, ...],
    fields: Mapping[str, str],
) -> str:
    """Return the URL of a request for a code. The endpoint may have a query of its own."""
    parts = urlsplit(endpoint)
    url = _client(client).prepare_request_uri(
        urlunsplit(parts._replace(scheme="https")),
        redirect_uri=redirect,
        scope=scopes,
        state=state,
        code_challenge=challenge,
        code_challenge_method="S256",
        **fields,
    )
    return urlunsplit(urlsplit(str(url))._replace(scheme=parts.scheme))


def code_form(code: str, redirect: str, verifier: str, fields: Mapping[str, str]) -> str:
    """Return the form that requests tokens for a code. As all of these, it does not name the client."""
    return cast(
        "str",
        _client().prepare_request_body(
            code=code, redirect_uri=redirect, code_verifier=verifier, include_client_id=False, **fields
        ),
    )


def refresh_form(token: str, fields: Mapping[str, str]) -> str:
    """Return the form that requests tokens for a refresh token."""
    return cast("str", _client().prepare_refresh_body(refresh_token=token, **fields))


def own_form(scopes: tuple[str, ...], fields: Mapping[str, str]) -> str:
    """Return the form with which a client requests tokens for itself."""
    from oauthlib.oauth2 import BackendApplicationClient

    return cast("str", BackendApplicationClient("").prepare_request_body(scope=scopes, **fields))


def device_form(code: str, fields: Mapping[str, str]) -> str:
    """Return the form that asks whether the user has entered a code (RFC 8628)."""
    from oauthlib.oauth2 import DeviceClient

    return cast("str", DeviceClient("").prepare_request_body(code, **fields))


def revocation_form(token: str, kind: str) -> str:
    """Return the form that revokes a token (RFC 7009)."""
    _, _, form = _client().prepare_token_revocation_request("https://", token, kind)
    return cast("str", form)


def with_fields(form: str, fields: Mapping[str, str]) -> str:
    """Return a form with more fields."""
    from oauthlib.common import add_params_to_qs

    return cast("str", add_params_to_qs(form, dict(fields)))


# -- answers ----------------------------------------------------------------------------------------


def token_answer(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an answer with an access token. Raises TokenAnswerRefused.

    A field that is of another kind than it should be counts as missing. oauthlib sees no others: its faults
    for them differ.
    """
    from oauthlib.oauth2 import OAuth2Error

    fields = {key: document[key] for key in _TEXTS if isinstance(document.get(key), str)}
    if _is_number(document.get("expires_in")):
        fields["expires_in"] = document["expires_in"]
    try:
        found = _client().parse_request_body_response(msgspec.json.encode(fields).decode())
    except OAuth2Error:
        raise TokenAnswerRefused(has_error="error" in fields) from None
    return cast("Mapping[str, Any]", found)


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) <= _LONGEST_NUMBER
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return usable and abs(value) < 10.0**_LONGEST_NUMBER  # type: ignore[arg-type]


def _client(id: str = "") -> Any:
    from oauthlib.oauth2 import WebApplicationClient

    return WebApplicationClient(id)
