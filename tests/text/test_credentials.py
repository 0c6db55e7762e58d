"""Credentials in JSON: what is one, what only looks like one, and that the JSON stays valid."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.text.credentials import WINDOW, CredentialFinder, kinds_of, without_credentials
from tests.harness.patience import assert_in_proportion

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
PEM = (
    f"-----BEGIN RSA PRIVATE {'KEY'}-----\n"
    + "MIIBOgIBAAJB+/\n" * 20
    + f"-----END RSA PRIVATE {'KEY'}-----\n"
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"token\n{TOKEN}\n", "github-token"),
        ("AKIA" + "Z7Q3WX4M5N6P2RTS", "aws-key"),
        (PEM, "private-key"),
        ("postgres://bob:Tr0ub4dor@db.local/x", "password-in-url"),
        ("Authorization: Bearer Zk93jd83hdkLqpwo39dkQmz", "authorization-header"),
        ("eyJhbGciOiJSUzI1NiJ9." + "eyJzdWIiOiJib2IiLCJleHAiOjE3fQ." + "c2lnbmF0dXJlLWhlcmUtbG9uZw", "jwt"),
        ("my-own-s3cret", "own-secret"),
    ],
)
def test_a_credential_is_found_and_replaced(text: str, kind: str) -> None:
    written = json.dumps({"a": f"before {text} after"}).encode()
    found = CredentialFinder(["my-own-s3cret"]).find(written)
    assert kinds_of(found) == (kind,)
    value = json.loads(without_credentials(written, found))["a"]
    assert f"[redacted:{kind}]" in value
    assert value.startswith("before ")
    assert value.endswith(" after")


@pytest.mark.parametrize(
    "text",
    [
        "550e8400-e29b-41d4-a716-446655440000",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "sha512-" + "Ab3/" * 21 + "==",
        "postgres://user:password@localhost/db",
        "https://example.com/@name:tag@1.2.3",
        "iVBORw0KGgo" + "AKIAZ7Q3WX4M5N6P2RTS" * 3,
        "Authorization: Bearer <your token>",
        "a task-manager and a disk-usage-report-of-the-last-hundred-days",
    ],
)
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert CredentialFinder().find(json.dumps({"a": text}).encode()) == []


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_json_stays_valid(value: object) -> None:
    written = json.dumps([value, TOKEN, value]).encode()
    left = json.loads(without_credentials(written, CredentialFinder().find(written)))
    assert left == [value, "[redacted:github-token]", value]


@pytest.mark.parametrize(
    "piece", ["://a:", "eyJaaaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "sk-", "ghp_a", "@"]
)
def test_the_cost_grows_with_the_text_alone(piece: str) -> None:
    finder = CredentialFinder(["my-own-s3cret"])
    assert_in_proportion(lambda size: finder.find((piece * (size // len(piece) + 1))[:size].encode()), 16_000)


FORMS = (TOKEN, PEM, "postgres://bob:Tr0ub4dor@db.local/x", "my-own-s3cret")


@given(st.lists(st.tuples(st.integers(-9_000, 9_000), st.sampled_from(FORMS)), min_size=1, max_size=3))
def test_a_long_text_has_the_same_credentials_wherever_it_is_cut(placed: list[tuple[int, str]]) -> None:
    filler, wanted, text = "lorem ipsum 0 ", [], ""
    for windows, (offset, form) in enumerate(placed, 1):
        reach = max(windows * WINDOW + offset - len(text), 40)
        text += (filler * (reach // len(filler) + 1))[:reach] + " "
        wanted.append(kinds_of(CredentialFinder(["my-own-s3cret"]).find(form.encode())))
        text += f"{form} "
    found = CredentialFinder(["my-own-s3cret"]).find(text.encode())
    assert [(each.kind,) for each in found] == wanted


@pytest.mark.parametrize(
    "part", ["a", "Ab3/+", "ghp_", "eyJ", "://a:b@", "-----BEGIN PRIVATE KEY-----", "x = "]
)
def test_no_step_of_a_search_is_longer_than_a_window(part: str) -> None:
    steps = itertools.count()

    def step() -> None:
        next(steps)

    CredentialFinder(["my-own-s3cret"]).find(part.encode() * (2_000_000 // len(part)), step)
    assert next(steps) >= 2_000_000 // WINDOW
