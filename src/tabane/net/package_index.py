"""Versions of a package in the index that its installer uses, by the simple repository API.

The answer is JSON (https://packaging.python.org/en/latest/specifications/simple-repository-api/), or HTML
from older indexes. Indexes are found as uv and pip find them: in the environment, then in their files.
"""

from __future__ import annotations

import configparser
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from tabane.build import newer
from tabane.errors import UpstreamError, UpstreamUnavailable
from tabane.messages import say
from tabane.net.fetching import HttpFetcher
from tabane.net.http_failures import HttpFailure, HttpUnreachable, ResponseTooLong
from tabane.net.routes import basic_authorization
from tabane.settings.files import home_folder
from tabane.wire.json import InvalidJson, decode

DEFAULT = "https://pypi.org/simple"
"""The index of uv and pip if nobody names another."""

PATIENCE = 15.0
"""Seconds for one answer, from the connection to the last byte."""

LARGEST_ANSWER = 8 << 20
_MOST_CONFIGURATION = 1 << 20
_NOT_FOUND = (404, 410)
_OK = 200
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.2, application/vnd.pypi.simple.v1+html;q=0.1"
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_LINK = re.compile(r"<a\s([^>]*)>\s*([^<\s]+)\s*</a>", re.IGNORECASE)
_LEAST_PYTHON = re.compile(r">=\s*(\d+)\.(\d+)")

Finder = Literal["uv", "pip"]


class PackageIndex(NamedTuple):
    """An index. ``name`` is uv's name for it, under which its credentials are in the environment."""

    url: str
    name: str = ""

    @property
    def host(self) -> str:
        """The index as it is shown: without credentials."""
        parts = urlsplit(self.url)
        return (parts.hostname or "") + (f":{parts.port}" if parts.port else "") + parts.path.rstrip("/")


class IndexUnavailable(UpstreamUnavailable):
    """An index cannot be asked."""


def indexes_of(finder: Finder, environment: Mapping[str, str], prefix: str = "") -> tuple[PackageIndex, ...]:
    """Return the indexes that an installer asks, in its order. ``prefix`` is the environment of pip."""
    found = _uv_indexes(environment) if finder == "uv" else _pip_indexes(environment, prefix)
    return tuple(dict.fromkeys(index for index in found if index.url.startswith(("http://", "https://"))))


def _uv_indexes(environment: Mapping[str, str]) -> Iterator[PackageIndex]:
    written = _uv_settings(environment)
    listed = [
        each for each in written.get("index", ()) if isinstance(each, dict) and not each.get("explicit")
    ]
    yield from _named(environment.get("UV_INDEX", ""))
    yield from _named(environment.get("UV_EXTRA_INDEX_URL", ""))
    yield from (_of_table(each) for each in listed if not each.get("default"))
    yield from (PackageIndex(str(url)) for url in written.get("extra-index-url", ()))
    for variable in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if environment.get(variable):
            yield from _named(environment[variable])
            return
    defaults = [_of_table(each) for each in listed if each.get("default")]
    yield from defaults or [PackageIndex(str(written.get("index-url") or DEFAULT))]


def _named(text: str) -> Iterator[PackageIndex]:
    """Yield indexes of a variable of uv: URLs with blanks between them, each perhaps after ``NAME=``."""
    for word in text.split():
        name, _, url = word.partition("=") if re.match(r"[\w.-]+=", word) else ("", "", word)
        yield PackageIndex(url, name)


def _of_table(entry: Mapping[str, Any]) -> PackageIndex:
    return PackageIndex(str(entry.get("url", "")), str(entry.get("name", "")))


def _uv_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return uv's settings of the user, else of the system. uv reads only one file of these for a tool."""
    if environment.get("UV_NO_CONFIG"):
        return {}
    user = environment.get("XDG_CONFIG_HOME") or os.path.join(home_folder(environment), ".config")
    paths = [os.path.join(user, "uv", "uv.toml"), "/etc/uv/uv.toml"]
    if named := environment.get("UV_CONFIG_FILE"):
        paths = [named]
    merged: dict[str, Any] = {}
    for path in reversed(paths):
        with suppress(OSError, ValueError):
            merged |= tomllib.loads(_text_of(path))
    return merged


def _pip_indexes(environment: Mapping[str, str], prefix: str) -> Iterator[PackageIndex]:
    written = _pip_settings(environment, prefix)
    off = environment.get("PIP_NO_INDEX") or written.get("no-index", "")
    if off.lower() in ("1", "true", "yes", "on"):
        return
    default = environment.get("PIP_INDEX_URL") or written.get("index-url") or DEFAULT
    more = environment.get("PIP_EXTRA_INDEX_URL") or written.get("extra-index-url", "")
    yield PackageIndex(default)
    yield from map(PackageIndex, more.split())


