"""Commands on another hub, given by `--url`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.ports import reserved_port


@contextmanager
def over_tcp(home: Home) -> Iterator[str]:
    """A hub that listens on a free port; its address."""
    port = reserved_port(home)
    started = home.run("start", environment={"TABANE_HTTP": "true", "TABANE_PORT": str(port)})
    assert started.status == 0, started.err
    try:
        yield f"ws://127.0.0.1:{port}/"
    finally:
        assert home.run("stop").status == 0


@pytest.fixture
def elsewhere(tmp_path: Path) -> Home:
    return home_in(tmp_path / "elsewhere")


def home_in(folder: Path) -> Home:
    folder.mkdir()
    return Home(folder)


def test_a_hub_is_asked_over_its_address_with_its_token(tmp_path: Path, elsewhere: Home) -> None:
    me = home_in(tmp_path / "me")
    with over_tcp(elsewhere) as url:
        token = (Path(elsewhere.environment["TABANE_HOME"]) / "token").read_text().strip()
        known = me.run("tools", "list", "--json", "--url", url, environment={"TABANE_TOKEN": token})
        assert known.status == 0, known.err
        assert known.json["results"] == []
        by_variable = {"TABANE_URL": url, "TABANE_TOKEN": token}
        assert me.run("health", "--json", environment=by_variable).status == 0
        archive = me.run("posts", "stats", "--json", "--url", url)
        assert archive.status == 0, archive.err
        refused = me.run("tools", "list", "--url", url)
        assert refused.status == 1
        assert os.path.join(elsewhere.environment["TABANE_HOME"], "token") in refused.err
        wrong = me.run("tools", "list", "--url", url, environment={"TABANE_TOKEN": "wrong"})
        assert wrong.status == 1
        assert "401" in wrong.err or "token" in wrong.err
    assert not (Path(me.environment["TABANE_HOME"]) / "hub.sock").exists()


def test_an_address_where_nobody_is_is_an_error_that_says_so(tmp_path: Path) -> None:
    me = home_in(tmp_path / "me")
    url = f"ws://127.0.0.1:{reserved_port(me)}/"
    outcome = me.run("posts", "stats", "--url", url)
    assert outcome.status == 1
    assert url.rstrip("/") in outcome.err
