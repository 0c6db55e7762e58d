"""No secret of a known name or form reaches the log, at any depth and in any spelling of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.audit.redaction import ArgumentRedactor

LIMIT = 4096
SECRETS = [
    "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "glpat-A1b2C3d4E5f6G7h8I9j0",
    "xoxb-123456789012-abcdefABCDEF",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "sk_live_A1b2C3d4E5f6G7h8I9j0K1l2",
    "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6",
    "sk-ant-api03-A1b2C3d4E5f6G7h8I9j0K1l2M3n4",
    "npm_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
    "pypi-AgEIcHlwaS5vcmcCJDA1b2C3d4E5f6G7h8",
    "tbn_A1b2C3d4E5f6G7h8I9j0K1l2M3n4",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1b2C3\n-----END RSA PRIVATE KEY-----",
]
NAMES = [
    "password", "Passwd", "dbPassword", "client_secret", "token", "accessToken", "refresh-token", "api_key",
    "apiKey", "api-key", "X-API-Key", "Authorization", "cookie", "Set-Cookie", "credential", "credentials",
    "private_key", "passphrase", "pwd", "pin", "パスワード", "暗証番号", "ｐａｓｓｗｏｒｄ", "auth",
]  # fmt: skip
HARMLESS = [
    b'{"owner":"octocat","repo":"hello-world","issue_number":42,"labels":["bug","help wanted"]}',
    b'{"query":"how do I reset a password in python","limit":10}',
    b'{"max_tokens":100,"page_token":"abc","tokens":5}',
    b'{"url":"https://example.com/a?b=c","when":"2026-11-22T10:30:00Z"}',
    b'{"path":"/home/u/src/tabane/audit/redaction.py","id":"123e4567-e89b-12d3-a456-426614174000"}',
    b'{"text":"\\u3053\\ud83d\\ude00","n":[1,2.5,-3e10,true,false,null,{}]}',
    b'{"key":"ABC-1","author":"me","monkey":1,"keyboard":"us","basic":"basic usage","pinned":true}',
    '{"質問":"日本語の説明: 概要","q":"東京"}'.encode(),
    b'{"properties":{"password":{"type":"string"},"token":{"description":"x","type":"string"}},"q":1}',
    b'{"secret_name":"db/prod","secretKeyRef":{"name":"db","key":"password"}}',
    b'{"command":"npm","args":["run","build","-p","8080"]}',
    b"{}",
    b"[]",
    b'{"a":1,"a":2}',
]
VALUE = "hunter2-zebra"


def redacted(arguments: bytes, limit: int = LIMIT, **more: Any) -> str:
    """The text of an entry's arguments, which must be one line of JSON that any reader accepts."""
    redactor = ArgumentRedactor(limit, **more)
    try:
        text, size = redactor.prepare(arguments).take()
        assert redactor.redact(arguments)[1] == size
        check(text, arguments, size, limit)
        return text.decode()
    finally:
        redactor.close()


def check(text: bytes, arguments: bytes, size: int, limit: int) -> None:
    assert b"\n" not in text
    assert b"\r" not in text
    assert len(text) <= 6 * limit + 2
    assert size in (0, len(arguments))
    value = msgspec.json.decode(b'{"arguments":' + text + b"}")["arguments"]
    assert isinstance(value, str) or not size


@pytest.mark.parametrize("arguments", HARMLESS)
def test_harmless_arguments_stay_as_they_are(arguments: bytes) -> None:
    assert redacted(arguments) == arguments.decode()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [VALUE, 12345678, [VALUE], {"a": {"b": [VALUE, 12345678]}}, [[VALUE]]])
def test_a_value_under_a_secret_name_is_hidden(name: str, value: Any) -> None:
    for ascii_only in (True, False):
        text = redacted(json.dumps({"a": [{name: value, "keep": "me"}]}, ensure_ascii=ascii_only).encode())
        assert VALUE not in text
        assert "12345678" not in text
        assert '"***"' in text
        assert '"keep": "me"' in text


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "around", ["%s", "use %s please", "a=%s&b", '{"x":"%s"}', "https://%s@example.com/x"]
)
def test_a_known_form_is_hidden_in_any_string(secret: str, around: str) -> None:
    text = redacted(json.dumps({"note": around % secret, "more": 1}).encode())
    assert secret[4:24] not in text
    assert "***" in text


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": f"postgres://bob:{VALUE}@db.example.com/x"},
        {"header": f"Authorization: Digest {VALUE}"},
        {"header": f"Bearer {VALUE}"},
        {"header": "Basic Ym9iOmh1bnRlcjItemVicmE="},
        {"dsn": f"Server=a;Password={VALUE};Timeout=3"},
        {"env": f"export API_KEY='{VALUE}'"},
        {"env": [{"name": "DB_PASSWORD", "value": VALUE}]},
        {"args": ["--user", "bob", "--password", VALUE]},
        {"args": [f"--password={VALUE}"]},
        {"body": json.dumps({"a": json.dumps({"token": VALUE})})},
        {"note": f'the json is {{"password": "{VALUE}"}}'},
        {"query": f"https://example.com/?access_token={VALUE}&x=1"},
        {"メモ": f"パスワード：{VALUE}"},
    ],
)
def test_a_secret_is_hidden_where_people_write_them(arguments: Any) -> None:
    text = redacted(json.dumps(arguments, ensure_ascii=False).encode())
    assert VALUE not in text
    assert "Ym9iOmh1bnRlcjItemVicmE" not in text