def _pip_settings(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return what pip's files say, those of the system first: later ones win."""
    home = home_folder(environment)
    user = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    paths = [
        *("/etc/xdg/pip/pip.conf", "/Library/Application Support/pip/pip.conf", "/etc/pip.conf"),
        os.path.join(home, ".pip", "pip.conf"),
        os.path.join(home, "Library", "Application Support", "pip", "pip.conf"),
        os.path.join(user, "pip", "pip.conf"),
        *([os.path.join(prefix, "pip.conf")] if prefix else []),
        *([environment["PIP_CONFIG_FILE"]] if environment.get("PIP_CONFIG_FILE") else []),
    ]
    found: dict[str, str] = {}
    for path in paths:
        parser = configparser.RawConfigParser()
        with suppress(OSError, ValueError, configparser.Error):
            parser.read_string(_text_of(path))
            for section in ("global", "install"):
                if parser.has_section(section):
                    found |= {name.replace("_", "-"): value for name, value in parser.items(section)}
    return found


def _text_of(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(_MOST_CONFIGURATION).decode("utf-8-sig")


async def newest_version(
    package: str, indexes: Iterable[PackageIndex], fetcher: HttpFetcher, python: tuple[int, int]
) -> tuple[str, PackageIndex] | None:
    """Return the newest release of a package for a Python, and its index; None if no index has one.

    The first index that has the package counts, as for uv. Raises IndexUnavailable.
    """
    for index in indexes:
        versions = _releases(package, await _files(package, index, fetcher), python)
        newest = ""
        for version in versions:
            if not newest or newer(version, newest):
                newest = version
        if newest:
            return newest, index
    return None


class _IndexFile(NamedTuple):
    name: str
    python: str
    yanked: bool


async def _files(package: str, index: PackageIndex, fetcher: HttpFetcher) -> list[_IndexFile]:
    url = f"{index.url.rstrip('/')}/{package}/"
    headers = {"Accept": _ACCEPT} | _credentials(index)
    try:
        answer = await fetcher.fetch(
            url, limit=LARGEST_ANSWER, seconds=PATIENCE, headers=headers, packed=True, redirects=True
        )
    except TimeoutError:
        why = say("no answer within {seconds:g} s", seconds=PATIENCE)
    except ResponseTooLong:
        why = say("its answer is too long")
    except HttpFailure as failure:
        why = failure.problem
        if isinstance(failure, HttpUnreachable) and failure.untrusted:
            why = say("its certificate is not trusted. Set SSL_CERT_FILE to the file of your authority")
    except UpstreamError as error:
        why = error.message
    else:
        if answer.status in _NOT_FOUND:
            return []
        if answer.status == _OK:
            kind = answer.headers.get("Content-Type", "").lower()
            return _of_json(answer.body) if "json" in kind else _of_html(answer.body)
        why = say("it answers with HTTP {status}", status=answer.status)
    raise IndexUnavailable(say("The package index {host} cannot be asked: {why}.", host=index.host, why=why))


def _credentials(index: PackageIndex) -> dict[str, str]:
    name = re.sub(r"[^A-Z0-9]", "_", index.name.upper())
    user = os.environ.get(f"UV_INDEX_{name}_USERNAME") if name else None
    if user is None:
        return {}
    return {"Authorization": basic_authorization(user, os.environ.get(f"UV_INDEX_{name}_PASSWORD", ""))}


def _of_json(body: bytes) -> list[_IndexFile]:
    try:
        found = decode(body)
    except InvalidJson:
        return []
    files = found.get("files") if isinstance(found, dict) else None
    return [
        _IndexFile(
            str(each.get("filename")), str(each.get("requires-python") or ""), bool(each.get("yanked"))
        )
        for each in files or ()
        if isinstance(each, dict)
    ]


def _of_html(body: bytes) -> list[_IndexFile]:
    return [
        _IndexFile(name, attributes.replace("&gt;", ">"), "data-yanked" in attributes)
        for attributes, name in _LINK.findall(body.decode("utf-8", "replace"))
    ]


def _releases(package: str, files: Iterable[_IndexFile], python: tuple[int, int]) -> Iterator[str]:
    """Yield the versions of files that an installer would take: releases that are not yanked."""
    for file in files:
        named = re.split(rf"^{re.escape(package)}-", file.name, maxsplit=1, flags=re.IGNORECASE)[-1]
        version = named.partition("-")[0] if file.name.endswith(".whl") else named.removesuffix(".tar.gz")
        least = _LEAST_PYTHON.search(file.python)
        fits = least is None or python >= (int(least[1]), int(least[2]))
        if fits and not file.yanked and _VERSION.fullmatch(version):
            yield version
