"""Values that look like secrets, and the many that do not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tabane.audit.json_reading import JsonReading
from tabane.text import secret_values
from tabane.text.personal_numbers import Span
from tabane.text.secret_names import SecretNames
from tabane.text.secret_values import CHUNK, HIDDEN, OVERLAP, hide_secrets, looks_secret
from tests.harness.patience import assert_in_proportion


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


@pytest.mark.parametrize(
    "text",
    [
        "how do I reset a password in python",
        "the password reset page is at https://example.com/reset",
        "Your password is too short. It must be at least 12 characters long.",
        "The password is required, and passwords are stored encrypted.",
        "a token budget of 4096 tokens, of which the prompt takes 1200",
        "the primary key is the column id, and the sort key is created_at",
        "key: value pairs, such as lang: en",
        "Pin the message, and cross the pass of the mountain before 1830.",
        "error code 404, status code 500, postal code 94105, country code: 81",
        "ISBN 978-4-06-519128-8, order 250-1234567-7654321, call +81 3-1234-5678 or 555-867-5309",
        "$1,299.00 on 2026-11-22 10:30:00, in build 20261122103000, at 1763779200000",
        "IBAN DE89 3704 0044 0532 0130 00",
        "docker run -p 8080:80 -u 1000 nginx",
        "mkdir -p src/tabane && ssh -p 2222 bob@example.com",
        "Pass --token to the command, or set --password-file.",
        "Das Passwort ist falsch. Bitte ein anderes eingeben.",
        "El usuario olvidó su contraseña y la contraseña es obligatoria.",
        "Le mot de passe est incorrect.",
        "パスワードは8文字以上にしてください。パスワードを忘れた場合は、再設定してください。",
        "トークンは予算の単位です。キーはファイルにあります。",
        "密码错误，请重新输入。",
        "| name | type |\n|---|---|\n| password | string |",
        "def login(user: str, password: str) -> Session: ...",
        "SELECT password FROM users WHERE id = 7",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "npm_config_registry and sk-learn-contrib-packages",
        "Authorization: $TOKEN",
        'curl -H "Authorization: Bearer ${TOKEN}" https://example.com',
        "password: ****",
        "token: ${{ secrets.DEPLOY }}",
        "Pass: the ball",
        "password: see the vault",
        "パスワード: 別途連絡",
        "Pass: 41 Fail: 2",
        "pin: top",
        "npx -y @acme/secret-server @acme/token-server",
        "1 token = 0.75 words",
        "we walked along the old canal until the rain began to fall on the city",
        "wifi: 5 GHz, WLAN: 802.11ac in room 12",
        "tel +49 30 901820, from 2026-12-07 10:00 to 2026-12-07 10:30, in order 12345678",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert hide_secrets(text, SecretNames()) == text


def test_a_long_text_is_searched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    found = secret_values._finders()

    def note(text: str, low: str, names: SecretNames) -> Iterator[Span]:
        searched.append(len(text))
        return found.sentences(text, low, names)

    monkeypatch.setattr(secret_values, "_finders", lambda: found._replace(sentences=note))
    words = "the password and the token are kept apart, " * 800
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIBVgIBADANBgkqhkiG9w0B\n" * 1_200 + "-----END PRIVATE KEY-----"
    parts = [
        words[: CHUNK - 20] + "the password is Heron!Lake5. ",
        words,
        key,
        words,
        "api_key=Heron!Lake6 ",
        words,
    ]
    hidden = hide_secrets("\n".join(parts), SecretNames())
    assert len(searched) > 6
    assert max(searched) <= CHUNK + OVERLAP
    assert not any(secret in hidden for secret in ("Heron!Lake", "MIIBVg"))
    assert words in hidden


@pytest.mark.parametrize(
    "piece",
    [
        "password", "password is ",
        'password="', "--token ", "mysql -p", "://a:b@", "<password>", "a,password\n", "パスワードは",
        "%20", '\\"', '"a b" ', "<![CDATA[", "4111 ", "echo a | ", "name: password value: ",
        "seed abcd ", "a:1:b:c:", "\\", "\\\\ ", "contraseña es ", "pass word ", "'", "<", '{"', "://",
        "1 2 ", "a,b\n", "A", "\n",
    ],
)  # fmt: skip
def test_the_cost_grows_with_the_text_alone(piece: str) -> None:
    names = SecretNames()
    assert_in_proportion(lambda size: hide_secrets((piece * size)[:size], names), 1_000)


def test_the_rest_of_a_text_with_too_many_names_is_hidden() -> None:
    given = "a token, a password, " * 5_000
    hidden = hide_secrets(given + "Heron", SecretNames())
    assert hidden.endswith(HIDDEN)
    assert 1_000 < len(hidden) < len(given)
    assert given.startswith(hidden.removesuffix(HIDDEN))


def test_strings_of_one_json_text_share_their_steps() -> None:
    given = json.dumps([{"t": "the password is not here"}] * 12_000 + [{"t": "Heron", "n": 54321}])
    read = json.loads(JsonReading(SecretNames(), None).read(given))
    assert (read[0], read[-1]) == ({"t": "the password is not here"}, {"t": HIDDEN, "n": HIDDEN})
