"""`tabane servers find` and `servers add --from-registry`, with a local registry of the documented API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import CHILD, Home, hub
from tests.harness.mcp_registry import Answer, LocalRegistry, entry, npm

KEY = {"name": "WEATHER_KEY", "description": "Key of the service", "isRequired": True, "isSecret": True}


@pytest.fixture
def registry(home: Home) -> Iterator[LocalRegistry]:
    entries = [
        entry(
            "io.github.acme/weather",
            version="1.2.3",
            title="Weather",
            description="Weather of the world",
            repository={"url": "https://github.com/acme/weather", "source": "github"},
            packages=[npm("@acme/weather", "1.2.3", environmentVariables=[KEY])],
            remotes=[{"type": "streamable-http", "url": "https://weather.example/mcp"}],
        ),
        entry("io.github.acme/gone", status="deleted", packages=[npm()]),
        entry(
            "io.github.acme/old",
            status="deprecated",
            status_message="Use weather.",
            packages=[npm("old-mcp")],
        ),
    ]
    with LocalRegistry(entries).running() as registry:
        home.environment["TABANE_REGISTRY_URL"] = registry.url
        yield registry


@pytest.fixture
def runnable(home: Home, tmp_path: Path) -> Path:
    """Return a folder with an npx that runs the child of the tests, and writes down what it was given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    said = tmp_path / "npx.json"
    script = folder / "npx"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"given = dict(args=sys.argv[1:], key=os.environ.get('WEATHER_KEY'))\n"
        f"open({str(said)!r}, 'w').write(json.dumps(given))\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, {str(CHILD)!r}, '--name', 'Weather'])\n"
    )
    script.chmod(0o755)
    home.environment["PATH"] = f"{folder}:{home.environment['PATH']}"
    return said


def test_servers_are_listed_with_what_they_run_and_need(home: Home, registry: LocalRegistry) -> None:
    found = home.run("servers", "find", "acme").succeeded
    assert found.rows[0] == [
        "io.github.acme/weather",
        "1.2.3",
        "npx, URL",
        "WEATHER_KEY",
        "Weather of the world",
    ]
    assert found.rows[1][0] == "io.github.acme/old"
    assert "deprecated" in found.rows[1][4]
    assert len(found.rows) == 2
    assert "--from-registry" in found.err


def test_a_program_gets_definitions(home: Home, registry: LocalRegistry) -> None:
    (found,) = home.json("servers", "find", "weather")["results"][:1]
    assert (found["name"], found["status"], found["repository"]) == (
        "io.github.acme/weather",
        "active",
        "https://github.com/acme/weather",
    )
    package, remote = found["runs"]
    assert package["definition"] == {
        "command": "npx",
        "args": ["-y", "@acme/weather@1.2.3"],
        "env": {"WEATHER_KEY": "${WEATHER_KEY}"},
    }
    assert remote["definition"] == {"type": "http", "url": "https://weather.example/mcp"}


def test_the_whole_name_shows_one_server(home: Home, registry: LocalRegistry) -> None:
    shown = home.run("servers", "find", "io.github.acme/weather").succeeded.out
    assert "npx -y @acme/weather@1.2.3" in shown
    assert "--env WEATHER_KEY (required, secret): Key of the service" in shown
    assert "https://github.com/acme/weather" in shown


def test_pages_follow_each_other(home: Home, registry: LocalRegistry) -> None:
    registry.entries[:] = [entry(f"io.github.acme/s{number:02}", packages=[npm()]) for number in range(7)]
    first = home.json("servers", "find", "acme", "--limit", "3")
    second = home.json("servers", "find", "acme", "--limit", "3", "--cursor", first["next"])
    names = [row["name"][-3:] for row in (*first["results"], *second["results"])]
    assert names == ["s00", "s01", "s02", "s03", "s04", "s05"]


def test_words_that_are_not_beside_each_other_are_found(home: Home, registry: LocalRegistry) -> None:
    found = home.json("servers", "find", "weather", "acme")["results"]
    assert found[0]["name"] == "io.github.acme/weather"


def test_nothing_found_is_said(home: Home, registry: LocalRegistry) -> None:
    found = home.run("servers", "find", "nosuch").succeeded
    assert not found.out
    assert "nosuch" in found.err


