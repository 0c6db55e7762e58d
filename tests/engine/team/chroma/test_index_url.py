"""The URL of an index on Chroma, and what may be shown of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabane.engine.team.chroma.service import parsed
from tabane.errors import ConfigurationError


def test_a_server_has_defaults_and_takes_a_tenant_a_database_and_a_token() -> None:
    found = parsed("chroma+http://db.example.com")
    assert (found.host, found.port, found.tls) == ("db.example.com", 8000, False)
    assert (found.tenant, found.database, found.token) == ("default_tenant", "default_database", "")
    assert found.place == "chroma+http://db.example.com:8000"
    found = parsed(
        "chroma+https://me:hunter2@[::1]:1/archive?tenant=team&token=abc%2Fd&prefix=other&timeout=9"
    )
    assert (found.host, found.port, found.tls, found.timeout) == ("::1", 1, True, 9)
    assert (found.tenant, found.database, found.token, found.login) == (
        "team",
        "archive",
        "abc/d",
        "me:hunter2",
    )
    assert found.place == "chroma+https://[::1]:1/team:archive?prefix=other"
    assert "hunter2" not in repr(found)
    assert "abc" not in repr(found)


def test_a_folder_is_shown_as_it_is_used() -> None:
    assert parsed("chroma:/srv/a%20b/../chroma/").folder == "/srv/chroma"
    assert parsed("chroma:/srv/chroma?prefix=two").place == "chroma:/srv/chroma?prefix=two"
    assert parsed("chroma:~/chroma").folder == str(Path.home() / "chroma")


@pytest.mark.parametrize(
    "url",
    [
        "chroma:relative",
        "chroma:",
        "chroma://host",
        "chroma:/srv?token=hunter2",
        "chroma+http://",
        "chroma+http:/srv",
        "chroma+http://host:port",
        "chroma+http://host/ab",
        "chroma+http://host/a/b",
        "chroma+http://host?prefix=_a",
        "chroma+http://host?timeout=0",
        "chroma+http://me:hunter2@host?unknown=1",
        "chroma+ftp://host",
    ],
)
def test_what_cannot_be_used_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parsed(url)
    assert "hunter2" not in str(refused.value)
