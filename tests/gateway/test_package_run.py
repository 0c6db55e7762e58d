"""Commands that download a package: what is recognized, and what is left alone."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.gateway.launchers import launcher_options as tables
from tabane.gateway.launchers.package_run import package_run

# command line, kind, package, program of the package, its arguments
RUNS = [
    ("npx foo", "npx", "foo", "foo", []),
    ("npx -y @a/foo@1.2.3 /data --all", "npx", "@a/foo@1.2.3", "@a/foo@1.2.3", ["/data", "--all"]),
    ("/usr/local/bin/npx --yes foo -y", "npx", "foo", "foo", ["-y"]),
    (r"'C:\Program Files\nodejs\npx.cmd' -y foo", "npx", "foo", "foo", []),
    ("npx -y -p foo bar --x", "npx", "foo", "bar", ["--x"]),
    ("npx --package=foo --package=more -- bar x", "npx", "foo", "bar", ["x"]),
    ("npx --registry https://r.example/ -y foo", "npx", "foo", "foo", []),
    ("npx --no-fund --quiet foo", "npx", "foo", "foo", []),
    ("npx --unknown value foo", "npx", "foo", "foo", []),
    ("npx -y -p foo -c 'bar --x | cat'", "npx", "foo", "", []),
    ("npm exec -y foo -- --flag", "npx", "foo", "foo", ["--flag"]),
    ("npm --prefix /x exec --package=foo -- bar --flag", "npx", "foo", "bar", ["--flag"]),
    ("npm x foo", "npx", "foo", "foo", []),
    ("uvx foo", "uvx", "foo", "foo", []),
    ("uvx --python 3.12 --with a --with=b foo@2 --local-timezone=UTC", "uvx", "foo@2", "foo@2",
     ["--local-timezone=UTC"]),
    ("uvx -q -p3.12 --from git+https://h.example/r foo x", "uvx", "git+https://h.example/r", "foo", ["x"]),
    ("uvx --index https://i.example/ -U foo", "uvx", "foo", "foo", []),
    ("uv tool run --from foo bar", "uvx", "foo", "bar", []),
    ("uv --offline tool run foo", "uvx", "foo", "foo", []),
    ("pipx run foo --x", "pipx", "foo", "foo", ["--x"]),
    ("pipx run --spec 'foo==1' --python python3 bar", "pipx", "foo==1", "bar", []),
    ("bunx foo@latest --x", "bunx", "foo@latest", "foo@latest", ["--x"]),
    ("bunx --bun -p foo bar", "bunx", "foo", "bar", []),
    ("bun x foo", "bunx", "foo", "foo", []),
    ("docker run -i --rm mcp/time", "docker", "mcp/time", "mcp/time", []),
    ("docker run -it -eA=b -e B --env=C=d -v /a:/b --mount type=bind,src=/a,dst=/b img:1 x --rm", "docker",
     "img:1", "img:1", ["x", "--rm"]),
    ("docker --context far container run -i --init img", "docker", "img", "img", []),
    ("docker run --network host -ip 80:80 ghcr.io/a/b@sha256:00", "docker", "ghcr.io/a/b@sha256:00",
     "ghcr.io/a/b@sha256:00", []),
    ("podman run -i --rm --tls-verify=false --replace img", "podman", "img", "img", []),
    ("podman --log-level error run --userns keep-id img", "podman", "img", "img", []),
    ("deno run -A npm:foo@1 x", "deno", "npm:foo@1", "npm:foo@1", ["x"]),
    ("deno run --allow-net=a --allow-env -RW=x --config d.json jsr:@a/b", "deno", "jsr:@a/b", "jsr:@a/b", []),
    ("deno run -q https://d.example/m.ts", "deno", "https://d.example/m.ts", "https://d.example/m.ts", []),
]  # fmt: skip

OTHERS = [
    "", "node server.js", "python -m server", "env A=b npx foo", "sh -c 'npx -y foo'", "npx", "npx -y",
    "npx --version", "npx -c 'foo'", "npx -p foo", "npx -p", "npm run start", "npm install foo", "npm",
    "uv run server.py", "uv tool install foo", "uv tool", "uvx", "uvx --from foo", "uvx --no-such foo",
    "uvx --help", "pipx install foo", "pipx run", "pipx run --path ./x.py", "bun run x.ts", "bun x",
    "docker ps", "docker run", "docker run --rm", "docker run --no-such img", "docker exec -i c x",
    "docker compose run img", "podman run --rootfs /x sh", "deno run server.ts", "deno task start", "deno",
    "my-npx foo", "npx ''",
]  # fmt: skip


@pytest.mark.parametrize(("line", "runner", "package", "executable", "arguments"), RUNS)
def test_a_command_that_downloads_is_recognized(
    line: str, runner: str, package: str, executable: str, arguments: list[str]
) -> None:
    command, *args = shlex.split(line)
    run = package_run(command, args)
    assert run is not None
    assert (run.runner, run.program) == (runner, command)
    assert (run.package, run.executable, list(run.arguments)) == (package, executable, arguments)
    assert tuple(args[: len(run.subcommand) + len(run.options)]) == (*run.subcommand, *run.options)


@pytest.mark.parametrize("line", OTHERS)
def test_other_commands_are_left_alone(line: str) -> None:
    command, *args = shlex.split(line) or [""]
    assert package_run(command, args) is None


def test_options_are_read_by_name() -> None:
    run = package_run("uvx", ["--index=a", "-p", "3.12", "--index", "b", "-q", "foo", "--index", "c"])
    assert run is not None
    assert (run.option("index"), run.option("python", "p"), run.option("q", "quiet")) == ("b", "3.12", "")
    assert run.option("from") is None


WORDS = st.sampled_from(
    ["run", "exec", "x", "tool", "container", "--", "-", "-y", "-p", "-it", "-e", "--from", "--package=", ""]
)
PROGRAMS = st.sampled_from(
    ["npx", "npm", "uvx", "uv", "pipx", "bunx", "bun", "docker", "podman", "deno", "/x/NPX.CMD", ""]
)


@given(PROGRAMS | st.text(), st.lists(WORDS | st.text(max_size=12), max_size=8))
def test_any_command_is_recognized_or_left_alone(command: str, args: list[str]) -> None:
    run = package_run(command, args)
    if run is not None:
        assert run.package.strip()
        assert run.option("no such option") is None
        assert [*run.subcommand, *run.options] == args[: len(run.subcommand) + len(run.options)]
        assert len(run.arguments) < len(args)


@pytest.mark.parametrize(
    "table", [tables.NPM, tables.UV, tables.PIPX, tables.BUN, tables.DENO, tables.DOCKER, tables.PODMAN]
)
def test_no_option_both_takes_a_value_and_takes_none(table: tables.OptionTable) -> None:
    assert not table.values & table.switches