def test_escapes_hide_no_name() -> None:
    assert VALUE not in redacted(b'{"p\\u0061ss\\u0077ord":"%s"}' % VALUE.encode())


def test_both_of_two_members_of_one_name_are_hidden() -> None:
    assert VALUE not in redacted(b'{"token":"%s","token":"%s"}' % (VALUE.encode(), VALUE.encode()))


def test_further_names_are_hidden() -> None:
    arguments = b'{"customer_code":"%s","Nickname":"%s"}' % (VALUE.encode(), VALUE.encode())
    assert VALUE not in redacted(arguments, names=("customer_*", "nickname"))


def test_known_values_are_hidden() -> None:
    redactor = ArgumentRedactor(LIMIT)
    redactor.hide(["swordfish"], lambda text: text.replace("swordfish", "***"))
    assert redactor.prepare(b'{"q":"the swordfish","n":1}').take()[0] == b'{"q":"the ***","n":1}'


@pytest.mark.parametrize(
    "arguments",
    [
        b"\xff\xfe{", b'{"a":"\\ud800"}', b"[NaN]", b'{"a":', b'"', b"\\", b"[" * 3000, b'{"a":' * 900,
        b"[" * 100_000, b'{"password":"' + b"x" * 100_000, b'"\\' * 5000, b"\x00" * 100, b"9" * 3000,
        b'{"a":' * 400 + b"1" + b"}" * 400, b'{\n"a": 1\r\n}', b"}}}}]]]",
    ],
)  # fmt: skip
def test_anything_becomes_one_line_of_json(arguments: bytes) -> None:
    redacted(arguments)


def test_long_arguments_are_cut_and_their_size_is_noted() -> None:
    redactor = ArgumentRedactor(1000)
    arguments = b'{"text":"' + b"long text " * 5_000_000 + b'"}'
    text, size = redactor.prepare(arguments).take()
    redactor.close()
    assert size == len(arguments)
    assert len(msgspec.json.decode(text)) <= 1000


@pytest.mark.parametrize("offset", range(0, 60, 3))
def test_a_secret_at_the_cut_is_hidden_too(offset: int) -> None:
    for limit in (1000, 3000):
        for place in (limit - 60, limit, limit + 1024 - 60):
            text = "x " * ((place - offset) // 2) + SECRETS[0] + " and more" * 1000
            assert "b2C3" not in redacted(json.dumps({"t": text}).encode(), limit)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


@given(tree=TREES, secret=st.sampled_from(SECRETS), data=st.data())
def test_no_planted_secret_survives(tree: Any, secret: str, data: st.DataObject) -> None:
    planted: Any = secret
    for _ in range(data.draw(st.integers(0, 6))):
        way = data.draw(st.sampled_from(["list", "member", "json", "beside", "text"]))
        ways: dict[str, Callable[[Any], Any]] = {
            "list": lambda value: [tree, value],
            "member": lambda value: {"x": value},
            "json": json.dumps,
            "beside": lambda value: {"tree": tree, "value": value},
            "text": lambda value: f"see {value} here" if isinstance(value, str) else value,
        }
        planted = ways[way](planted)
    ascii_only = data.draw(st.booleans())
    indent = data.draw(st.sampled_from([None, 2]))
    arguments = json.dumps(planted, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    assert secret[8:20] not in redacted(arguments)


@given(tree=TREES, name=st.sampled_from(NAMES), levels=st.integers(0, 3))
def test_no_value_under_a_secret_name_survives(tree: Any, name: str, levels: int) -> None:
    planted: Any = {"tree": tree, name: {"deep": [VALUE]}}
    for _ in range(levels):
        planted = {"body": json.dumps([planted])}
    assert VALUE not in redacted(json.dumps(planted).encode())


@given(st.binary(min_size=1, max_size=3000))
def test_no_bytes_raise(arguments: bytes) -> None:
    redacted(arguments, 1000)


@given(st.text(alphabet='{}[]",:\\ \nabu0159ptoken=@/-', min_size=1, max_size=400))
def test_nothing_like_json_raises(text: str) -> None:
    redacted(text.encode(), 300)
