"""Secrets in texts, recognized by their form: keys of known services, JWTs, private keys, URLs, headers."""

from __future__ import annotations

import base64
import binascii
import re

from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.secret_hints import has_run, may_name_secrets
from tabane.text.secret_names import SecretNames

HIDDEN = "***"

_TOKENS = lazy_pattern(
    r"gh[pousr]_[A-Za-z0-9]{12,}|github_pat_\w{12,}|gl[a-z]{2,6}-[\w-]{12,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|AIza[\w-]{16,}|ya29\.[\w-]{12,}|GOCSPX-[\w-]{12,}"
    r"|[sr]k_(?:live|test)_\w{8,}|whsec_\w{8,}|(?<![A-Za-z0-9])sk-[\w-]{12,}|npm_[A-Za-z0-9]{12,}"
    r"|pypi-[\w-]{12,}|(?<![A-Za-z0-9])hf_[A-Za-z0-9]{12,}|tbn_[\w-]{8,}|SG\.[\w-]{12,}(?:\.[\w-]+)?"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}"
)
_PRIVATE_KEY = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_URL_PASSWORD = lazy_pattern(r"(://[^\s/?#@:]{0,200}:)([^\s/?#]{1,500})(?=@)")
_URL_TOKEN = lazy_pattern(r"(://)([^\s/?#@:]{16,500})(?=@)")
_HEADER = lazy_pattern(
    r"""((?:authorization|cookie)\\{0,8}["']?\s{0,8}[:=]\s{0,8}\\{0,8}["']?)([^\r\n"'\\]+)""", re.IGNORECASE
)
_SCHEME = lazy_pattern(r"\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{4,})", re.IGNORECASE)
_ASSIGNMENT = lazy_pattern(
    r"""((?:passw|passphrase|passcode|pwd|secret|token|key|credential|auth|pin|otp|パスワード|暗証番号|トークン)"""
    r"""[\w.-]{0,40}\\{0,8}["']?\s{0,8}(?:=>|[=:：])\s{0,8})"""
    r"""(\\{0,8}"(?:[^"\\]|\\(?!"))*|\\{0,8}'[^'\\]*|[^\s&;,"'}\])]+)""",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(r"[\w.-]{0,60}\Z")
_NAME = re.compile(r"[\w.-]+")


def hide_secrets(text: str, names: SecretNames) -> str:
    """Return a text with the secrets that are recognized by their form replaced by ``***``."""
    if has_run(text.encode("utf-8", "replace")):
        text = _TOKENS.sub(HIDDEN, text)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if "://" in text and "@" in text:
        text = _URL_TOKEN.sub(rf"\1{HIDDEN}", _URL_PASSWORD.sub(rf"\1{HIDDEN}", text))
    return _hide_named(text, names)


def _hide_named(text: str, names: SecretNames) -> str:
    if not may_name_secrets(text):
        return text
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME.sub(_without_credentials, text)
    return _ASSIGNMENT.sub(lambda found: _without_value(found, names), text)


def _without_credentials(found: re.Match[str]) -> str:
    scheme, space, value = found.groups()
    if scheme.lower() == "basic":
        secret = _holds_colon(value)
    else:
        secret = len(value) >= 12 or not (value.isalpha() and value.islower())
    return scheme + space + (HIDDEN if secret else value)


def _holds_colon(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return False


def _without_value(found: re.Match[str], names: SecretNames) -> str:
    head, value = found.groups()
    before = _NAME_BEFORE.search(found.string, max(0, found.start() - 60), found.start())
    word = _NAME.match(head)
    name = (before[0] if before else "") + (word[0] if word else "")
    if name not in names:
        return found[0]
    quote = re.match(r"""\\{0,8}["']?""", value)
    return head + (quote[0] if quote else "") + HIDDEN
