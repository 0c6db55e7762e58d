"""Commands that download a package and run it, recognized from their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from tabane.upstreams.launching import launcher_options as tables
from tabane.upstreams.launching.launcher_options import OptionTable

Runner = Literal["npx", "uvx", "pipx", "bunx", "docker", "podman", "deno"]
"""Kind of a launcher. pnpm dlx and yarn dlx are not recognized: they start like any other command."""

REMOTE_MODULES = ("npm:", "jsr:", "https://", "http://")
"""Beginnings of what deno downloads. Any other argument is a file or a task."""


class PackageRun(Struct, frozen=True):
    """A command that downloads a package before it runs it.

    ``runner`` is its kind, ``program`` the command as configured, ``subcommand`` the words that make it a
    launcher (``exec`` of ``npm exec``, with options between them), ``options`` the launcher's own options
    before the program of the package, ``package`` the package as the launcher is given it (with a version
    if one is written), ``others`` further packages, ``executable`` the program of the package as it is
    named to the launcher, and ``arguments`` what that program is given. ``executable`` is the package
    itself unless an option named that, and empty if a shell command runs instead (``npx -c``).
    """

    runner: Runner
    program: str
    options: tuple[str, ...]
    package: str
    arguments: tuple[str, ...]
    subcommand: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    executable: str = ""

    def option(self, *names: str) -> str | None:
        """Return the value of an option, the last one given; ``""`` for a switch, None if it is absent."""
        given = _parsed(self.options, _TABLES[self.runner])
        values = [value for name, value in given.named if name in names] if given else []
        return values[-1] if values else None


class _Options(Struct, frozen=True):
    """Options at the begin of arguments: ``named`` with their values, and how many arguments they are."""

    named: tuple[tuple[str, str], ...]
    length: int

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.named if name in names and value]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.named)


def package_run(command: str, args: Sequence[str]) -> PackageRun | None:
    """Return what a command downloads and runs; None for other commands, and if it is not understood."""
    recognize = _PROGRAMS.get(_program_name(command))
    return recognize(command, tuple(args)) if recognize else None


def _program_name(command: str) -> str:
    name = re.split(r"[/\\]", command)[-1].lower()
    return re.sub(r"\.(cmd|exe|bat|ps1)$", "", name)


def _parsed(args: Sequence[str], table: OptionTable) -> _Options | None:
    """Parse options up to the first argument that is none, or behind ``--``; None if not understood."""
    named: list[tuple[str, str]] = []
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        if args[at] == "--":
            return _Options(tuple(named), at + 1)
        taken = _one_option(args, at, table)
        if taken is None:
            return None
        options, at = taken
        named += options
    return _Options(tuple(named), at)


def _one_option(args: Sequence[str], at: int, table: OptionTable) -> tuple[list[tuple[str, str]], int] | None:
    """Parse the option at that index. Return it with its value, and the index behind both."""
    word = args[at]
    if table.clusters and not word.startswith("--") and len(word) > 2:
        return _cluster(args, at, table)
    name, equals, value = word.lstrip("-").partition("=")
    if equals:
        return [(name, value)], at + 1
    following = args[at + 1] if at + 1 < len(args) else None
    if name in table.values:
        return None if following is None else ([(name, following)], at + 2)
    if name in table.switches or table.unknown == "switch":
        return [(name, "")], at + 1
    if table.unknown == "npx":
        with_value = following is not None and not following.startswith("-") and not name.startswith("no-")
        return [(name, following or "" if with_value else "")], at + 1 + with_value
    return None


def _cluster(args: Sequence[str], at: int, table: OptionTable) -> tuple[list[tuple[str, str]], int] | None:
    """Parse short options joined to one argument: ``-it``, ``-eNAME=value``, ``-ite NAME=value``."""
    letters, options = args[at][1:], list[tuple[str, str]]()
    for place, letter in enumerate(letters):
        rest = letters[place + 1 :]
        if letter in table.values:
            if rest:
                return [*options, (letter, rest.removeprefix("="))], at + 1
            return ([*options, (letter, args[at + 1])], at + 2) if at + 1 < len(args) else None
        if letter not in table.switches and table.unknown != "switch":
            return None
        options.append((letter, ""))
        if rest.startswith("="):
            break
    return options, at + 1


def _behind(words: Sequence[Sequence[str]], args: tuple[str, ...], table: OptionTable) -> int | None:
    """Return the index behind a subcommand, which may have options before each word; None if another."""
    at = 0
    for expected in words:
        options = _parsed(args[at:], table)
        if options is None:
            return None
        at += options.length
        if at >= len(args) or args[at] not in expected:
            return None
        at += 1
    return at


def _npm(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("exec", "x")], args, tables.NPM)
    return None if at is None else _npx(command, args[at:], args[:at])


def _npx(command: str, args: tuple[str, ...], subcommand: tuple[str, ...] = ()) -> PackageRun | None:
    options = _parsed(args, tables.NPM)
    if options is None or options.has("version", "v", "help", "h"):
        return None
    packages, rest = options.values("package", "p"), list(args[options.length :])
    # npm exec reads options behind the package too; what follows "--" is the program's.
    if subcommand and len(rest) > 1 and rest[1] == "--":
        del rest[1]
    return _from_option_or_first("npx", command, subcommand, args, options, packages, rest, "call", "c")


def _uv(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("tool",), ("run",)], args, tables.UV)
    return None if at is None else _uvx(command, args[at:], args[:at])


def _uvx(command: str, args: tuple[str, ...], subcommand: tuple[str, ...] = ()) -> PackageRun | None:
    options = _parsed(args, tables.UV)
    if options is None or options.has("help", "h", "version", "V"):
        return None
    return _from_option_or_first(
        "uvx", command, subcommand, args, options, options.values("from")[-1:], list(args[options.length :])
    )


def _pipx(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("run",)], args, tables.PIPX)
    options = None if at is None else _parsed(args[at:], tables.PIPX)
    # With --path the program is a file that is there already.
    if at is None or options is None or options.has("path", "pypackages", "help", "h"):
        return None
    rest = list(args[at + options.length :])
    return _from_option_or_first(
        "pipx", command, args[:at], args[at:], options, options.values("spec")[-1:], rest
    )


def _bun(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("x",)], args, tables.BUN)
    return None if at is None else _bunx(command, args[at:], args[:at])


def _bunx(command: str, args: tuple[str, ...], subcommand: tuple[str, ...] = ()) -> PackageRun | None:
    options = _parsed(args, tables.BUN)
    if options is None:
        return None
    packages, rest = options.values("package", "p")[-1:], list(args[options.length :])
    return _from_option_or_first("bunx", command, subcommand, args, options, packages, rest)


def _deno(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("run",)], args, tables.DENO)
    options = None if at is None else _parsed(args[at:], tables.DENO)
    if at is None or options is None:
        return None
    rest = list(args[at + options.length :])
    if not rest or not rest[0].startswith(REMOTE_MODULES):
        return None
    return _from_option_or_first("deno", command, args[:at], args[at:], options, [], rest)


def _docker(command: str, args: tuple[str, ...]) -> PackageRun | None:
    return _container("docker", command, args, tables.DOCKER_ITSELF)


def _podman(command: str, args: tuple[str, ...]) -> PackageRun | None:
    return _container("podman", command, args, tables.PODMAN_ITSELF)


def _container(runner: Runner, command: str, args: tuple[str, ...], itself: OptionTable) -> PackageRun | None:
    at = _behind([("run",)], args, itself) or _behind([("container",), ("run",)], args, itself)
    options = None if at is None else _parsed(args[at:], _TABLES[runner])
    # With --rootfs podman runs a folder.
    if at is None or options is None or options.has("rootfs", "help"):
        return None
    rest = list(args[at + options.length :])
    return _from_option_or_first(runner, command, args[:at], args[at:], options, [], rest)


def _from_option_or_first(
    runner: Runner,
    command: str,
    subcommand: tuple[str, ...],
    args: tuple[str, ...],
    options: _Options,
    packages: list[str],
    rest: list[str],
    *shell_commands: str,
) -> PackageRun | None:
    """Return the run whose package an option names, or else the first argument that is no option."""
    shell = options.has(*shell_commands)
    if (not packages and (shell or not rest)) or (packages and not rest and not shell):
        return None
    package = packages[0] if packages else rest[0]
    if not package.strip():
        return None
    return PackageRun(
        runner=runner,
        program=command,
        options=args[: options.length],
        package=package,
        arguments=() if shell else tuple(rest[1:]),
        subcommand=subcommand,
        others=tuple(packages[1:]),
        executable="" if shell else rest[0],
    )


_TABLES: dict[Runner, OptionTable] = {
    "npx": tables.NPM,
    "uvx": tables.UV,
    "pipx": tables.PIPX,
    "bunx": tables.BUN,
    "docker": tables.DOCKER,
    "podman": tables.PODMAN,
    "deno": tables.DENO,
}

_PROGRAMS: dict[str, Callable[[str, tuple[str, ...]], PackageRun | None]] = {
    "npx": _npx,
    "npm": _npm,
    "uvx": _uvx,
    "uv": _uv,
    "pipx": _pipx,
    "bunx": _bunx,
    "bun": _bun,
    "deno": _deno,
    "docker": _docker,
    "podman": _podman,
}
