"""Authentication of a client at the endpoints of an authorization server: basic, post, signed assertion."""

from __future__ import annotations

import time
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus
from uuid import uuid4

from tabane.errors import ConfigurationError, UpstreamUnavailable
from tabane.extras import extra_command
from tabane.messages import say
from tabane.servers.oauth_keys import OAuthOptions
from tabane.settings.files import read_private
from tabane.upstreams.logins.kept_login import KeptClient

if TYPE_CHECKING:
    from collections.abc import Mapping

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
