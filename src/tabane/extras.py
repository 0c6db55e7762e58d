"""The way this copy of Tabane was installed, and the command that adds optional packages to it.

The files that installers leave say it: `uv-receipt.toml` of uv's tools, `pipx_metadata.json` of pipx, and
`direct_url.json` of a package that did not come from an index
(https://packaging.python.org/en/latest/specifications/direct-url/). Everything is read on first use.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, structs

Installer = Literal["uv tool", "uvx", "pipx", "checkout", "container", "venv", "system"]

_NAME = "tabane"
_UVX = ("archive-v0", "builds-v0", "environments-v2")
"""Folders of uv's cache with the environments that `uvx` runs programs in."""

_IMAGE = "container-image"
"""The file that the Dockerfile leaves in the environment of its image."""


class InstalledCopy(Struct, frozen=True):
    """An installation of Tabane. ``source`` is what it was made of: "" for an index, else a URL or path.

    ``extras`` are those that it was installed with, as far as that is known, and ``beside`` the further
    packages that a reinstallation must name again. ``version`` is what was asked for, such as ``==0.7.0``.
    ``pip`` is whether its Python has pip. ``options`` are those of the installer.
    ``prefix`` is the folder of the environment.
    """

    installer: Installer
    python: str
    source: str = ""
    extras: frozenset[str] = frozenset()
    beside: tuple[str, ...] = ()
    version: str = ""
    pip: bool = True
    options: tuple[str, ...] = ()
    prefix: str = ""

    def with_extra(self, *names: str) -> str:
        """Return the command for a shell that adds the extras and keeps those that are there."""
        extras = sorted(self.extras | set(names))
        match self.installer:
            case "uv tool":
                return _line("uv", "tool", "install", *self._again(), self._spec(extras))
            case "uvx":
                return _line("uvx", "--from", self._spec(extras), _NAME)
            case "pipx":
                spec = self._spec(extras)
                if os.path.isabs(self.source):  # pipx takes a path with extras, but no file after an @
                    spec = f"{self.source}[{','.join(extras)}]"
                return _line("pipx", "install", "--force", *self.options, spec)
            case "checkout":
                named = list(extras)
                if Path(self.source, "uv.lock").exists() and self.prefix == str(Path(self.source, ".venv")):
                    flags = [part for name in named for part in ("--extra", name)]
                    return _line("uv", "sync", "--inexact", "--project", self.source, *flags)
                return _line(*self._pip_install(), "-e", f"{self.source}[{','.join(named)}]")
            case _:
                return _line(*self._pip_install(), self._spec(extras))

    def with_package(self, package: str) -> str:
        """Return the command for a shell that installs another package beside Tabane."""
        match self.installer:
            case "uv tool":
                beside = self.beside if package in self.beside else (*self.beside, package)
                again = structs.replace(self, beside=beside)._again()
                return _line("uv", "tool", "install", *again, self._spec(sorted(self.extras)))
            case "uvx":
                return _line("uvx", "--with", package, "--from", self._spec(sorted(self.extras)), _NAME)
            case "pipx":
                return _line("pipx", "inject", _NAME, package)
            case _:
                return _line(*self._pip_install(), package)

    def update(self) -> str:
        """Return the command for a shell that installs the newest version."""
        return " && ".join(_line(*step) for step in self.update_steps())

    def update_steps(self) -> tuple[tuple[str, ...], ...]:
        """Return the commands, one after the other, that install the newest version."""
        folder = os.path.isabs(self.source) and Path(self.source).is_dir()
        pull = [("git", "-C", self.source, "pull")] if folder and Path(self.source, ".git").exists() else []
        named, spec = self._named(self.extras), self._spec(self.extras)
        # an upgrade keeps to the version or file that was named; a new installation does not
        fixed = bool(self.version) or (os.path.isabs(self.source) and not folder)
        match self.installer:
            case "uv tool" if folder:
                return *pull, ("uv", "tool", "install", "--reinstall", *self._again(), spec)
            case "uv tool" if fixed:
                return (("uv", "tool", "install", "--upgrade", *self._again(), named),)
            case "uv tool":
                return (("uv", "tool", "upgrade", _NAME),)
            case "uvx":
                return (("uvx", f"{_NAME}@latest"),)
            case "pipx" if folder or fixed:
                what = self.source + named.removeprefix(_NAME) if folder else named
                return *pull, ("pipx", "install", "--force", *self.options, what)
            case "pipx":
                return (("pipx", "upgrade", _NAME),)
            case "checkout":
                make = [("make", "-C", self.source, "env")] if Path(self.source, "Makefile").exists() else []
                return ("git", "-C", self.source, "pull"), *make
            case "container":
                return (("docker", "build", "--pull", "--tag", _NAME, "."),)
            case _:
                return *pull, (*self._pip_install(), "--upgrade", self.source if folder else named)

    @property
    def updates_itself(self) -> bool:
        """Whether `tabane update` may run that command: it changes nothing but an environment of Tabane."""
        return self.installer in ("uv tool", "pipx", "venv") and not os.path.isdir(self.source)

    def _again(self) -> list[str]:
        return [*self.options, *(part for package in self.beside for part in ("--with", package))]

    @staticmethod
    def _named(extras: Iterable[str]) -> str:
        named = ",".join(sorted(extras))
        return f"{_NAME}[{named}]" if named else _NAME

    def _spec(self, extras: Iterable[str]) -> str:
        name = self._named(extras)
        if self.source:
            source = Path(self.source).as_uri() if os.path.isabs(self.source) else self.source
            return f"{name} @ {source}"
        return name + self.version

    def _pip_install(self) -> tuple[str, ...]:
        if self.installer == "system":
            return self.python, "-m", "pip", "install", "--user"
        if self.pip:
            return self.python, "-m", "pip", "install"
        return "uv", "pip", "install", "--python", self.python