def test_answers_are_kept_for_a_while_and_for_when_the_registry_is_away(
    home: Home, registry: LocalRegistry
) -> None:
    home.json("servers", "find", "weather")
    asked = len(registry.requests)
    home.json("servers", "find", "weather")
    assert len(registry.requests) == asked
    _age(home, 3_600)
    home.json("servers", "find", "weather")
    assert registry.requests[-1][2]["if-none-match"]
    _age(home, 7_200)
    registry.instead = lambda path, query: Answer(b"", 503)
    found = home.run("servers", "find", "weather", "--json").succeeded
    assert found.json["results"][0]["name"] == "io.github.acme/weather"
    assert "2 hours old" in found.err


def test_a_registry_that_is_away_is_named(home: Home) -> None:
    home.environment["TABANE_REGISTRY_URL"] = "http://127.0.0.1:9"
    found = home.run("servers", "find", "x")
    assert found.status == 1
    assert "127.0.0.1:9" in found.err


@pytest.mark.parametrize(
    ("address", "words"), [("http://example.com", "https://"), ("ftp://x", "https://"), ("off", "turned off")]
)
def test_an_address_that_is_not_safe_is_refused(home: Home, address: str, words: str) -> None:
    home.environment["TABANE_REGISTRY_URL"] = address
    found = home.run("servers", "find", "x")
    assert found.status != 0
    assert words in found.err


def test_a_server_is_added_with_a_given_value(home: Home, registry: LocalRegistry, runnable: Path) -> None:
    added = home.run(
        *("servers", "add", "--from-registry", "io.github.acme/weather", "--env", "WEATHER_KEY"),
        environment={"WEATHER_KEY": "k-123"},
    ).succeeded
    assert "Weather works" in added.out
    assert home.read_servers() == {
        "weather": {
            "command": "npx",
            "args": ["-y", "@acme/weather@1.2.3"],
            "env": {"WEATHER_KEY": "${WEATHER_KEY}"},
            "description": "Weather of the world",
        }
    }
    assert json.loads(runnable.read_text()) == {
        "args": ["--prefer-offline", "-y", "@acme/weather@1.2.3"],
        "key": "k-123",
    }


def test_what_is_missing_is_listed_as_options(home: Home, registry: LocalRegistry, runnable: Path) -> None:
    added = home.run("servers", "add", "w", "--from-registry", "io.github.acme/weather")
    assert added.status == 2
    assert "--env WEATHER_KEY" in added.err
    assert not home.servers.exists()
    assert not runnable.exists()


def test_a_name_and_a_kind_can_be_chosen(home: Home, registry: LocalRegistry) -> None:
    added = home.run(
        *("servers", "add", "w2", "--from-registry", "io.github.acme/weather@1.2.3", "--using", "http"),
        *("--no-try", "--tag", "sky"),
    )
    assert added.status == 0, added.err
    assert home.read_servers()["w2"] == {
        "type": "http",
        "url": "https://weather.example/mcp",
        "description": "Weather of the world",
        "tags": ["sky"],
    }


def test_a_person_is_asked_for_values_and_wrong_ones_are_asked_again(
    home: Home, registry: LocalRegistry, runnable: Path
) -> None:
    units = {"name": "UNITS", "isRequired": True, "choices": ["metric", "imperial"], "default": "metric"}
    days = {"type": "named", "name": "--days", "isRequired": True, "format": "number"}
    registry.entries[:] = [
        entry(
            "io.github.acme/weather",
            packages=[npm("weather-mcp", "2.0.0", environmentVariables=[units], packageArguments=[days])],
        )
    ]
    added = home.converse(
        "servers", "add", "--from-registry", "io.github.acme/weather", typed="many\n3\n\n\n"
    )
    assert added.status == 0, added.out
    assert json.loads(runnable.read_text())["args"][1:] == ["-y", "weather-mcp@2.0.0", "--days", "3"]
    assert home.read_servers()["weather"]["env"] == {"UNITS": "metric"}


