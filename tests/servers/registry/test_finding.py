"""A registry that is slow, huge, wrong or never ends: answers are bounded, and errors say what happened."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import TabaneError, UnknownName
from tabane.servers.registry import finding
from tabane.servers.registry.finding import (
    LARGEST_ANSWER,
    AnswerCache,
    FoundServers,
    RegistryUnavailable,
    checked_address,
    open_registry,
)
from tests.harness.certificates import HubCertificate
from tests.harness.mcp_registry import Answer, LocalRegistry, entry, npm


@pytest.fixture
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry([entry("io.github.acme/weather", packages=[npm()])]).running() as registry:
        yield registry


def find(registry: LocalRegistry, home: Path, limit: int = 20, **patience: Any) -> FoundServers:
    async def scenario() -> FoundServers:
        async with open_registry(registry.url, {}, home, **patience) as opened:
            return await opened.find("weather", limit)

    return asyncio.run(scenario())


def failure(registry: LocalRegistry, home: Path, **patience: Any) -> str:
    with pytest.raises(RegistryUnavailable) as raised:
        find(registry, home, **patience)
    return raised.value.text("en")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(b"<html>"), "something else than JSON"),
        (Answer(b"[]"), "something else than a list"),
        (Answer(b'{"servers": {}}'), "something else than a list"),
        (Answer(b"[" * 100_000), "something else than JSON"),
        (Answer(b"{}", 500), "HTTP 500"),
        (Answer(b" " * (LARGEST_ANSWER + 1)), "longer than 4 MiB"),
        (Answer(gzip.compress(b" " * (64 << 20)), headers={"Content-Encoding": "gzip"}), "longer than 4 MiB"),
        (Answer(b"", 302, headers={"Location": "http://127.0.0.2:1/"}), "redirects to another site"),
        (Answer(b"", 404), "Check the setting registry_url"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(
    registry: LocalRegistry, tmp_path: Path, answer: Answer, words: str
) -> None:
    registry.instead = lambda path, query: answer
    assert words in failure(registry, tmp_path)


def test_a_registry_that_does_not_answer_is_given_up(registry: LocalRegistry, tmp_path: Path) -> None:
    registry.instead = lambda path, query: Answer(wait=True)
    assert "no answer within" in failure(registry, tmp_path, patience=0.3)


def test_all_pages_together_have_a_limit_of_time(registry: LocalRegistry, tmp_path: Path) -> None:
    registry.instead = lambda path, query: Answer(wait=True)
    assert "too slow" in failure(registry, tmp_path, search_patience=0.3)


def test_a_cursor_that_leads_in_a_circle_ends(registry: LocalRegistry, tmp_path: Path) -> None:
    page = json.dumps({"servers": [], "metadata": {"nextCursor": "again"}}).encode()
    registry.instead = lambda path, query: Answer(page)
    assert find(registry, tmp_path).next is None
    assert len(registry.requests) == 2


def test_cursors_without_end_are_followed_a_few_times_only(registry: LocalRegistry, tmp_path: Path) -> None:
    def page(path: str, query: dict[str, str]) -> Answer:
        after = int(query.get("cursor", "0")) + 1
        return Answer(json.dumps({"servers": [], "metadata": {"nextCursor": str(after)}}).encode())

    registry.instead = page
    assert find(registry, tmp_path).next == "5"
    assert len(registry.requests) == finding.MOST_PAGES


def test_pages_with_deleted_servers_are_filled_up(registry: LocalRegistry, tmp_path: Path) -> None:
    registry.entries[:] = [
        entry(f"a/weather{number}", status="deleted" if number < 4 else "active", packages=[npm()])
        for number in range(6)
    ]
    assert [server.name for server in find(registry, tmp_path, limit=2).servers] == [
        "a/weather4",
        "a/weather5",
    ]


async def test_another_server_than_the_asked_one_is_refused(registry: LocalRegistry, tmp_path: Path) -> None:
    registry.instead = lambda path, query: Answer(json.dumps(entry("evil/weather")).encode())
    async with open_registry(registry.url, {}, tmp_path) as opened:
        with pytest.raises(RegistryUnavailable, match="another server"):
            await opened.get("io.github.acme/weather")


async def test_a_deleted_server_is_refused_with_its_reason(registry: LocalRegistry, tmp_path: Path) -> None:
    gone = entry("io.github.acme/weather", status="deleted", status_message="malware")
    registry.instead = lambda path, query: Answer(json.dumps(gone).encode())
    async with open_registry(registry.url, {}, tmp_path) as opened:
        with pytest.raises(UnknownName, match="malware"):
            await opened.get("io.github.acme/weather")


def test_a_broken_answer_does_not_replace_the_kept_one(registry: LocalRegistry, tmp_path: Path) -> None:
    find(registry, tmp_path)
    for file in (tmp_path / "registry-cache").iterdir():
        head, _, body = file.read_bytes().partition(b"\n")
        file.write_bytes(json.dumps({**json.loads(head), "at": 0}).encode() + b"\n" + body)
    registry.instead = lambda path, query: Answer(b"<html>")
    assert "something else than JSON" in failure(registry, tmp_path)  # that one is too old


@pytest.mark.parametrize("damage", [b"", b"\n", b"{}\n{}", b"\xff\n", b'{"at": "x"}\n', b"[]\n[]"])
def test_a_damaged_kept_answer_is_asked_for_again(
    registry: LocalRegistry, tmp_path: Path, damage: bytes
) -> None:
    find(registry, tmp_path)
    for file in (tmp_path / "registry-cache").iterdir():
        file.write_bytes(damage)
    assert [server.name for server in find(registry, tmp_path).servers] == ["io.github.acme/weather"]


def test_kept_answers_are_few_and_small(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "kept")
    for number in range(finding.MOST_FILES + 10):
        cache.put(f"http://x/{number}", b"{}")
    assert len(list((tmp_path / "kept").iterdir())) <= finding.MOST_FILES
    for number in range(4):
        cache.put(f"http://y/{number}", b" " * (3 << 20))
    assert sum(file.stat().st_size for file in (tmp_path / "kept").iterdir()) <= finding.LARGEST


def test_a_cache_that_cannot_be_written_does_no_harm(registry: LocalRegistry, tmp_path: Path) -> None:
    (tmp_path / "registry-cache").write_text("a file")
    assert find(registry, tmp_path).servers


@pytest.mark.parametrize("address", ["http://10.0.0.1", "https://x?y=1", "x", "https://", "off", ""])
def test_an_address_without_tls_is_refused(address: str) -> None:
    with pytest.raises(TabaneError):
        checked_address(address)


async def test_requests_go_through_the_proxy_of_the_environment(
    registry: LocalRegistry, tmp_path: Path
) -> None:
    environment = {"HTTPS_PROXY": registry.url}
    async with open_registry("https://registry.example", environment, tmp_path) as opened:
        with pytest.raises(RegistryUnavailable, match="proxy"):  # which knows no CONNECT
            await opened.find("x", 5)


def test_the_authority_of_the_environment_is_trusted(tmp_path: Path) -> None:
    certificate = HubCertificate(tmp_path)
    registry = LocalRegistry([entry("io.github.acme/weather", packages=[npm()])])
    registry.use_tls(str(certificate.certificate), str(certificate.key))

    async def scenario(environment: dict[str, str]) -> FoundServers:
        async with open_registry(registry.url, environment, tmp_path) as opened:
            return await opened.find("weather", 5)

    with registry.running():
        with pytest.raises(RegistryUnavailable, match="SSL_CERT_FILE"):
            asyncio.run(scenario({}))
        assert asyncio.run(scenario({"SSL_CERT_FILE": str(certificate.ca)})).servers
