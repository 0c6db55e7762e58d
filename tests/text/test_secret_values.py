"""Values that look like secrets, and the many that do not."""

from __future__ import annotations

import pytest

from tabane.text.secret_values import looks_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "abcd"),
        ("apiKey", "0123456789"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_0123456789abcdef"),
        ("PASSWORD", "correct horse"),
        ("X-Api-Key", "k-1234"),
        ("Authorization", "abcdef"),
        ("パスワード", "hunter22"),
        ("LICENSE_KEY", "AB12-CD34-EF56"),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEY"),
        ("X", "ghp_0123456789abcdef"),
        ("DATABASE_URL", "postgres://me:hunter22@db/x"),
        ("ENDPOINT", "https://example.com/mcp?api_key=abcdef12"),
        ("OPENAPI_MCP_HEADERS", '{"Authorization": "Bearer ntn_0123456789"}'),
        ("PEM", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----"),
    ],
)
def test_keys_and_passwords_are_recognized(name: str, value: str) -> None:
    assert looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEVEL", "debug"),
        ("API_KEY", ""),
        ("API_KEY", "abc"),
        ("API_KEY", "YOUR_API_KEY"),
        ("API_KEY", "<your key>"),
        ("API_KEY", "$API_KEY"),
        ("API_KEY", "***"),
        ("AUTH", "none"),
        ("AUTH", "oauth"),
        ("MAX_TOKENS", "4096"),
        ("TOKEN_LIMIT", "4096"),
        ("TOKEN_TTL", "3600"),
        ("API_KEY_HEADER", "X-My-Key"),
        ("SSH_KEY_PATH", "keys/id_rsa"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/hana/key.json"),
        ("SSH_KEY", "~/.ssh/id_rsa"),
        ("AUTHORIZATION_SERVER", "https://login.example.com/oauth"),
        ("SORT_KEY", "created_at"),
        ("KEY", "en"),
        ("DATABASE_URL", "postgres://localhost/x"),
        ("PATH", "/usr/bin:/bin"),
    ],
)
def test_other_values_are_left_alone(name: str, value: str) -> None:
    assert not looks_secret(name, value)
