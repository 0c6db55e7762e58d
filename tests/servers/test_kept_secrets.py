"""Secrets that move into the store: their names, and what remains if the move fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabane.errors import BadArguments, ConfigurationError
from tabane.servers.secret_store import SecretNaming, SecretStore, keeping, moves_of


def naming(
    kept: dict[str, str] | None = None, environ: dict[str, str] | None = None, referred: tuple[str, ...] = ()
) -> SecretNaming:
    return SecretNaming((kept or {}).get, environ or {}, referred)


def test_a_free_name_is_used_as_it_is() -> None:
    assert naming().name_for("API_KEY", "docs", "a") == "API_KEY"


def test_the_same_value_uses_the_same_secret() -> None:
    assert naming({"API_KEY": "a"}).name_for("API_KEY", "docs", "a") == "API_KEY"
    names = naming()
    assert [names.name_for("API_KEY", server, "a") for server in ("one", "two")] == ["API_KEY", "API_KEY"]


def test_another_value_gets_the_name_of_the_server_and_then_a_number() -> None:
    kept = {"API_KEY": "a", "API_KEY_MY_DOCS": "b"}
    names = naming(kept)
    assert names.name_for("API_KEY", "my-docs", "c") == "API_KEY_MY_DOCS_2"
    assert names.name_for("API_KEY", "my-docs", "d") == "API_KEY_MY_DOCS_3"
    assert names.name_for("API_KEY", "日本語", "e") == "API_KEY_2"


def test_a_name_that_means_something_else_is_not_taken() -> None:
    assert naming(environ={"API_KEY": "other"}).name_for("API_KEY", "docs", "a") == "API_KEY_DOCS"
    assert naming(referred=("API_KEY",)).name_for("API_KEY", "docs", "a") == "API_KEY_DOCS"
    # the reader would use it for pages, and the hub for its own requests
    assert naming().name_for("GITHUB_TOKEN", "gh", "a") == "GITHUB_TOKEN_GH"
    assert naming().name_for("HTTPS_PROXY", "gh", "a") == "HTTPS_PROXY_GH"


def test_a_value_that_is_not_known_yet_never_shares_a_name() -> None:
    names = naming({"API_KEY": "a"})
    assert names.name_for("API_KEY", "docs", None) == "API_KEY_DOCS"
    assert names.name_for("API_KEY", "docs", None) == "API_KEY_DOCS_2"


def test_several_servers_move_at_once() -> None:
    definitions = {
        "one": {"command": "x", "env": {"API_KEY": "k-1234"}},
        "two": {"command": "y", "env": {"API_KEY": "k-5678"}},
        "three": {"command": "z", "env": {"API_KEY": "k-1234"}},
    }
    moves = moves_of(definitions, naming())
    assert [each["env"]["API_KEY"] for each in moves.definitions.values()] == [
        "${API_KEY}",
        "${API_KEY_TWO}",
        "${API_KEY}",
    ]
    assert moves.values == {"API_KEY": "k-1234", "API_KEY_TWO": "k-5678"}
    assert "k-1234" not in repr(moves.moves)


def test_what_a_failed_move_kept_is_removed_and_nothing_else(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, keyring=False)
    store.keep("OLD", "a")
    kept = []

    def work() -> None:
        with keeping(store, {"OLD": "a", "NEW": "b"}):
            kept.append(store.get("NEW"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert kept == ["b"]
    assert store.places() == {"OLD": "secrets.env"}


def test_a_secret_of_another_program_is_never_replaced(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, keyring=False)
    store.keep("TAKEN", "a")
    with pytest.raises(ConfigurationError, match="TAKEN"), keeping(store, {"NEW": "b", "TAKEN": "c"}):
        pytest.fail("it has begun")
    assert (store.get("TAKEN"), store.get("NEW")) == ("a", None)


def test_a_value_that_cannot_be_kept_leaves_nothing(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, keyring=False)
    with pytest.raises(BadArguments), keeping(store, {"NEW": "b", "BAD": "a\0b"}):
        pytest.fail("it has begun")
    assert store.places() == {}