def test_a_person_who_does_not_agree_runs_nothing(
    home: Home, registry: LocalRegistry, runnable: Path
) -> None:
    wanted = ("servers", "add", "--from-registry", "io.github.acme/old")
    refused = home.converse(*wanted, typed="n\n")
    assert refused.status == 0
    assert "npx -y old-mcp@1.0.0" in refused.out
    assert not runnable.exists()
    assert not home.servers.exists()
    assert home.converse(*wanted, "--yes").status == 0
    assert runnable.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--from-registry", "io.github.acme/wether"], "io.github.acme/weather"),
        (["--from-registry", "io.github.acme/gone"], "no server"),
        (["--from-registry", "weather"], "io.github.user/weather"),
        (["--from-registry", "io.github.acme/weather@9.9"], "9.9"),
        (["--from-registry", "io.github.acme/weather", "--using", "docker"], "npm, http"),
        (["--from-registry", "io.github.acme/weather", "--input", "NO=1"], "NO"),
        (["--from-registry", "io.github.acme/weather", "x", "uvx", "y"], "neither"),
        (["x", "--input", "A=1", "uvx", "y"], "--from-registry"),
        ([], "NAME"),
    ],
)
def test_what_cannot_be_added_is_refused_with_a_reason(
    home: Home, registry: LocalRegistry, options: list[str], words: str
) -> None:
    if "wether" in str(options):
        registry.entries.append(entry("io.github.acme/weather-wether", packages=[npm()]))
        words = "io.github.acme/weather-wether"
    added = home.run("servers", "add", *options)
    assert added.status == 2, added.err
    assert words in added.err
    assert not home.servers.exists()


def test_the_part_of_a_header_is_an_input(home: Home, registry: LocalRegistry) -> None:
    token = {"isRequired": True, "isSecret": True}
    header = {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": token}}
    remote = {"type": "streamable-http", "url": "https://weather.example/mcp", "headers": [header]}
    registry.entries[:] = [entry("io.github.acme/weather", remotes=[remote])]
    wanted = ("servers", "add", "--from-registry", "io.github.acme/weather", "--no-try")
    assert "--input token='${WEATHER_TOKEN}'" in home.run(*wanted).err
    assert home.run(*wanted, "--input", "token=${WEATHER_TOKEN}").status == 0
    assert home.read_servers()["weather"]["headers"] == {"Authorization": "Bearer ${WEATHER_TOKEN}"}


def test_a_secret_that_is_written_into_the_file_is_mentioned(home: Home, registry: LocalRegistry) -> None:
    wanted = ("servers", "add", "--from-registry", "io.github.acme/weather", "--no-try", "--plain")
    added = home.run(*wanted, "--env", "WEATHER_KEY=abc").succeeded
    assert home.read_servers()["weather"]["env"] == {"WEATHER_KEY": "abc"}
    assert "--plain" in added.err
    assert "abc" not in added.err


def test_a_taken_name_is_reported_before_values_are_asked_for(home: Home, registry: LocalRegistry) -> None:
    home.write_servers({"weather": home.child()})
    added = home.run("servers", "add", "--from-registry", "io.github.acme/weather")
    assert "already exists" in added.err
    assert not registry.requests


def test_a_deprecated_server_is_added_with_a_warning(home: Home, registry: LocalRegistry) -> None:
    added = home.run("servers", "add", "--from-registry", "io.github.acme/old", "--no-try").succeeded
    assert "deprecated: Use weather." in added.err


def test_the_hub_finds_the_same(home: Home, registry: LocalRegistry) -> None:
    with hub(home):
        found = home.json("rpc", "find_servers", "--params", '{"query": "weather"}')
    assert found["results"][0]["runs"][0]["definition"]["command"] == "npx"


def test_japanese_is_spoken(home: Home, registry: LocalRegistry) -> None:
    found = home.run("servers", "find", "weather", environment={"TABANE_LANG": "ja"}).succeeded
    assert "tabane servers add --from-registry" in found.err
    assert any("\u3040" <= character <= "\u30ff" for character in found.err)


def _age(home: Home, seconds: float) -> None:
    """Make the kept answers older."""
    for file in (home.tabane / "registry-cache").iterdir():
        head, _, body = file.read_bytes().partition(b"\n")
        kept = json.loads(head)
        file.write_bytes(json.dumps(kept | {"at": kept["at"] - seconds}).encode() + b"\n" + body)