@cache
def this_copy() -> InstalledCopy:
    """Return the copy that runs."""
    return copy_at(sys.prefix, sys.executable, _direct_url(), in_venv=sys.prefix != sys.base_prefix)


def extra_command(*names: str) -> str:
    """Return the command for a shell that adds these extras to the copy that runs."""
    return this_copy().with_extra(*names)


def copy_at(prefix: str, python: str, direct: dict[str, Any], *, in_venv: bool) -> InstalledCopy:
    """Return the copy in the environment at ``prefix``. ``direct`` is its `direct_url.json`, {} if none."""
    folder = Path(prefix)
    url = str(direct.get("url", ""))
    if url.startswith("file:"):
        source = _path_of(url)
    else:
        vcs = direct.get("vcs_info")
        source = f"{vcs.get('vcs', 'git')}+{url}" if isinstance(vcs, dict) else url
    from importlib.util import find_spec  # needed for hints alone, as urllib below

    pip = find_spec("pip") is not None
    if (folder / _IMAGE).exists():
        return InstalledCopy("container", python)
    receipt = _requirements(folder / "uv-receipt.toml")
    if receipt is not None:
        return _of_receipt(receipt, python)
    metadata = _json(folder / "pipx_metadata.json")
    if metadata:
        return _of_pipx(metadata, python)
    if any(part in _UVX for part in folder.parts):
        return InstalledCopy("uvx", python, source)
    if direct.get("dir_info", {}).get("editable"):
        return InstalledCopy("checkout", python, source, pip=pip, prefix=prefix)
    return InstalledCopy("venv" if in_venv else "system", python, source, pip=pip)


def _of_receipt(tool: dict[str, Any], python: str) -> InstalledCopy:
    ours: dict[str, Any] = {}
    beside = []
    for each in tool.get("requirements", []):
        if each.get("name") == _NAME:
            ours = each
        else:
            beside.append(_requirement(each))
    given = tool.get("python")
    return InstalledCopy(
        "uv tool",
        python,
        _where(ours),
        frozenset(ours.get("extras", ())),
        tuple(beside),
        str(ours.get("specifier", "")),
        options=("--python", str(given)) if given else (),
    )


def _of_pipx(metadata: dict[str, Any], python: str) -> InstalledCopy:
    main = metadata.get("main_package", {})
    text = str(main.get("package_or_url") or _NAME)
    found = _BY_NAME.fullmatch(text) or _BY_PATH.fullmatch(text)
    parts = found.groupdict() if found else {}
    source = parts.get("source") or ""
    if source.startswith("file:"):
        source = _path_of(source)
    extras = frozenset(part.strip() for part in (parts.get("extras") or "").split(",") if part.strip())
    given = shlex.join(str(part) for part in main.get("pip_args") or ())
    options = (f"--pip-args={given}",) if given else ()
    return InstalledCopy("pipx", python, source, extras, version=parts.get("version") or "", options=options)


_BY_NAME = re.compile(
    r"tabane\s*(?:\[(?P<extras>[^\]]*)\])?\s*(?:@\s*(?P<source>.+)|(?P<version>[=<>!~].*))?"
)
_BY_PATH = re.compile(r"(?P<source>.+?)(?:\[(?P<extras>[^\]]*)\])?")


def _where(requirement: dict[str, Any]) -> str:
    for key in ("path", "directory", "editable", "url", "git"):
        if found := requirement.get(key):
            return f"git+{found}" if key == "git" else str(found)
    return ""


def _requirement(entry: dict[str, Any]) -> str:
    extras = ",".join(entry.get("extras", ()))
    name = str(entry.get("name", "")) + (f"[{extras}]" if extras else "")
    source = _where(entry)
    if source:
        return f"{name} @ {Path(source).as_uri() if os.path.isabs(source) else source}"
    return name + str(entry.get("specifier", ""))


def _direct_url() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        written = distribution(_NAME).read_text("direct_url.json")
        found = json.loads(written) if written else {}
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _requirements(path: Path) -> dict[str, Any] | None:
    import tomllib

    try:
        tool = tomllib.loads(path.read_text("utf-8")).get("tool")
    except (OSError, ValueError):
        return None
    return tool if isinstance(tool, dict) else None


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _line(*words: str) -> str:
    return shlex.join(words)


def _path_of(url: str) -> str:
    """Return the path of a URL that begins with ``file:``."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return url2pathname(urlsplit(url).path)
